"""Seconds of an audit of one release, and milliseconds of the question what served when, over 1,000 releases.

python -m benchmarks.audit_speed [FOLDER] [--release NAME]

The audit is ``python -m flows.audit NAME`` from start to exit, in a folder where ``python -m stages.release`` was run.
The ledger of 1,000 releases is made up: 2,000 entries, each release made, then promoted, chained and signed as usual.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from benchmarks.results_file import Row, write_rows
from dualmind.evaluation.intervals import bootstrap_mean
from dualmind.lineage.entries import GENESIS, Entry, Head, What
from dualmind.lineage.keys import make_key
from dualmind.lineage.ledger import Ledger
from dualmind.lineage.queries import serving
from dualmind.lineage.times import stamp
from dualmind.storage import write_json

AUDITS, QUERIES, RELEASES = 5, 200, 1000
START = datetime(2026, 1, 1, tzinfo=UTC)


def audits(root: Path, name: str) -> list[float]:
    """Seconds of each audit.

    Raises:
        SystemExit: the release does not pass.
    """
    found = []
    for _ in range(AUDITS):
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "flows.audit", name], cwd=root, capture_output=True, text=True, check=False
        )
        found.append(time.perf_counter() - start)
        if done.returncode:
            raise SystemExit(f"{name} in {root} does not pass: {done.stdout}{done.stderr}")
    return found


def make_ledger(folder: Path) -> Path:
    """A ledger that knows 1,000 releases, one an hour, without 2,000 waits for the disk."""
    path, key, previous, lines = folder / "ledger.jsonl", make_key(folder / "keys", "release"), GENESIS, []
    for number in range(2 * RELEASES):
        draft = Entry(
            sequence=number + 1, time=stamp(START + timedelta(hours=number // 2)),
            kind="promote" if number % 2 else "release",
            what=What(subject="release", name=f"r{number // 2}", digest="d" * 64), who="Ann", why="it is better",
            previous_hash=previous, hash="",
        )  # fmt: skip
        entry = draft.model_copy(update={"hash": draft.true_hash()})
        lines.append(entry.line())
        previous = entry.hash
    path.write_bytes(b"\n".join(lines) + b"\n")
    write_json(path.with_suffix(".head"), Head.sealed(entry, key).model_dump())
    return path


def queries(path: Path) -> list[float]:
    """Milliseconds of each question, the reading of the ledger included; each answer is checked."""
    rng, found = np.random.default_rng(0), []
    for hour in rng.integers(RELEASES, size=QUERIES):
        at = stamp(START + timedelta(hours=int(hour), minutes=30))
        start = time.perf_counter()
        answer = serving(Ledger.read(path), path.parent, at)
        found.append(1000 * (time.perf_counter() - start))
        if answer.rows[0][1] != f"r{hour}":
            raise SystemExit(f"at {at} r{hour} served, and the answer was: {answer.text}")
    return found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit_speed")
    parser.add_argument("folder", nargs="?", type=Path, default=Path.cwd(), help="where a release was made")
    parser.add_argument("--release", default="r1")
    given = parser.parse_args()
    command, begun = "python -m benchmarks.audit_speed", time.monotonic()
    seconds = audits(given.folder, given.release)
    audit = Row.of(
        bootstrap_mean(seconds, np.random.default_rng(0)), target=10.0, at_most=True, begun=begun,
        claim="audit of one release, without re-execution", unit="s", seeds=AUDITS, command=command,
        baseline=f"fastest {min(seconds):.1f} s; all questions, {given.release} of the default pipeline",
    )  # fmt: skip
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        took = queries(make_ledger(Path(scratch)))
    query = Row.of(
        bootstrap_mean(took, np.random.default_rng(0)), target=100.0, at_most=True, begun=begun,
        claim=f"what served at a time, from a ledger of {RELEASES:,} releases", unit="ms", seeds=QUERIES,
        command=command, baseline=f"slowest {max(took):.0f} ms",
    )  # fmt: skip
    for row in (audit, query):
        print(f"{row.claim}: {row.value:.2f} {row.unit} ({row.baseline})")
    write_rows("audit_speed", [audit, query])


if __name__ == "__main__":
    main()
