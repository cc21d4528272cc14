"""Forgetting on scikit-learn's digits, split into five tasks of two classes, with every method of the library.

Two settings of one stream (van de Ven et al. 2022): *domain* asks of each pair which of the two it is, with one head of
two classes; *class* asks which of ten. (With a head of its own for each pair nothing is forgotten, whatever is done.)
Chosen on seeds beyond those that are reported: the strength of EWC and the weights of DER++.

    python -m benchmarks.consolidation [--avalanche-python PATH]

With a Python that has avalanche-lib, its EWC and DER++ run on the same stream; its dependencies are not this project's,
so it needs an environment of its own.
"""

import argparse
import json
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from benchmarks.results_file import Row, write_rows
from dualmind.evaluation.intervals import Interval, bootstrap_mean
from dualmind.learning.consolidation import ConsolidationParams, DerParams, EwcParams, Method, consolidate
from dualmind.learning.replay import Priority, ReplayParams
from dualmind.learning.stream import Task
from dualmind.learning.transfer import Trajectory

Setting = Literal["domain", "class"]
SEEDS = 5
METHODS: tuple[Method, ...] = (
    "sequential", "ewc", "online_ewc", "replay", "ewc_replay", "online_ewc_replay", "der++", "joint"
)  # fmt: skip
STRENGTHS = (1e-3, 1e-1, 1e1, 1e2, 1e3, 1e4)
PARAMS = ConsolidationParams(
    steps=60, batch_size=40, lr=0.003, gradient_clip=10.0,
    ewc=EwcParams(strength=100.0, fisher="exact", fisher_examples=100, fisher_batch_size=100, decay=1.0),
    replay=ReplayParams(share=0.05, part=0.2, priority="uniform", epsilon=1e-3, exponent=0.6, correction=0.0),
    der=DerParams(alpha=0.1, beta=0.5),
)  # fmt: skip


@cache
def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images (N, 64) in 0..1 and digits (N,), for training and for testing."""
    x, y = load_digits(return_X_y=True)
    parts = train_test_split(x / 16, y, test_size=0.25, random_state=0, stratify=y)
    x_train, x_test, y_train, y_test = (torch.from_numpy(np.asarray(part)) for part in parts)
    return x_train.float(), x_test.float(), y_train, y_test


def stream(model: nn.Module, setting: Setting) -> tuple[list[Task], list[Task]]:
    """Training and test examples of the five tasks."""
    x_train, x_test, y_train, y_test = digits()
    both: tuple[list[Task], list[Task]] = ([], [])
    for first in range(0, 10, 2):
        for tasks, x, y in zip(both, (x_train, x_test), (y_train, y_test), strict=True):
            own = (y == first) | (y == first + 1)
            labels = y[own] % 2 if setting == "domain" else y[own]
            tasks.append(Task(f"{first}, {first + 1}", model, (x[own],), labels, y[own].numpy()))
    return both


def run(method: Method, setting: Setting, params: ConsolidationParams, seed: int) -> Trajectory:
    """One stream from random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 2 if setting == "domain" else 10))
    train, test = stream(model, setting)
    return consolidate(train, test, method, params, seed=seed)


def several(method: Method, setting: Setting, params: ConsolidationParams) -> list[Trajectory]:
    """One stream a seed."""
    return [run(method, setting, params, seed) for seed in range(SEEDS)]


def interval(values: list[float]) -> Interval:
    """Mean over seeds."""
    return bootstrap_mean(values, np.random.default_rng(0))


def with_strength(strength: float) -> ConsolidationParams:
    """The parameters with another lambda."""
    return PARAMS.model_copy(update={"ewc": PARAMS.ewc.model_copy(update={"strength": strength})})


def row(claim: str, unit: str, found: Interval, baseline: str, begun: float) -> Row:
    """A figure that is reported without a target."""
    return Row.of(
        found, target=None, begun=begun, claim=claim, unit=unit, baseline=baseline, seeds=SEEDS,
        command="python -m benchmarks.consolidation",
    )  # fmt: skip


def method_rows(setting: Setting) -> list[Row]:
    """What each method loses on the first task, in points and as a share of what sequential training loses."""
    begun = time.monotonic()
    found = {method: several(method, setting, PARAMS) for method in METHODS}
    lost = float(np.mean([t.first_drop for t in found["sequential"]]))
    learnt = float(np.mean([t.new_accuracy for t in found["sequential"]]))
    rows = []
    for method, trajectories in found.items():
        drop, new = (interval([getattr(t, name) for t in trajectories]) for name in ("first_drop", "new_accuracy"))
        average = float(np.mean([t.average for t in trajectories]))
        words = (
            f"{drop.value / lost:.2f} of sequential's {lost:.3f}; new tasks {new.value:.3f}, {new.value / learnt:.2f} "
            f"of sequential's; mean at the end {average:.3f}"
        )
        claim = f"digits, {setting}-incremental: {method} loses on the first of five tasks"
        if method in ("sequential", "joint"):
            rows.append(row(claim, "accuracy", drop, words, begun))
        else:
            options = {"unit": "accuracy", "baseline": words, "seeds": SEEDS}
            command = "python -m benchmarks.consolidation"
            target = min(0.027, 0.12 * lost)
            rows.append(Row.of(drop, target=target, at_most=True, begun=begun, claim=claim, command=command, **options))
    return rows


def avalanche_rows(python: Path) -> list[Row]:
    """The same figures of Avalanche's strategies; of its EWC the strength that loses least, chosen in its favour."""
    begun = time.monotonic()
    examples = np.mean([len(task) for task in stream(nn.Identity(), "domain")[0]])
    options = {
        "setting": "domain", "seeds": SEEDS, "lr": PARAMS.lr, "batch_size": PARAMS.batch_size,
        "epochs": round(PARAMS.steps * PARAMS.batch_size / examples),
        "memory": round(PARAMS.replay.share * 5 * examples), "replayed": round(PARAMS.replay.part * PARAMS.batch_size),
        "alpha": PARAMS.der.alpha, "beta": PARAMS.der.beta,
        "methods": ["sequential", "der++", *(f"ewc {strength / 2:g}" for strength in STRENGTHS)],
    }  # fmt: skip
    script = Path(__file__).with_name("avalanche_digits.py")
    done = subprocess.run([python, script, json.dumps(options)], capture_output=True, text=True, check=True)
    found: dict[str, list[dict[str, float]]] = json.loads(done.stdout.splitlines()[-1])
    best = min((name for name in found if name.startswith("ewc")), key=lambda name: _mean(found[name], "first_drop"))
    rows = []
    for name in ("sequential", best, "der++"):
        own, plain = found[name], found["sequential"]
        words = (
            f"{_mean(own, 'first_drop') / _mean(plain, 'first_drop'):.2f} of its sequential's; new tasks "
            f"{_mean(own, 'new_accuracy'):.3f}; mean at the end {_mean(own, 'average'):.3f}"
        )
        claim = f"digits, domain-incremental: Avalanche's {name} loses on the first of five tasks"
        rows.append(row(claim, "accuracy", interval([one["first_drop"] for one in own]), words, begun))
    return rows


def _mean(found: list[dict[str, float]], name: str) -> float:
    return float(np.mean([one[name] for one in found]))


def strength_rows() -> list[Row]:
    """A curve over lambda: does the article's 1e-3 do anything?"""
    begun = time.monotonic()
    plain = several("sequential", "domain", PARAMS)
    rows = []
    for strength in STRENGTHS:
        held = several("ewc", "domain", with_strength(strength))
        spared = interval([a.first_drop - b.first_drop for a, b in zip(plain, held, strict=True)])
        new = float(np.mean([t.new_accuracy for t in held]))
        claim = f"digits, domain-incremental: EWC with lambda = {strength:g} spares of the first task's drop"
        rows.append(row(claim, "accuracy", spared, f"sequential, paired by seed; new tasks {new:.3f}", begun))
    return rows


def priority_rows() -> list[Row]:
    """Replay by priority against uniform replay, paired by seed."""
    begun = time.monotonic()
    plain = several("replay", "class", PARAMS)
    rows = []
    kinds: tuple[Priority, ...] = ("easy", "hard")
    for kind in kinds:
        params = PARAMS.model_copy(update={"replay": PARAMS.replay.model_copy(update={"priority": kind})})
        pairs = zip(several("replay", "class", params), plain, strict=True)
        gain = interval([a.average - b.average for a, b in pairs])
        claim = f"digits, class-incremental: replay of {kind} examples first gains in mean accuracy at the end"
        rows.append(row(claim, "accuracy", gain, "replay drawn uniformly, paired by seed", begun))
    return rows


def main() -> None:
    """Measure all and write it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.consolidation")
    parser.add_argument("--avalanche-python", type=Path, help="a Python that has avalanche-lib and scikit-learn")
    python = parser.parse_args().avalanche_python
    torch.set_num_threads(1)
    rows = [*method_rows("domain"), *method_rows("class"), *strength_rows(), *priority_rows()]
    rows += avalanche_rows(python) if python else []
    write_rows("consolidation", rows)
    for one in rows:
        print(f"{one.claim}: {one.value:.3f} [{one.low:.3f}, {one.high:.3f}] ({one.baseline})")


if __name__ == "__main__":
    main()
