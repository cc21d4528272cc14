"""How the reward by inverse RL ranks games that it was not told from: rank correlation with the true return.

The true return is success, discounted by each command that it took. Each seed takes other games to tell the reward from
and to judge it on (valid_train), played by the expert, by System 1 and at random. Lost games are all worth 0, and ties
cost a rank correlation: the most that any reward could reach stands beside.

    python -m benchmarks.reward_rank [--seeds 5]     # after `dvc repro pretrain@system1`
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.results_file import Row, write_rows
from dualmind.data.problems import read_problems
from dualmind.data.validation import open_validated
from dualmind.domains.household.game import Game
from dualmind.evaluation.intervals import bootstrap_mean
from dualmind.models.system1 import System1
from stages.params import load_params
from stages.reward import RewardParams, tell_household


def main() -> None:
    """Measure and write ``benchmarks/results/reward_rank.json``."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reward_rank")
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    torch.set_num_threads(1)
    begun = time.monotonic()
    params = load_params(RewardParams, "reward")
    system1 = System1.load(Path("artifacts/pretrain/system1"))
    problems = open_validated(Path("artifacts/validate/household/problems.json"))
    games, held = (
        [Game.from_json(row.payload) for row in read_problems(problems, split)] for split in ("train", "valid_train")
    )
    found: list[float] = []
    beside: list[str] = []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 19])
        own = [[pool[i] for i in rng.permutation(len(pool))] for pool in (games, held)]
        _, metrics = tell_household(params, seed, system1, *own)
        found.append(metrics["rank_correlation"])
        beside.append(f"{metrics['rank_correlation']:.3f} of {metrics['rank_correlation_ceiling']:.3f}")
        print(f"seed {seed}: {beside[-1]}", flush=True)
    judged = 3 * min(params.judged_games, len(held))
    row = Row.of(
        bootstrap_mean(found, np.random.default_rng(0)),
        target=0.8,
        begun=begun,
        claim=f"reward by inverse RL: rank correlation with the true return over {judged} games it was not told from",
        unit="Spearman's rho",
        baseline="by seed, and the most that any reward could reach: " + ", ".join(beside),
        seeds=seeds,
        command="python -m benchmarks.reward_rank",
    )
    write_rows("reward_rank", [row])


if __name__ == "__main__":
    main()
