"""Policy gradient for policies that ask for choices: macro/micro and flat ones learn by the same few lines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from dualmind.agent.macro import WIDTHS, Ask, Net, Play, Played
from dualmind.domains.debugging.domain import DebuggingEpisode

Player = Callable[[DebuggingEpisode], Play]
HIDDEN: dict[Net, int] = {"macro": 38, "micro": 36, "flat": 64}  # macro and micro together have as many as flat
ENTROPY = 0.01
RATE = 3e-3


class Chooser(nn.Module):
    """Scores options by their features; a softmax over them is the policy."""

    def __init__(self, net: Net, generator: torch.Generator) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTHS[net], HIDDEN[net]), nn.Tanh(), nn.Linear(HIDDEN[net], 1))
        for weight in self.parameters():
            bound = weight.shape[-1] ** -0.5
            nn.init.uniform_(weight, -bound, bound, generator=generator)

    def forward(self, features: Tensor, there: Tensor) -> Tensor:
        """Log-probabilities (asks, options) of features (asks, options, width); where ``there`` is False, about 0."""
        scores = self.layers(features).squeeze(-1)
        return torch.log_softmax(scores.masked_fill(~there, -1e9), -1)


Choosers = Mapping[Net, Chooser]


def build(nets: Sequence[Net], seed: int) -> Choosers:
    """New networks for these parts of a policy."""
    generator = torch.Generator().manual_seed(seed)
    return {net: Chooser(net, generator) for net in nets}


def num_parameters(choosers: Choosers) -> int:
    """Parameters of all networks of a policy."""
    return sum(weight.numel() for chooser in choosers.values() for weight in chooser.parameters())


@dataclass(frozen=True, slots=True)
class Choice:
    """What was asked, what was chosen, and in which episode."""

    ask: Ask
    chosen: int
    episode: int


def roll(
    episodes: Sequence[DebuggingEpisode],
    player: Player,
    choosers: Choosers,
    rng: np.random.Generator,
    greedy: bool = False,
) -> tuple[list[Played], list[Choice]]:
    """Play episodes to their ends, all at a time; without a network for what is asked, by chance."""
    plays = [player(episode) for episode in episodes]
    asks = {i: next(play) for i, play in enumerate(plays)}
    ended: dict[int, Played] = {}
    choices: list[Choice] = []
    while asks:
        answers = _answers(asks, choosers, rng, greedy)
        for i, chosen in answers.items():
            choices.append(Choice(asks[i], chosen, i))
            try:
                asks[i] = plays[i].send(chosen)
            except StopIteration as stop:
                ended[i] = stop.value
                del asks[i]
    return [ended[i] for i in range(len(plays))], choices


def _answers(asks: Mapping[int, Ask], choosers: Choosers, rng: np.random.Generator, greedy: bool) -> dict[int, int]:
    answers: dict[int, int] = {}
    for net in dict.fromkeys(ask.net for ask in asks.values()):
        own = {i: ask for i, ask in asks.items() if ask.net == net}
        if net not in choosers:
            answers |= {i: int(rng.integers(len(ask.features))) for i, ask in own.items()}
            continue
        with torch.no_grad():
            logs = choosers[net](*_padded(list(own.values()))).numpy()
        noise = 0.0 if greedy else rng.gumbel(size=logs.shape)  # the largest is then a draw from the softmax
        answers |= dict(zip(own, (logs + noise).argmax(-1).tolist(), strict=True))
    return dict(sorted(answers.items()))


def _padded(asks: Sequence[Ask]) -> tuple[Tensor, Tensor]:
    """Features (asks, options, width), and which options are there (asks, options)."""
    most = max(len(ask.features) for ask in asks)
    features = np.zeros((len(asks), most, asks[0].features.shape[1]), dtype=np.float32)
    there = np.zeros((len(asks), most), dtype=np.bool_)
    for row, ask in enumerate(asks):
        features[row, : len(ask.features)] = ask.features
        there[row, : len(ask.features)] = True
    return torch.from_numpy(features), torch.from_numpy(there)


def policy_loss(choosers: Choosers, choices: Sequence[Choice], advantages: Tensor) -> Tensor:
    """REINFORCE (Williams 1992) with an entropy bonus; ``advantages`` (episodes,) have been baselined."""
    loss = torch.zeros(())
    for net, chooser in choosers.items():
        own = [choice for choice in choices if choice.ask.net == net]
        if own:
            logs = chooser(*_padded([choice.ask for choice in own]))  # (asks, options)
            taken = logs[torch.arange(len(own)), torch.tensor([choice.chosen for choice in own])]
            entropy = -(logs.exp() * logs).sum(-1)
            loss = loss - (advantages[[c.episode for c in own]] * taken + ENTROPY * entropy).mean()
    return loss


def train(
    choosers: Choosers,
    episodes: Sequence[DebuggingEpisode],
    player: Player,
    rng: np.random.Generator,
    *,
    updates: int,
    group: int,
    copies: int,
    after: Callable[[Sequence[Played]], None],
) -> int:
    """Learn from own episodes; returns the number of test runs that it took.

    Args:
        choosers: networks, changed in place.
        episodes: training problems.
        player: how they are played.
        rng: source of the problems' order and of the draws.
        updates: gradient steps.
        group: problems of one step.
        copies: episodes of each problem in a step; their mean reward is the baseline (Shao et al. 2024, section 4.1).
        after: is given the episodes of each step.
    """
    weights = [weight for chooser in choosers.values() for weight in chooser.parameters()]
    optimizer = torch.optim.Adam(weights, lr=RATE)
    runs = 0
    for _ in range(updates):
        drawn = [episodes[int(i)] for i in rng.choice(len(episodes), size=group, replace=False)]
        batch = [DebuggingEpisode(own.bug, own.results, own.budget) for own in drawn for _ in range(copies)]
        played, choices = roll(batch, player, choosers, rng)
        rewards = torch.tensor([own.reward for own in played]).view(group, copies)
        advantages = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std() + 1e-6)
        optimizer.zero_grad()
        policy_loss(choosers, choices, advantages.flatten()).backward()
        optimizer.step()
        runs += sum(own.runs for own in played)
        after(played)
    return runs
