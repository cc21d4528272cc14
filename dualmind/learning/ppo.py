"""PPO over distributions of commands: learning from rewards alone, held near the policy that was cloned.

Proximal policy optimisation (Schulman et al. 2017, Eq. 7) with generalised advantage estimation (Schulman et al. 2016,
Eq. 16). Beyond those: the KL divergence to a fixed reference policy, and a clip of the gradient that closes along a
cosine.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor, nn

from dualmind.errors import LearningError
from dualmind.learning.batching import TokenizedDecisions
from dualmind.learning.skipped import Skipped
from dualmind.models.scoring import CommandScorer, ScoringBatch
from dualmind.models.text_model import TextModel

Floats = NDArray[np.float64]


class PpoParams(BaseModel):
    """How a policy learns from rewards. In brackets: the articles' values."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    discount: Annotated[float, Field(gt=0, le=1)]  # of a reward one step later; below 1, shorter games are better
    gae_lambda: Annotated[float, Field(ge=0, le=1)]  # 0: one-step advantages, 1: whole returns (0.9)
    clip: PositiveFloat  # of the probability ratio
    kl: NonNegativeFloat  # weight of the divergence from the reference (0.2 to 0.3)
    entropy: NonNegativeFloat  # weight of the bonus (0.01)
    policy_rate: PositiveFloat  # of AdamW
    value_rate: PositiveFloat  # of AdamW, for the value head (3e-5)
    value_width: PositiveInt  # of the value head's hidden layer
    value_weight: NonNegativeFloat  # of its error in what the encoder learns; 0 keeps the encoder to the policy
    epochs: PositiveInt  # over the decisions of one update
    batch_size: PositiveInt  # decisions an optimiser step
    gradient_floor: PositiveFloat  # below which the cosine never clips
    total_steps: PositiveInt  # optimiser steps after which the cosine has reached its floor


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One game of T decisions, as it was played by the policy that is to be updated.

    A game that was cut off at its limit of steps is over: it was lost, and nothing comes after.
    """

    prompts: tuple[str, ...]
    candidates: tuple[tuple[str, ...], ...]
    chosen: tuple[int, ...]  # index among the candidates
    rewards: tuple[float, ...]  # what followed each decision


@dataclass(frozen=True, slots=True)
class PpoReport:
    """What an update did: means over its optimiser steps."""

    loss: float
    kl: float  # from the reference, nats
    entropy: float  # nats
    clipped: float  # share of decisions whose ratio was clipped
    value_error: float  # mean square
    gradient_clip: float  # at the last step
    mean_return: float  # of the games, not discounted


def advantages(rewards: Floats, values: Floats, discount: float, gae_lambda: float) -> Floats:
    """Generalised advantage estimates of one game that ends with its last reward (T,).

    A_t = sum over l of (discount * gae_lambda)^l * delta_{t+l}, delta_t = r_t + discount * V_{t+1} - V_t
    (Schulman et al. 2016, Eq. 16), where V is 0 after the end.
    """
    following = np.append(values[1:], 0.0)
    deltas = rewards + discount * following - values
    found = np.zeros_like(deltas)
    running = 0.0
    for t in range(len(deltas) - 1, -1, -1):
        running = deltas[t] + discount * gae_lambda * running
        found[t] = running
    return found


def clipped_objective(log_ratio: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """min(r A, clip(r, 1 - clip, 1 + clip) A) of each decision (B,), to be maximised (Schulman et al. 2017, Eq. 7)."""
    ratio = log_ratio.exp()
    return torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)


def cosine_clip(step: int, total: int, floor: float) -> float:
    """Largest norm of the gradient at ``step``: 0.5 * (1 + cos(pi * step / total)), never below ``floor``.

    The formula is 0 at the end, where nothing could be learnt any more; hence the floor.
    """
    return max(floor, 0.5 * (1 + math.cos(math.pi * min(step / total, 1.0))))


def mean_states(states: Tensor, mask: Tensor) -> Tensor:
    """What a value is read from, the mean over each prompt's words: (B, L, D), (B, L) to (B, D)."""
    weight = mask[..., None].to(states.dtype)
    return (states * weight).sum(1) / weight.sum(1)


def divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """KL(p || q) in nats of each row (B,), exact over commands (B, C); padding has probability 0."""
    return (log_p.exp() * (log_p - log_q)).sum(-1)


class Ppo:
    """Updates a policy in place.

    Args:
        system: the policy; only its scoring of commands is trained.
        params: how.
        seed: of the value head and the order of decisions.
        reference: the policy to stay near to; the system as it is now if None.
    """

    def __init__(
        self, system: TextModel, params: PpoParams, *, seed: int, reference: CommandScorer | None = None
    ) -> None:
        self.system, self.params, self._seed = system, params, seed
        self.updates = self.steps = 0
        self.reference: CommandScorer | None = None
        if params.kl > 0:
            self.reference = (reference or copy.deepcopy(system.scorer)).eval().requires_grad_(False)
        width = system.model.config.hidden_size
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.value_head = nn.Sequential(
                nn.Linear(width, params.value_width), nn.Tanh(), nn.Linear(params.value_width, 1)
            ).to(system.model.device)
        self.policy_optimizer = torch.optim.AdamW(
            [p for p in system.model.parameters() if p.requires_grad], lr=params.policy_rate, weight_decay=0.0
        )
        self.value_optimizer = torch.optim.AdamW(self.value_head.parameters(), lr=params.value_rate, weight_decay=0.0)

    def update(self, games: Sequence[Trajectory]) -> PpoReport | Skipped:
        """Learn from games that the current policy played.

        Returns:
            What was done, or the reason why nothing was: all rewards are alike, so none of the decisions is better than
            another.

        Raises:
            LearningError: a reward is no number, or the update left weights that are none.
        """
        games = [game for game in games if game.prompts]
        _check_rewards(games)
        if reason := _nothing_to_learn(games):
            return Skipped(reason)
        decisions = _tokenize(self.system, games)
        old, reference, values = self._judge(decisions)
        gains = np.concatenate(
            [
                advantages(np.array(game.rewards), own, self.params.discount, self.params.gae_lambda)
                for game, own in zip(games, _split(values, games), strict=True)
            ]
        )
        returns = torch.tensor(gains + values, dtype=torch.float32)
        gains = (gains - gains.mean()) / max(float(gains.std()), 1e-8)
        report = self._optimise(decisions, old, reference, torch.tensor(gains, dtype=torch.float32), returns)
        self.updates += 1
        if not all(bool(p.isfinite().all()) for p in self.system.model.parameters()):
            raise LearningError(
                f"update {self.updates} of PPO left weights that are no numbers; "
                f"lower ppo.policy_rate = {self.params.policy_rate} and go on from the last checkpoint"
            )
        return PpoReport(**report, mean_return=float(np.mean([sum(game.rewards) for game in games])))

    def state(self) -> dict[str, Tensor]:
        """All that an update depends on beside the policy: the value head, both optimisers and the counts."""
        found = {f"value_head.{name}": value for name, value in self.value_head.state_dict().items()}
        for name, optimizer in self._optimizers():
            for index, own in optimizer.state_dict()["state"].items():
                found |= {f"{name}.{index}.{key}": value for key, value in own.items()}
        return found | {"counts": torch.tensor([self.updates, self.steps])}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from what :meth:`state` gave, of the same system and params."""
        head = {name.removeprefix("value_head."): v for name, v in state.items() if name.startswith("value_head.")}
        self.value_head.load_state_dict(head)
        for name, optimizer in self._optimizers():
            own = optimizer.state_dict()
            for key, value in state.items():
                if key.startswith(f"{name}."):
                    _, index, field = key.split(".")
                    own["state"].setdefault(int(index), {})[field] = value
            optimizer.load_state_dict(own)
        self.updates, self.steps = map(int, state["counts"])

    def _optimizers(self) -> tuple[tuple[str, torch.optim.Optimizer], ...]:
        return ("policy", self.policy_optimizer), ("value", self.value_optimizer)

    @torch.no_grad()
    def _judge(self, decisions: TokenizedDecisions) -> tuple[list[Tensor], list[Tensor], Floats]:
        """Log-probabilities over each decision's commands by the policy and the reference, and values (N,)."""
        old: list[Tensor] = [torch.empty(0)] * len(decisions)
        reference, values = list(old), np.zeros(len(decisions))
        order = np.argsort([len(prompt) for prompt in decisions.prompts], kind="stable")
        for start in range(0, len(order), 256):
            own = order[start : start + 256]
            batch = decisions.batch(own.tolist())[0].to(self.system.model.device)
            said, value = self._forward(batch)
            fixed = said if self.reference is None else self.reference(batch).log_softmax(-1)
            values[own] = value.cpu().numpy()
            for i, a, b, mask in zip(own, said, fixed, batch.command_mask, strict=True):
                old[i], reference[i] = a[mask].cpu(), b[mask].cpu()
        return old, reference, values

    def _forward(self, batch: ScoringBatch) -> tuple[Tensor, Tensor]:
        """Log-probabilities (B, C) and values (B,)."""
        states = self.system.scorer.read(batch)
        said = self.system.scorer.score(states, batch).log_softmax(-1)
        seen = mean_states(states, batch.prompt_mask).float()
        if self.params.value_weight == 0:
            seen = seen.detach()
        return said, self.value_head(seen).squeeze(-1)

    def _optimise(
        self, decisions: TokenizedDecisions, old: list[Tensor], reference: list[Tensor], gains: Tensor, returns: Tensor
    ) -> dict[str, float]:
        params, device = self.params, self.system.model.device
        rng = np.random.default_rng([self._seed, self.updates])
        measured: list[Tensor] = []
        most = params.gradient_floor
        for _ in range(params.epochs):
            order = rng.permutation(len(decisions))
            for start in range(0, len(order), params.batch_size):
                own = order[start : start + params.batch_size].tolist()
                batch, chosen = decisions.batch(own)
                batch, chosen = batch.to(device), chosen.to(device)[:, None]
                said, value = self._forward(batch)
                before = torch.stack([old[i][decisions.chosen[i]] for i in own]).to(device)
                log_ratio = said.gather(1, chosen).squeeze(1) - before
                kl = divergence(said, _pad([reference[i] for i in own], said)).mean()
                entropy = -(said.exp() * said).sum(-1).mean()
                gain = clipped_objective(log_ratio, gains[own].to(device), params.clip).mean()
                policy_loss = -gain + params.kl * kl - params.entropy * entropy
                error = (value - returns[own].to(device)).square().mean()
                # the head's own rate is value_rate, whatever its error weighs in the encoder
                loss = policy_loss + (params.value_weight or 1.0) * error
                most = cosine_clip(self.steps, params.total_steps, params.gradient_floor)
                self._step(loss, most)
                clipped = (log_ratio.exp() - 1).abs() > params.clip
                measured.append(torch.stack([policy_loss, kl, entropy, clipped.float().mean(), error]).detach())
        names = ("loss", "kl", "entropy", "clipped", "value_error")
        return {**dict(zip(names, torch.stack(measured).mean(0).tolist(), strict=True)), "gradient_clip": most}

    def _step(self, loss: Tensor, most: float) -> None:
        self.policy_optimizer.zero_grad()
        self.value_optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.system.model.parameters(), most)
        nn.utils.clip_grad_norm_(self.value_head.parameters(), most)
        self.policy_optimizer.step()
        self.value_optimizer.step()
        self.steps += 1


def _check_rewards(games: Sequence[Trajectory]) -> None:
    for number, game in enumerate(games):
        assert len(game.prompts) == len(game.candidates) == len(game.chosen) == len(game.rewards)
        for step, reward in enumerate(game.rewards):
            if not math.isfinite(reward):
                raise LearningError(
                    f"the reward of game {number} at step {step} is {reward}, which is no finite number; nothing was "
                    "learnt from these games; look at the reward model's weights"
                )


def _nothing_to_learn(games: Sequence[Trajectory]) -> str | None:
    """The reason, where all rewards are alike."""
    if not games:
        return "there are no games to learn from"
    rewards = {reward for game in games for reward in game.rewards}
    if len(rewards) == 1:
        return (
            f"every reward of {len(games)} games is {rewards.pop()}: no decision is better than another, so nothing "
            "was changed; play more games, clone the policy longer, or give a denser reward"
        )
    return None


def _tokenize(system: TextModel, games: Sequence[Trajectory]) -> TokenizedDecisions:
    return TokenizedDecisions(
        prompts=system.prompt_ids([prompt for game in games for prompt in game.prompts]),
        commands=[system.command_ids(own) for game in games for own in game.candidates],
        chosen=[index for game in games for index in game.chosen],
        pad=system.pad_id,
    )


def _split(values: Floats, games: Sequence[Trajectory]) -> list[Floats]:
    return np.split(values, np.cumsum([len(game.prompts) for game in games])[:-1])


def _pad(rows: Sequence[Tensor], like: Tensor) -> Tensor:
    """Rows of several lengths as (B, C); what pads them meets a probability of 0."""
    out = torch.zeros_like(like)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out
