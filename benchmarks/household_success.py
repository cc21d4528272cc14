"""Success on real ALFWorld games that were never used in training or in any choice, by number of demonstrations.

System 1 is cloned from the searcher's decisions on 50, 200 and 1,000 real training games, and on generated games
alone; then it plays all of ``valid_unseen``, greedy and sampled. Every choice (model, steps, rates) was made on
``valid_train``.

    python -m benchmarks.household_success GAMES [--seeds 3] [--only 50]
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.results_file import Row, write_rows
from dualmind.data.decisions import DecisionRow
from dualmind.domains.household import generate
from dualmind.domains.household.domain import Household
from dualmind.domains.household.expert import LocationPrior
from dualmind.domains.household.game import Game
from dualmind.domains.household.sources import load_games
from dualmind.evaluation.intervals import bootstrap_mean
from dualmind.evaluation.playing import play
from dualmind.learning.cloning import clone
from dualmind.models.system1 import System1
from stages.params import load_params
from stages.prepare import demonstrate
from stages.pretrain import System1Params, lessons, texts

# games -> (optimiser steps, success that is claimed); steps chosen on valid_train
SETTINGS: dict[str, tuple[int, float]] = {
    "50": (500, 0.75),
    "200": (800, 0.92),
    "1000": (1500, 0.98),
    "generated": (1500, 0.95),
}
SIZE, BATCH_SIZE = {"d_model": 64, "d_ff": 192}, 64  # chosen on valid_train
MAX_STEPS = 50


def demonstrations(games: Sequence[Game]) -> list[DecisionRow]:
    """The searcher's decisions, with a prior learnt from the same games."""
    domain = Household(games, LocationPrior.learn(games))
    rows, _ = demonstrate(domain, domain.problems("train"))
    return rows


def train(rows: list[DecisionRow], steps: int, seed: int) -> System1:
    """System 1 for games alone: half as wide as the default profile's, which answers questions as well."""
    params = load_params(System1Params, "pretrain.system1")
    model = params.model.model_copy(update=SIZE)
    system1 = System1.build(model, texts(rows), seed)
    cloning = params.cloning.model_copy(update={"steps": steps, "batch_size": BATCH_SIZE})
    clone(system1, lessons(params, rows, system1, seed), cloning, seed=seed)
    return system1


def training_games(setting: str, path: Path, seed: int) -> list[Game]:
    """Real games, the same ones for every seed of training; or generated ones."""
    if setting == "generated":
        return generate.generate_games({"train": 1000}, seed)
    return load_games(path, {"train": int(setting)})


def measure(setting: str, path: Path, seeds: int) -> list[Row]:
    """Two rows: greedy and sampled success, mean over seeds."""
    begun = time.monotonic()
    steps, target = SETTINGS[setting]
    unseen = load_games(path, {"valid_unseen": 1000})
    won: dict[str, list[list[bool]]] = {"greedy": [], "sampled": []}
    spent = 0
    for seed in range(seeds):
        rows = demonstrations(training_games(setting, path, seed))
        spent = len(rows)
        system1 = train(rows, steps, seed)
        for mode in ("greedy", "sampled"):
            outcomes = play(system1, unseen, mode, np.random.default_rng(seed), batch_size=128, max_steps=MAX_STEPS)
            won[mode].append([outcome.success for outcome in outcomes])
    return [_row(setting, mode, np.array(own), target, spent, begun) for mode, own in won.items()]


def _row(setting: str, mode: str, won: NDArray[np.bool_], target: float, spent: int, begun: float) -> Row:
    """Mean over seeds; the interval resamples games (all seeds of a game together, since they share its difficulty)."""
    found = bootstrap_mean(won.mean(axis=0).tolist(), np.random.default_rng(0))  # over (games,)
    source = "1,000 generated games" if setting == "generated" else f"{int(setting):,} real training games"
    by_seed = ", ".join(f"{share:.3f}" for share in won.mean(axis=1))
    return Row.of(
        found,
        target=target,
        begun=begun,
        claim=f"success on real valid_unseen ({won.shape[1]} games), {mode}, "
        f"from {source} ({spent:,} environment steps)",
        unit="share of games",
        baseline=f"by seed: {by_seed}",
        seeds=len(won),
        command="python -m benchmarks.household_success GAMES",
    )


def main() -> None:
    """Measure the chosen settings."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.household_success")
    parser.add_argument("games", type=Path, help="real games: a folder of game.tw-pddl or a .jsonl.xz file")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=SETTINGS, help="one setting")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for setting in [arguments.only] if arguments.only else SETTINGS:
        rows = measure(setting, arguments.games, arguments.seeds)
        write_rows(f"household_success_{setting}", rows)
        for row in rows:
            print(f"{row.claim}: {row.value:.3f} [{row.low:.3f}, {row.high:.3f}] ({row.baseline})", flush=True)


if __name__ == "__main__":
    main()
