"""Runs all benchmarks that fit in an hour; those that need real games run where they are (``--games PATH``).

python -m benchmarks.run [--games PATH] [--mlflow-python PATH] [--kedro-python PATH]
"""

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.engine_speed import REAL_GAMES

MADE = Path("artifacts/calibrate/threshold.json")  # by `make repro`


def main() -> int:
    """Run them one after the other; returns the number of those that failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run")
    parser.add_argument("--games", type=Path, default=REAL_GAMES, help="real ALFWorld games")
    for name in ("mlflow", "kedro"):
        parser.add_argument(f"--{name}-python", metavar="PATH", help=f"an interpreter that has {name}, to compare with")
    given = parser.parse_args()
    games: Path = given.games
    commands = [["benchmarks.engine_speed"], ["benchmarks.system1_speed"], ["benchmarks.unchanged_repro"]]
    commands += [["benchmarks.calibration_validity"], ["benchmarks.calibration_scale"]]
    commands += [["benchmarks.look_up"], ["benchmarks.macro_micro"], ["benchmarks.counterfactual"]]
    if MADE.exists():
        commands += [["benchmarks.serving_load"], ["benchmarks.memory_gateway"]]
    else:
        print(
            f"nothing was made yet ({MADE} is missing): benchmarks.serving_load and memory_gateway are left out",
            file=sys.stderr,
        )
    commands.append(["benchmarks.audit_questions", *_option("--mlflow-python", given.mlflow_python)])
    commands.append(["benchmarks.orchestration_cost", *_option("--kedro-python", given.kedro_python)])
    if Path("releases/r1").is_dir():
        commands.append(["benchmarks.audit_speed"])
    else:
        print("no release r1 here (`python -m stages.release`): benchmarks.audit_speed is left out", file=sys.stderr)
    if games.exists():
        commands.append(["benchmarks.household_success", str(games)])
        commands.append(["benchmarks.sample_efficiency", str(games), "--seeds", "3", "--budget", "30000"])
    else:
        print(
            f"no real games at {games}: benchmarks.household_success and benchmarks.sample_efficiency are left out",
            file=sys.stderr,
        )
    failed = 0
    for command in commands:
        print(f"== {' '.join(command)}", flush=True)
        failed += subprocess.run([sys.executable, "-m", *command], check=False).returncode != 0
    return failed


def _option(name: str, value: str | None) -> list[str]:
    return [name, value] if value else []


if __name__ == "__main__":
    sys.exit(main())
