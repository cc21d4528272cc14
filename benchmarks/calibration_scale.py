"""A month of 10 million decisions: seconds and peak memory to compact it, then to read it and prove a threshold.

Each part runs in a fresh process, so that a peak is its own. Seconds are wall time after the imports. The decisions are
made up, in the log's own form and nearly in the order of their times; their ids and draws are the server's.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.results_file import Row, write_rows
from dualmind.calibration.sample import COLUMNS, Sample
from dualmind.calibration.threshold import walk
from dualmind.evaluation.intervals import Interval, bootstrap_mean
from dualmind.progress import Progress
from dualmind.traffic.audit import AuditSampler
from dualmind.traffic.compact import compact
from dualmind.traffic.read import MonthReader

ROOT = Path(__file__).resolve().parents[1]
MONTH = "2026-11"
AUDIT_RATE = 0.01
DOMAINS = ("household", "algebra", "deduction")
ALPHA, DELTA = 0.05, 0.1
GRID = np.linspace(0, 0.99, 100)
CHUNK = 100_000
REPEATS = 3  # of the calibration; compacting is done once
TARGET_S, TARGET_GIB = 60.0, 2.0


def make(root: Path, num_decisions: int) -> None:
    """Write a month as the log would: an error at a score s is as likely as 0.4 (1 - s)^2."""
    rng, sampler = np.random.default_rng(0), AuditSampler(AUDIT_RATE, bytes(range(32)))
    folder, progress = root / MONTH, Progress("decisions made", num_decisions)
    folder.mkdir(parents=True)
    step_us = 29 * 86_400 * 1_000_000 / num_decisions
    begin = np.datetime64("2026-11-01T00:00:00", "us")
    with (folder / "decisions-000001.jsonl").open("w") as log, (folder / "labels.jsonl").open("w") as labels:
        for start in range(0, num_decisions, CHUNK):
            n = min(CHUNK, num_decisions - start)
            late_us = rng.exponential(200_000, n)  # they are logged when they are done, not when they came
            times = begin + ((start + np.arange(n)) * step_us + late_us).astype("timedelta64[us]")
            scores = rng.beta(3, 1.2, n).round(6)
            wrong = rng.random(n) < 0.4 * (1 - scores) ** 2
            shas, others = rng.bytes(32 * n).hex(), rng.random((n, 3)).round(6).tolist()
            stamps, levels, failed = np.datetime_as_string(times), scores.tolist(), wrong.tolist()
            lines, verdicts = [], []
            for i, (a, b, c) in enumerate(others):
                sha, score, tier = shas[64 * i : 64 * i + 64], levels[i], "system1" if levels[i] >= 0.7 else "full"
                name = sha[:32]
                audited = sampler.is_drawn(name)
                lines.append(
                    f'{{"time":"{stamps[i]}Z","request_id":"{name}","domain":"{DOMAINS[i % 3]}",'
                    f'"prompt_sha256":"{sha}","confidence":{score},"difficulty":{a},"curvature":{b},"score":{score},"monitor":0.0,'
                    f'"tier":"{tier}","flops":{100_000_000 + i},"latency_ms":{c},"answer":"go to drawer {i % 9}",'
                    f'"system1_answer":"go to drawer {i % 9}",'
                    f'"audited":{"true" if audited else "false"},"release":"r7"}}\n'
                )
                if audited:
                    verdicts.append(
                        f'{{"time":"{stamps[i]}Z","request_id":"{name}",'
                        f'"correct":{"false" if failed[i] else "true"},"source":"system2"}}\n'
                    )
            log.writelines(lines)
            labels.writelines(verdicts)
            progress.update(start + n)


def calibrate(root: Path) -> dict[str, float]:
    """Read the month and prove a threshold."""
    with MonthReader(root, MONTH) as reader:
        sample = Sample.collect(reader.batches(COLUMNS), GRID)
    proof = walk(sample, ALPHA, DELTA)
    return {"threshold": proof.value, "n": proof.n, "share": proof.system1_share, "decisions": sample.decisions}


def compact_all(root: Path) -> dict[str, float]:
    """Compact the month."""
    return {"decisions": compact(root, MONTH, is_over=True).decisions}


def measured(part: Callable[[Path], dict[str, float]], root: Path) -> None:
    """Run a part in this process; prints what it found, its seconds and the peak of the resident memory."""
    begin, cpu_begin = time.monotonic(), time.process_time()
    found = part(root)
    seconds, cpu = time.monotonic() - begin, time.process_time() - cpu_begin
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # Linux counts it in KiB
    print(json.dumps({**found, "seconds": seconds, "cpu_seconds": cpu, "gib": gib}))


def in_child(part: str, root: Path) -> dict[str, float]:
    """What :func:`measured` prints in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.calibration_scale", "--worker", part, "--folder", str(root)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    print(part, found, file=sys.stderr, flush=True)
    return found


def rows(num_decisions: int, compaction: dict[str, float], runs: list[dict[str, float]], begun: float) -> list[Row]:
    """Two claims for calibrating; for compacting memory is claimed and time reported."""
    rng, words = np.random.default_rng(0), f"{num_decisions:,} decisions"
    found = f"threshold {runs[0]['threshold']:.2f} from {runs[0]['n']:,.0f} answers, share {runs[0]['share']:.3f}"
    busy = min(run["cpu_seconds"] for run in runs)

    def row(claim: str, unit: str, values: list[float], target: float) -> Row:
        return Row.of(
            bootstrap_mean(values, rng) if len(values) > 1 else Interval(values[0], values[0], values[0]),
            target=target,
            at_most=True,
            begun=begun,
            claim=f"{claim} {words}",
            unit=unit,
            baseline=f"none: a budget; {found}; {busy:.1f} CPU seconds",
            seeds=len(values),
            command=f"python -m benchmarks.calibration_scale --decisions {num_decisions}",
        )

    return [
        row("reading and calibrating", "s", [run["seconds"] for run in runs], TARGET_S),
        row("peak memory of reading and calibrating", "GiB", [run["gib"] for run in runs], TARGET_GIB),
        row("peak memory of compacting", "GiB", [compaction["gib"]], TARGET_GIB),
        Row(
            claim=f"compacting {words}",
            unit="s",
            value=compaction["seconds"],
            low=None,
            high=None,
            target=None,
            reached=None,
            baseline=f"none: reported only; {compaction['cpu_seconds']:.1f} CPU seconds",
            seeds=1,
            command=f"python -m benchmarks.calibration_scale --decisions {num_decisions}",
            threads=1,
            minutes=round((time.monotonic() - begun) / 60, 1),
        ),
    ]


def main() -> None:
    """Make a month, compact it, calibrate on it and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decisions", type=int, default=10_000_000, help="about 500 bytes of disk each, twice")
    parser.add_argument("--folder", type=Path, help="where to work; default: a temporary folder")
    parser.add_argument("--worker", choices=["compact", "calibrate"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        measured(compact_all if arguments.worker == "compact" else calibrate, arguments.folder)
        return
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        make(Path(folder), arguments.decisions)
        compaction = in_child("compact", Path(folder))
        runs = [in_child("calibrate", Path(folder)) for _ in range(REPEATS)]
    print(write_rows("calibration_scale", rows(arguments.decisions, compaction, runs, begun)).read_text())


if __name__ == "__main__":
    main()
