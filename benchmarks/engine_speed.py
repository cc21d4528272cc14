"""Steps per second of the household engine, beside ALFWorld's own engine on the same games and commands.

A step is a command and the admissible commands after it. Loading and resetting are not counted, which favours the stock
engine: it takes seconds for each. Every game has a random walk of its own, which both engines play one after the other
in one process, timed in its CPU seconds: whatever else loads the machine then weighs on both alike.
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
NUM_GAMES = 15
STEPS_PER_GAME = 30
REPEATS = 300  # of each walk by our engine: one takes about a millisecond, too short to time
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


def has_stock_engine(python: str) -> bool:
    """Can this interpreter play with ALFWorld's engine?"""
    command = [python, "-c", "import alfworld, fast_downward, textworld"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def rates_under(python: str, games: list[Game]) -> list[tuple[float, float]]:
    """Both engines' rates on each game, ours first, measured by an interpreter that has both."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "games.jsonl", Path(folder) / "rates.json"
        given.write_text("\n".join(game.to_json() for game in games))
        worker = [python, "-W", "ignore", "-m", "benchmarks.engine_speed", "--worker", str(given), str(found)]
        subprocess.run(worker, check=True, cwd=ROOT, stdout=sys.stderr)
        return [(ours, stock) for ours, stock in json.loads(found.read_text())]


def work(given: Path, found: Path) -> None:
    """Measure both engines; runs under the interpreter that has them."""
    from tests.domains.household.stock import StockEngine

    games, rates = [Game.from_json(line) for line in given.read_text().splitlines()], []
    for seed, game in enumerate(games):
        commands = walk(game, seed)
        ours = steps_per_s(HouseholdEngine(game), commands, REPEATS)
        stock = steps_per_s(StockEngine(to_pddl(game), game.goal_text), commands, repeats=1)
        rates.append((ours, stock))
        print(f"game {seed + 1} of {len(games)}: ours {ours:,.0f}, stock {stock:.1f} steps/s", flush=True)
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
    begun = time.monotonic()
    real = REAL_GAMES.is_file()
    games = load_games(REAL_GAMES, {"train": NUM_GAMES}) if real else generate_games({"train": NUM_GAMES}, seed=0)
    if has_stock_engine(arguments.alfworld_python):
        both = rates_under(arguments.alfworld_python, games)
        ours, stock = [a for a, _ in both], [b for _, b in both]
    else:
        ours, stock = [steps_per_s(HouseholdEngine(g), walk(g, seed), REPEATS) for seed, g in enumerate(games)], []
    print(write_rows("engine_speed", rows(ours, stock, "real" if real else "generated", begun)).read_text())


def rows(ours: list[float], stock: list[float], kind: str, begun: float) -> list[Row]:
    """Both claims; without the stock engine's rates the second one is reported as not measured."""
    rng = np.random.default_rng(0)
    speed, ratio = bootstrap_mean(ours, rng), None
    baseline = "not measured: the interpreter has no alfworld; give one that has by --alfworld-python"
    if stock:
        theirs = bootstrap_mean(stock, rng)
        ratio = bootstrap_mean([a / b for a, b in zip(ours, stock, strict=True)], rng)
        baseline = f"stock engine, {theirs.value:.1f} steps/s ({theirs.low:.1f} to {theirs.high:.1f}), same walks"

    def row(claim: str, unit: str, found: Interval | None, target: float) -> Row:
        return Row.of(
            found,
            target=target,
            begun=begun,
            claim=f"{claim}, {len(ours)} {kind} games, admissible commands included",
            unit=unit,
            baseline=baseline,
            seeds=len(ours),
            command="python -m benchmarks.engine_speed --alfworld-python PYTHON",
        )

    return [
        row("household engine", "steps/s", speed, TARGET_STEPS_PER_S),
        row("household engine against the stock engine", "times", ratio, TARGET_RATIO),
    ]


if __name__ == "__main__":
    main()
