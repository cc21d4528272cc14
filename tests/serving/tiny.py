"""Tiny releases for tests: real untrained models of a few thousand numbers, a gate and a threshold with a proof."""

import json
from pathlib import Path

import numpy as np

from dualmind.agent.gate import Gate, GateFile
from dualmind.calibration.bounds import upper_bound
from dualmind.calibration.threshold import Threshold
from dualmind.models.checkpoint import Checkpoint, Meta, save_checkpoint
from dualmind.models.system1 import CompactParams, System1
from dualmind.models.system2 import ReasonerParams, System2
from dualmind.serving.files import ReleaseFiles, Weights
from dualmind.storage import md5_file, md5_folder

WIDTH = 16
WORDS = ["question : how many has tom ? goal : put a mug in desk 1 go to take from drawer new seen closed * @ | . ,"]
NUMBERS = {"value": 0.5, "alpha": 0.05, "delta": 0.1}


def systems(seed: int) -> tuple[System1, System2]:
    small = {"d_model": WIDTH, "d_ff": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    compact = CompactParams(kind="compact", **small)
    reasoner = ReasonerParams(
        kind="reasoner", **small, num_experts=0, num_slots=2, reasoning_steps=2, validity_cutoff=0.0,
        concept=True, relation=True, reasoning=True, verification=True,
    )  # fmt: skip
    return System1.build(compact, WORDS, seed), System2.build(reasoner, WORDS, seed)


def make_release(folder: Path, seed: int = 0) -> ReleaseFiles:
    """A release in a plain folder, without a signature: what verifies bundles has tests of its own."""
    for system, kind in zip(systems(seed), ("system1", "system2"), strict=True):
        meta = Meta(
            kind=kind, parents={}, seed=seed, threads=1, steps=0, num_parameters=system.num_parameters, metrics={}
        )
        save_checkpoint(folder / kind, system.model.eval(), system.tokenizer, meta)
    weights = Checkpoint.open(folder / "system1").digest
    make_gate_and_threshold(folder, weights)
    return open_folder(folder)


def make_gate_and_threshold(folder: Path, weights: str, value: float = 0.5, tilt: float = 1.0) -> tuple[Path, Path]:
    """Another tilt is another gate: its scores differ."""
    rng = np.random.default_rng(0)
    file = GateFile(
        weights_digest=weights,
        temperatures={"reasoning": 1.0, "household": 2.0},
        means=[0.0] * 4,
        scales=[1.0] * 4,
        coefficients=[40.0 * tilt, -1.0, 0.0, -1.0],
        intercepts={"reasoning": -4.85, "household": -3.15},
        deep=0.45,
        centres=rng.normal(size=(2, WIDTH)).tolist(),
        distances=np.sort(rng.uniform(1, 6, size=(2, 101))).tolist(),
        errors=[0.2, 0.4],
        inner=rng.normal(size=(3, WIDTH)).tolist(),
        bias=[0.0] * 3,
        outer=[1.0, -1.0, 0.5],
        offset=0.0,
    )
    folder.mkdir(parents=True, exist_ok=True)
    gate, threshold = folder / "gate.json", folder / "threshold.json"
    digest = Gate.of(file).save(gate)
    Threshold(
        value=value, alpha=0.05, delta=0.1, n=60, errors=0, upper_bound=upper_bound(0, 60, 0.1), system1_share=0.5,
        weights_digest=weights, gate_digest=digest, calibration_digest="0" * 32, previous_value=None,
    ).write(threshold)  # fmt: skip
    return gate, threshold


def open_folder(folder: Path) -> ReleaseFiles:
    """What :func:`make_release` made."""
    return ReleaseFiles(
        name=folder.name,
        digest=md5_folder(folder),
        system1=Weights(folder / "system1", Checkpoint.open(folder / "system1").digest),
        system2=Weights(folder / "system2", Checkpoint.open(folder / "system2").digest),
        gate=folder / "gate.json",
        threshold=folder / "threshold.json",
    )


def prompts(number: int) -> list[str]:
    """Different ones."""
    words = ["tom", "has", "mug", "desk", "take", "drawer", "how", "many"]
    rng = np.random.default_rng(1)
    return [f"question : {i % 100} {' '.join(rng.choice(words, 3 + i % 5))} ?" for i in range(number)]


def logged(traffic: Path) -> list[dict[str, object]]:
    """All decisions as they lie in the segments, repeats included."""
    return [
        json.loads(line)
        for path in sorted(traffic.glob("????-??/decisions-*.jsonl"))
        for line in path.read_text().splitlines()
    ]


def digest(path: Path) -> str:
    return md5_file(path)
