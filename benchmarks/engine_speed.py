"""Steps per second of the household engine, beside ALFWorld's own engine on the same games and commands.

A step is a command and the admissible commands after it. Loading and resetting are not counted, which favours the stock
engine: it takes seconds for each. Both are timed in CPU seconds of one process, so other load on the machine does not
count; the games are played by random walks that our engine makes first, one of each (seed, game).
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Protocol

import numpy as np

from benchmarks.results_file import Row, write_rows
from dualmind.domains.household.engine import HouseholdEngine
from dualmind.domains.household.game import Game
from dualmind.domains.household.generate import generate_games
from dualmind.domains.household.pddl import to_pddl
from dualmind.domains.household.sources import load_games
from dualmind.evaluation.intervals import Interval, bootstrap_mean

ROOT = Path(__file__).resolve().parents[1]
REAL_GAMES = ROOT / "../shared/data/alfworld/games.jsonl.xz"
SEEDS = 5
GAMES_PER_SEED = 3
STEPS_PER_GAME = 30
REPEATS = 300  # of each walk by our engine: one takes under a millisecond, which no clock measures well
TARGET_STEPS_PER_S = 20_000.0
TARGET_RATIO = 1_000.0


class Engine(Protocol):
    """What both engines offer."""

    def reset(self) -> str: ...
    def step(self, command: str) -> tuple[str, float, bool]: ...
    def admissible_commands(self) -> list[str]: ...


def walk(game: Game, seed: int) -> list[str]:
    """Commands of a random walk."""
    engine, rng, commands = HouseholdEngine(game), random.Random(seed), []
    engine.reset()
    for _ in range(STEPS_PER_GAME):
        commands.append(rng.choice(engine.admissible_commands()))
        engine.step(commands[-1])
    return commands


def steps_per_s(engine: Engine, commands: list[str], repeats: int) -> float:
    """Rate over a walk, played ``repeats`` times, in steps per CPU second."""
    seconds = 0.0
    for _ in range(repeats):
        engine.reset()
        start = time.process_time()
        for command in commands:
            engine.step(command)
            engine.admissible_commands()
        seconds += time.process_time() - start
    return repeats * len(commands) / seconds


def stock_rates(python: str, plays: list[tuple[Game, list[str]]]) -> list[float] | None:
    """The stock engine's rate on each play, by an interpreter that has it; None where it has not."""
    if subprocess.run([python, "-c", "import alfworld, textworld"], capture_output=True, check=False).returncode != 0:
        return None
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "plays.json", Path(folder) / "rates.json"
        given.write_text(json.dumps([[to_pddl(game), game.goal_text, commands] for game, commands in plays]))
        worker = [python, "-W", "ignore", "-m", "benchmarks.engine_speed", "--worker", str(given), str(found)]
        subprocess.run(worker, check=True, cwd=ROOT, stdout=sys.stderr)
        rates: list[float] = json.loads(found.read_text())
    return rates


def work(given: Path, found: Path) -> None:
    """Play with the stock engine; runs under the interpreter that has it."""
    from tests.domains.household.stock import StockEngine

    plays, rates = json.loads(given.read_text()), []
    for number, (problem, goal_text, commands) in enumerate(plays, start=1):
        rates.append(steps_per_s(StockEngine(problem, goal_text), commands, repeats=1))
        print(f"stock engine, game {number} of {len(plays)}: {rates[-1]:.1f} steps/s", flush=True)
    found.write_text(json.dumps(rates))


def main() -> None:
    """Measure both engines and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alfworld-python", default=sys.executable, help="an interpreter that has the extra alfworld")
    parser.add_argument("--worker", nargs=2, type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(*arguments.worker)
        return
    start, number = time.monotonic(), SEEDS * GAMES_PER_SEED
    real = REAL_GAMES.is_file()
    games = load_games(REAL_GAMES, {"train": number}) if real else generate_games({"train": number}, seed=0)
    plays = [(game, walk(game, seed)) for seed, game in enumerate(games)]
    ours = [steps_per_s(HouseholdEngine(game), commands, REPEATS) for game, commands in plays]
    print(f"our engine: {np.mean(ours):,.0f} steps/s", file=sys.stderr, flush=True)
    stock = stock_rates(arguments.alfworld_python, plays)
    minutes = (time.monotonic() - start) / 60
    path = write_rows("engine_speed", rows(ours, stock, "real" if real else "generated", minutes))
    print(path.read_text())


def rows(ours: list[float], stock: list[float] | None, kind: str, minutes: float) -> list[Row]:
    """Both claims; without the stock engine the second one is reported as not measured."""
    rng = np.random.default_rng(0)
    speed, ratio = bootstrap_mean(ours, rng), None
    baseline = "not measured: the interpreter has no alfworld; give one by --alfworld-python"
    if stock is not None:
        theirs = bootstrap_mean(stock, rng)
        ratio = bootstrap_mean([a / b for a, b in zip(ours, stock, strict=True)], rng)
        baseline = f"stock engine, {theirs.value:.1f} steps/s ({theirs.low:.1f} to {theirs.high:.1f}), same walks"
    where = f"{len(ours)} {kind} games, admissible commands included"
    return [
        _row(f"household engine, {where}", "steps/s", speed, TARGET_STEPS_PER_S, baseline=baseline, minutes=minutes),
        _row(
            f"household engine against the stock engine, {where}",
            "times",
            ratio,
            TARGET_RATIO,
            baseline=baseline,
            minutes=minutes,
        ),
    ]


def _row(claim: str, unit: str, found: Interval | None, target: float, *, baseline: str, minutes: float) -> Row:
    return Row(
        claim=claim,
        unit=unit,
        value=None if found is None else found.value,
        low=None if found is None else found.low,
        high=None if found is None else found.high,
        target=target,
        reached=None if found is None else found.low >= target,
        baseline=baseline,
        seeds=SEEDS,
        command="python -m benchmarks.engine_speed --alfworld-python PYTHON",
        threads=1,
        minutes=minutes,
    )


if __name__ == "__main__":
    main()
