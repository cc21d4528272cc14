"""What a compressed pair and saving training really take: bytes on disk, and peak memory in fresh processes.

A pair of random weights is built from a config. Every figure is the peak resident memory (VmHWM) of a process of its
own, above that of one which only imports the library.

    python -m benchmarks.compression_memory [--d-model 768] [--layers 8] [--experts 4] [--steps 2]

The defaults make a pair of more than 100 M parameters, and take some minutes and gigabytes. Of the trained pair, bytes
and accuracy are those that the stage ``compress`` wrote to ``artifacts/``, where it has run.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results_file import Row, write_rows
from dualmind.evaluation.intervals import Interval, bootstrap_mean

SEEDS = 3
PROMPT = " ".join(f"w{i}" for i in range(40))
COMMANDS = tuple(f"go w{i}" for i in range(20))


def peak_mib() -> float:
    """Peak resident memory of this process; unlike ru_maxrss it does not begin with the parent's."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def build(sizes: dict[str, int], seed: int) -> Any:
    """System 1 and System 2 of random weights."""
    from dualmind.models.system1 import CompactParams, System1
    from dualmind.models.system2 import ReasonerParams, System2

    texts = [*[f"w{i}" for i in range(2000)], "go = | plan :"]
    width, layers = sizes["d_model"], sizes["layers"]
    common = {"d_model": width, "d_ff": 3 * width, "num_heads": 8, "encoder_layers": layers, "decoder_layers": layers}
    one = System1.build(CompactParams(kind="compact", **common), texts, seed)
    two = ReasonerParams(
        kind="reasoner", **common, num_experts=sizes["experts"], num_slots=4, reasoning_steps=2, validity_cutoff=0.0,
        concept=True, relation=True, reasoning=True, verification=True,
    )  # fmt: skip
    return one, System2.build(two, texts, seed)


def make(folder: Path, sizes: dict[str, int], seed: int) -> int:
    """Write the pair, plain and compressed; returns its parameters."""
    import torch

    from dualmind.models.checkpoint import Meta, save_checkpoint
    from dualmind.models.compression import prune_experts, sparse
    from dualmind.models.experts import MixtureOfExperts
    from dualmind.models.int8 import to_int8

    total = 0
    for name, system in zip(("system1", "system2"), build(sizes, seed), strict=True):
        total += system.num_parameters
        meta = Meta(kind=name, parents={}, seed=seed, threads=1, steps=0, num_parameters=0, metrics={})
        save_checkpoint(folder / "plain" / name, system.model, system.tokenizer, meta)
        model = system.model
        if name == "system2":
            use = [torch.rand(sizes["experts"]) for m in model.modules() if isinstance(m, MixtureOfExperts)]
            model = prune_experts(model, use, max(2, sizes["experts"] // 2))
            with sparse(model, 0.5):
                pass
        to_int8(model)
        save_checkpoint(folder / "small" / name, model, system.tokenizer, meta)
    return total


def infer(folder: Path, *, half: bool = False) -> float:
    """Load a pair and let both score, in bfloat16 if ``half``; returns milliseconds of one decision of System 1."""
    import torch

    from dualmind.models.system1 import System1
    from dualmind.models.system2 import System2
    from dualmind.models.text_model import TextModel

    systems = System1.load(folder / "system1"), System2.load(folder / "system2")
    for system in systems:
        if half:
            system.model.to(torch.bfloat16)
        TextModel.score(system, [PROMPT], [COMMANDS])
    times = []
    for _ in range(9):
        start = time.perf_counter()
        systems[0].score([PROMPT], [COMMANDS])
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def train(sizes: dict[str, int], steps: int, seed: int, *, saving: bool) -> float:
    """Train System 1 for some steps; returns seconds a step."""
    from contextlib import nullcontext

    import torch
    from torch.nn import functional as F

    from dualmind.learning.memory import MemoryParams, saving_memory

    system1 = build({**sizes, "experts": 0}, seed)[0]
    params = MemoryParams(gradient_checkpointing=True, base="int8", adapter_rank=8)
    with saving_memory(system1.model, params, seed=seed) if saving else nullcontext():
        optimizer = torch.optim.AdamW([p for p in system1.model.parameters() if p.requires_grad], lr=1e-4)
        batch = system1.collate([PROMPT] * 16, [COMMANDS] * 16)
        system1.scorer.train()
        start = time.perf_counter()
        for _ in range(steps):
            loss = F.cross_entropy(system1.scorer(batch), torch.zeros(16, dtype=torch.long))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch ships no types for it
            optimizer.step()
        seconds = (time.perf_counter() - start) / steps
        print(json.dumps({"mib": peak_mib(), "value": seconds}))  # before adapters are merged again
    return seconds


def child(job: str, folder: Path, sizes: dict[str, int], steps: int, seed: int) -> None:
    """One measurement in this fresh process; its last line on stdout is the result."""
    import torch

    import dualmind.learning.memory  # what an empty process holds as well
    import dualmind.models.system1
    import dualmind.models.system2  # noqa: F401

    torch.set_num_threads(1)
    value: float = 0.0
    match job:
        case "make":
            value = make(folder, sizes, seed)
        case "plain" | "small":
            value = infer(folder / job)
        case "bf16":
            value = infer(folder / "plain", half=True)
        case "train" | "train-saving":
            train(sizes, steps, seed, saving=job == "train-saving")
            return
    print(json.dumps({"mib": peak_mib(), "value": value}))


def fresh(job: str, folder: Path, options: argparse.Namespace, seed: int) -> dict[str, float]:
    """Run a job in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.compression_memory", "--child", job, "--folder", str(folder)]
    sizes = ["--d-model", options.d_model, "--layers", options.layers, "--experts", options.experts]
    command += [*map(str, sizes), "--steps", str(options.steps), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(options: argparse.Namespace) -> dict[str, list[float]]:
    """All ratios, one a seed."""
    names = ("disk", "memory", "latency", "plain latency", "training", "slowdown", "size")
    found: dict[str, list[float]] = {name: [] for name in names}
    for seed in range(options.seeds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            empty = fresh("empty", folder, options, seed)["mib"]
            found["size"].append(fresh("make", folder, options, seed)["value"])
            plain, small, half = (fresh(job, folder, options, seed) for job in ("plain", "small", "bf16"))
            bytes_of = [
                sum(f.stat().st_size for f in (folder / n).rglob("*") if f.is_file()) for n in ("plain", "small")
            ]
        full, saving = (fresh(job, Path(name), options, seed) for job in ("train", "train-saving"))
        found["disk"].append(bytes_of[1] / bytes_of[0])
        found["memory"].append((small["mib"] - empty) / (plain["mib"] - empty))
        found["latency"].append(small["value"] / half["value"])
        found["plain latency"].append(small["value"] / plain["value"])
        found["training"].append((saving["mib"] - empty) / (full["mib"] - empty))
        found["slowdown"].append(saving["value"] / full["value"])
    return found


def main() -> None:
    """Measure and write, or be one of the fresh processes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compression_memory")
    for name, default in {"d-model": 768, "layers": 8, "experts": 4, "steps": 2, "seeds": SEEDS, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        sizes = {"d_model": options.d_model, "layers": options.layers, "experts": options.experts}
        child(options.child, options.folder, sizes, options.steps, options.seed)
        return
    begun = time.monotonic()
    found = measure(options)
    size = f"pair of {np.mean(found['size']) / 1e6:.0f} M parameters"
    extra = f"of System 2 half the experts and half of the weights; {options.d_model} wide, {options.layers} layers"
    fast = f"{np.mean(found['plain latency']):.2f} of float32's; one decision on one thread"
    slow = f"slow-down {np.mean(found['slowdown']):.2f}; adapters of rank 8 on int8 weights, and checkpointing"
    rows = [
        row(f"bytes on disk, INT8 and sparse against float32, {size}", found["disk"], extra, begun),
        row(f"peak memory above an empty process, the same, {size}", found["memory"], extra, begun),
        row(f"latency of System 1 in INT8 against bfloat16, {size}", found["latency"], fast, begun, target=1.0),
        row(f"peak memory of training above an empty process, System 1 of the {size}", found["training"], slow, begun),
        *trained_rows(Path("artifacts"), begun),
    ]
    write_rows("compression_memory", rows)
    for one in rows:
        print(f"{one.claim}: {one.value:.2f} [{one.low:.2f}, {one.high:.2f}] ({one.baseline})")


def row(claim: str, ratios: list[float], baseline: str, begun: float, target: float = 0.4) -> Row:
    """A ratio that should be at most so large."""
    interval: Interval = bootstrap_mean(ratios, np.random.default_rng(0))
    command = "python -m benchmarks.compression_memory"
    words = {"unit": "ratio", "baseline": baseline, "seeds": len(ratios), "command": command}
    return Row.of(interval, target=target, at_most=True, begun=begun, claim=claim, **words)


def trained_rows(artifacts: Path, begun: float) -> list[Row]:
    """Bytes of the trained pair, and the share of its accuracy that is kept; none where no pair was compressed."""
    files = [artifacts / "compress" / f"{name}.json" for name in ("system1", "system2")]
    if not all(file.is_file() for file in files):
        return []
    found: list[dict[str, Any]] = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    measures = [(own, name) for own in found for name in ("valid_accuracy", "answers_right") if own["before"].get(name)]
    kept = min(own["after"][name] / own["before"][name] for own, name in measures)
    ratio = sum(own["bytes_after"] for own in found) / sum(own["bytes_before"] for own in found)
    words = ", ".join(
        f"{file.stem} {own['bytes_ratio']:.2f}{', pruned' if own['pruned'] else ''}"
        f"{', handed on as it came' if own['kept_input'] else ''}"
        for file, own in zip(files, found, strict=True)
    )
    baseline = f"{words}; of each measure at least {kept:.3f} is kept"
    return [row("bytes on disk, the trained pair, compressed against float32", [ratio], baseline, begun)]


if __name__ == "__main__":
    main()
