"""Avalanche's own EWC and DER++ on the stream of :mod:`benchmarks.consolidation`, in an environment of its own.

It needs avalanche-lib and scikit-learn and nothing of this project, and is run by that benchmark:

    PYTHON_WITH_AVALANCHE benchmarks/avalanche_digits.py '{"seeds": 5, "epochs": 9, ...}'
"""

import json
import logging
import sys
from typing import Any

import numpy as np
import torch
from avalanche.benchmarks import benchmark_from_datasets
from avalanche.benchmarks.utils import make_tensor_classification_dataset
from avalanche.training.supervised import DER, EWC, Naive
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

TASKS = 5


def split(setting: str) -> tuple[list[tuple[Tensor, Tensor]], list[tuple[Tensor, Tensor]]]:
    """Images and labels of each task, for training and for testing; the same as in the benchmark."""
    x, y = load_digits(return_X_y=True)
    parts = train_test_split(x / 16, y, test_size=0.25, random_state=0, stratify=y)
    x_train, x_test, y_train, y_test = (torch.from_numpy(np.asarray(part)) for part in parts)
    both = []
    for own_x, own_y in ((x_train.float(), y_train), (x_test.float(), y_test)):
        masks = [own_y // 2 == task for task in range(TASKS)]
        both.append([(own_x[m], own_y[m] % 2 if setting == "domain" else own_y[m]) for m in masks])
    return both[0], both[1]


def strategy(name: str, model: nn.Module, options: dict[str, Any]) -> Any:
    """One of Avalanche's strategies, with the sizes that the library's own methods have."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=options["lr"], weight_decay=0.0)
    common = {
        "model": model, "optimizer": optimizer, "criterion": nn.CrossEntropyLoss(), "evaluator": None,
        "train_mb_size": options["batch_size"], "train_epochs": options["epochs"], "eval_mb_size": 256,
    }  # fmt: skip
    if name == "sequential":
        return Naive(**common)
    if name.startswith("ewc"):
        return EWC(ewc_lambda=float(name.split()[1]), **common)
    return DER(
        mem_size=options["memory"], batch_size_mem=options["replayed"], alpha=options["alpha"], beta=options["beta"],
        **common,
    )  # fmt: skip


def run(name: str, options: dict[str, Any], seed: int) -> dict[str, float]:
    """One stream from random weights; what is lost on the first task, and what is learnt on the others."""
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002  # Avalanche draws from the global one
    model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 2 if options["setting"] == "domain" else 10))
    train, test = split(options["setting"])
    data = [make_tensor_classification_dataset(x, y, targets=1, task_labels=0) for x, y in train]
    own = strategy(name, model, options)
    after = np.zeros((TASKS, TASKS))
    for i, experience in enumerate(benchmark_from_datasets(train=data).train_stream):
        own.train(experience)
        model.eval()
        with torch.no_grad():
            after[i] = [float((model(x).argmax(-1) == y).float().mean()) for x, y in test]
    return {
        "first_drop": float(after[0, 0] - after[-1, 0]),
        "new_accuracy": float(np.diag(after)[1:].mean()),
        "average": float(after[-1].mean()),
    }


def main() -> None:
    """Run each method with each seed; the last line on stdout is the result."""
    options = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    found = {name: [run(name, options, seed) for seed in range(options["seeds"])] for name in options["methods"]}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
