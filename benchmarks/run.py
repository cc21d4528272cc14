"""Runs all benchmarks that fit in an hour; those that need real games run where they are (``--games PATH``).

python -m benchmarks.run [--games PATH]
"""

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.engine_speed import REAL_GAMES


def main() -> int:
    """Run them one after the other; returns the number of those that failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run")
    parser.add_argument("--games", type=Path, default=REAL_GAMES, help="real ALFWorld games")
    games = parser.parse_args().games
    commands = [["benchmarks.engine_speed"], ["benchmarks.system1_speed"], ["benchmarks.unchanged_repro"]]
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


if __name__ == "__main__":
    sys.exit(main())
