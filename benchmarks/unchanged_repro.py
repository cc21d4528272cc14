"""Seconds that ``dvc repro`` takes when nothing has changed. Needs a pipeline that has run (``make repro``).

python -m benchmarks.unchanged_repro [FOLDER]
"""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.results_file import Row, write_rows
from dualmind.evaluation.intervals import bootstrap_mean

REPEATS = 5


def main(root: Path) -> None:
    """Time the command and check that it ran nothing."""
    begun, seconds = time.monotonic(), []
    for _ in range(REPEATS):
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "dvc", "repro"], cwd=root, capture_output=True, text=True, check=True
        )
        seconds.append(time.perf_counter() - start)
        if "up to date" not in done.stdout or "Running stage" in done.stdout:
            raise SystemExit(f"{root} is not up to date; run `make repro` first")
    found = bootstrap_mean(seconds, np.random.default_rng(0))
    row = Row.of(
        found,
        target=4.0,
        at_most=True,
        begun=begun,
        claim="unchanged dvc repro",
        unit="s",
        baseline=f"fastest {min(seconds):.1f} s",
        seeds=REPEATS,
        command="python -m benchmarks.unchanged_repro",
    )
    write_rows("unchanged_repro", [row])
    print(f"{row.claim}: {row.value:.2f} s [{row.low:.2f}, {row.high:.2f}]")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd())
