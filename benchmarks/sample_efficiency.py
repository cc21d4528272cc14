"""Environment steps until System 1 wins 80 % of unseen games: ours against reinforcement learning.

Ours clones 50 games, then System 1 plays and the searcher labels what it gets into (DAgger); where System 1 is about to
give a command again, the searcher steps in, since loops cost steps and teach nothing. BC + PPO clones the same 50
games, then learns from success alone; PPO from scratch has nothing else. Every step counts: demonstrations and
rollouts; only those of judging do not. A method is there when it wins the share greedy *and* sampled. A run that does
not get there within its budget (the round that crosses it is played to its end and judged) is reported as "more than
N", and a ratio to it is a lower bound. Ours goes on to 3,000 steps, for the second claim.

What it does not show: ours has a teacher that knows what to do at every visited state, which PPO has not. The claim is
about samples of the environment, not about equal knowledge.

    python -m benchmarks.sample_efficiency GAMES [--seeds 5] [--budget 100000] [--method ours]
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch

from benchmarks.household_success import BATCH_SIZE, SIZE
from benchmarks.results_file import Row, write_rows
from dualmind.data.decisions import DecisionRow
from dualmind.domains.base import Split
from dualmind.domains.household import generate
from dualmind.domains.household.domain import MAX_STEPS, Household
from dualmind.domains.household.expert import LocationPrior
from dualmind.domains.household.game import Game
from dualmind.domains.household.sources import load_games
from dualmind.evaluation.intervals import Interval, bootstrap_mean
from dualmind.evaluation.playing import Mode, play
from dualmind.learning.acting import ActingParams, act, searcher
from dualmind.learning.cloning import clone
from dualmind.learning.dagger import DaggerParams, dagger
from dualmind.learning.ppo import Ppo, PpoParams
from dualmind.learning.rewards import success_reward, trajectories
from dualmind.learning.steps import StepCounter
from dualmind.models.system1 import System1
from stages.params import load_params
from stages.prepare import demonstrate
from stages.pretrain import System1Params, lessons, texts

Method = Literal["ours", "bc_ppo", "ppo"]
SHARE = 0.8  # of unseen games
CLONED_GAMES = 50
ACTING = ActingParams(mode="sampled", teacher_share=0.0, break_loops=True, batch_size=256, max_steps=MAX_STEPS)
LATER = 3000  # steps at which ours is judged again
NAMES: dict[Method, str] = {
    "ours": f"cloning of {CLONED_GAMES} games, then DAgger",
    "bc_ppo": f"cloning of {CLONED_GAMES} games, then PPO",
    "ppo": "PPO from scratch",
}
FOREIGN = {"Stable-Baselines3 PPO": "stable_baselines3", "IMPALA": "torchbeast"}
TARGETS: dict[Method, float] = {"bc_ppo": 1.0, "ppo": 100.0}  # times the steps of ours


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one method."""

    steps: int  # at which it was judged good enough, or all that it had
    reached: bool
    success: float  # the lower one of greedy and sampled, when last judged
    later: dict[Mode, float] | None = None  # shares won at the last round that ends within LATER steps
    later_steps: int = 0

    @property
    def text(self) -> str:
        return f"{self.steps:,}" if self.reached else f"more than {self.steps:,} ({self.success:.0%})"


@dataclass(frozen=True, slots=True)
class Shown:
    """Demonstrations."""

    rows: list[DecisionRow]
    steps: int  # of the environment


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may take."""

    steps: int  # of the environment
    games: int  # a round of PPO
    labelled: int  # games a round of DAgger
    cloning_steps: int  # optimiser steps on the first games
    round_steps: int  # and in each round of DAgger


def demonstrations(games: Sequence[Game]) -> Shown:
    """The searcher's decisions on these games, and the environment steps that they took: lost games took some too."""
    domain = Household(games, LocationPrior.learn(games))
    rows, lost = demonstrate(domain, domain.problems("train"))
    return Shown(rows, len(rows) + MAX_STEPS * len(lost))


def ppo_params(method: Method, budget: Budget) -> PpoParams:
    """Near the clone where there is one; from scratch there is none to stay near to, and all of the model learns."""
    cloned = method == "bc_ppo"
    return PpoParams(
        discount=0.98, gae_lambda=0.9, clip=0.2, kl=0.2 if cloned else 0.0, entropy=0.01,
        policy_rate=3e-4 if cloned else 1e-3, value_rate=1e-3, value_width=64, value_weight=0.0 if cloned else 0.5,
        epochs=3, batch_size=256, gradient_floor=0.1, total_steps=max(1, 3 * budget.steps // 256),
    )  # fmt: skip


def learn(
    method: Method, games: Sequence[Game], shown: Shown, counter: StepCounter, budget: Budget, seed: int
) -> Iterator[System1]:
    """System 1 after each round. PPO from scratch takes nothing but its vocabulary from what was shown."""
    rows = shown.rows
    params = load_params(System1Params, "pretrain.system1")
    system1 = System1.build(params.model.model_copy(update=SIZE), texts(rows), seed)  # one for games alone
    cloning = params.cloning.model_copy(update={"steps": budget.cloning_steps, "batch_size": BATCH_SIZE})
    if method != "ppo":
        counter.add("demonstration", shown.steps)
        clone(system1, lessons(params, rows, system1, seed), cloning, seed=seed)
        yield system1
    if method == "ours":
        rounds = DaggerParams(
            rounds=1_000_000,
            games=budget.labelled,
            acting=ACTING,
            cloning=cloning.model_copy(update={"steps": budget.round_steps}),
        )  # budget ends it
        teacher = searcher(LocationPrior.learn(games[:CLONED_GAMES]))
        for _ in dagger(
            system1, games[CLONED_GAMES:], teacher, rows, rounds,
            lambda own: lessons(params, own, system1, seed), counter, seed=seed,
        ):  # fmt: skip
            yield system1
    ppo = Ppo(system1, ppo_params(method, budget), seed=seed)
    rng = np.random.default_rng([seed, 5])
    while True:
        chosen = [games[i] for i in rng.choice(len(games), budget.games)]
        ppo.update(trajectories(act(system1, chosen, ACTING, counter, rng), success_reward))
        yield system1


def run(method: Method, games: Sequence[Game], unseen: Sequence[Game], shown: Shown, budget: Budget, seed: int) -> Run:
    """Learn until good enough or out of budget; those that play more are judged at every 2 % of it, to save time."""
    counter = StepCounter()
    judged, first, last = -1, None, Run(0, False, 0.0)
    for system1 in learn(method, games, shown, counter, budget, seed):
        over = counter.total >= budget.steps
        if judged >= 0 and method != "ours" and not over and counter.total - judged < 0.02 * budget.steps:
            continue
        judged = counter.total
        if method == "ours" and first is not None and judged > LATER:
            break
        shares = judge(system1, unseen, seed, f"{method}, {judged} steps")
        success = min(shares.values())
        last = Run(judged, success >= SHARE, success, shares, judged)
        if first is None and last.reached:
            first = last
        if over or (first is not None and method != "ours"):
            break
    found = first or last
    return found if method != "ours" else replace(found, later=last.later, later_steps=last.later_steps)


def judge(system1: System1, unseen: Sequence[Game], seed: int, label: str) -> dict[Mode, float]:
    """Shares of unseen games that are won."""
    return {
        mode: float(np.mean([o.success for o in play(
            system1, unseen, mode, np.random.default_rng(seed), batch_size=256, max_steps=MAX_STEPS,
            label=f"{label}, {mode}",
        )]))
        for mode in get_args(Mode)
    }  # fmt: skip


def rows_of(runs: dict[Method, list[Run]], judged: str, words: str, begun: float) -> list[Row]:
    """Steps of each method, ratios to ours, and what could not be measured."""
    command = f"python -m benchmarks.sample_efficiency {words}"
    ours = runs.get("ours", [])
    found: list[Row] = []
    for method, own in runs.items():
        found.append(_steps_row(NAMES[method], own, judged, command, begun))
        if method != "ours" and ours and all(one.reached for one in ours):
            found.append(_ratio_row(method, own, ours, command, begun))
    if ours and all(one.later for one in ours):
        found += [_later_row(mode, ours, judged, command, begun) for mode in get_args(Mode)]
    for name, package in FOREIGN.items():
        why = "no adapter to these games is written" if find_spec(package) else f"{package} is not installed"
        found.append(_steps_row(name, [], judged, command, begun, f"not measured: {why}"))
    return found


def _steps_row(name: str, own: list[Run], judged: str, command: str, begun: float, why: str = "") -> Row:
    """Mean steps over seeds; no figure where a run never got there, since a mean of bounds is no mean."""
    known = bool(own) and all(one.reached for one in own)
    steps = _mean([one.steps for one in own]) if known else None
    return Row(
        claim=f"environment steps to {SHARE:.0%} of {judged}, greedy and sampled: {name}",
        unit="environment steps",
        value=None if steps is None else steps.value,
        low=None if steps is None else steps.low,
        high=None if steps is None else steps.high,
        target=None,
        reached=None,
        baseline=why or "by seed: " + ", ".join(one.text for one in own),
        seeds=len(own),
        command=command,
        threads=1,
        minutes=round((time.monotonic() - begun) / 60, 1),
    )


def _later_row(mode: Mode, ours: list[Run], judged: str, command: str, begun: float) -> Row:
    return Row.of(
        _mean([one.later[mode] for one in ours if one.later]),
        target=0.98,
        begun=begun,
        claim=f"success on {judged}, {mode}, ours within {LATER:,} environment steps",
        unit="share of games",
        baseline="by seed: " + ", ".join(f"{one.later[mode]:.3f} at {one.later_steps:,}" for one in ours if one.later),
        seeds=len(ours),
        command=command,
    )


def _ratio_row(method: Method, own: list[Run], ours: list[Run], command: str, begun: float) -> Row:
    """Steps against those of ours with the same seed; of censored runs the steps that they had, a lower bound."""
    ratio = _mean([one.steps / two.steps for one, two in zip(own, ours, strict=True)])
    censored = not all(one.reached for one in own)
    return Row.of(
        ratio,
        target=TARGETS[method],
        begun=begun,
        claim=f"steps to {SHARE:.0%}, {NAMES[method]}, against ours",
        unit="times the steps of ours, at least" if censored else "times the steps of ours",
        baseline="ours, by seed: " + ", ".join(one.text for one in ours),
        seeds=len(own),
        command=command,
    )


def _mean(values: Sequence[float]) -> Interval:
    return bootstrap_mean(list(map(float, values)), np.random.default_rng(0))


def load(path: Path, unseen: int, split: Split = "valid_unseen") -> tuple[list[Game], list[Game]]:
    """Games to learn from and games to be judged on; ``generated`` draws them."""
    if str(path) == "generated":
        drawn = generate.generate_games({"train": 1000, split: unseen}, 0)
    else:
        drawn = load_games(path, {"train": 1000, split: unseen})
    return [g for g in drawn if g.split == "train"], [g for g in drawn if g.split == split]


def main() -> None:
    """Measure the methods asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sample_efficiency")
    parser.add_argument("games", type=Path, help="real games (see household_success), or the word generated")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", type=int, default=100_000, help="environment steps a run")
    parser.add_argument("--round", type=int, default=60, help="games a round of PPO")
    parser.add_argument("--labelled", type=int, default=20, help="games a round of DAgger")
    parser.add_argument("--round-steps", type=int, default=200, help="optimiser steps a round of DAgger")
    parser.add_argument("--split", choices=("valid_train", "valid_unseen"), default="valid_unseen", help="for choices")
    parser.add_argument("--cloning-steps", type=int, default=500, help="optimiser steps of cloning")
    parser.add_argument("--games-unseen", type=int, default=134)
    parser.add_argument("--method", choices=get_args(Method), action="append", help="all if none is named")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    begun = time.monotonic()
    games, unseen = load(arguments.games, arguments.games_unseen, arguments.split)
    budget = Budget(
        arguments.budget, arguments.round, arguments.labelled, arguments.cloning_steps, arguments.round_steps
    )
    runs: dict[Method, list[Run]] = {}
    shown = demonstrations(games[:CLONED_GAMES])
    for method in arguments.method or get_args(Method):
        runs[method] = [run(method, games, unseen, shown, budget, seed) for seed in range(arguments.seeds)]
        print(f"{method}: {', '.join(one.text for one in runs[method])}", flush=True)
    drawn = str(arguments.games) == "generated"
    words = (
        f"{'generated' if drawn else 'GAMES'} --seeds {arguments.seeds} --budget {arguments.budget} "
        f"--round {arguments.round} --labelled {arguments.labelled} --cloning-steps {arguments.cloning_steps} "
        f"--round-steps {arguments.round_steps} --games-unseen {arguments.games_unseen}"
    )
    if arguments.split != "valid_unseen":
        return  # a choice is no result
    judged = f"{len(unseen)} unseen {'generated' if drawn else 'real'} games"
    write_rows("sample_efficiency", rows_of(runs, judged, words, begun))


if __name__ == "__main__":
    main()
