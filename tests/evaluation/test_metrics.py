import os
import subprocess
import sys
from pathlib import Path

import evaluate
import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score

from dualmind.evaluation.metrics import CommandAccuracy, MeanSteps, SuccessRate, measure, success


@pytest.mark.parametrize("metric", [SuccessRate, CommandAccuracy, MeanSteps])
def test_each_metric_is_one_of_the_library_s_and_says_what_it_takes(
    metric: type[evaluate.Metric], tmp_path: Path
) -> None:
    made = metric(keep_in_memory=True, cache_dir=str(tmp_path), seed=0)
    assert isinstance(made, evaluate.Metric)
    assert made.description
    assert "predictions" in made.features
    assert "predictions" in made.inputs_description


def test_success_is_the_share_won_with_wilson_s_interval() -> None:
    found = success([True] * 126 + [False] * 8)
    reference = stats.binomtest(126, 134).proportion_ci(method="wilson")
    assert found["success_rate"] == pytest.approx(126 / 134)
    assert (found["low"], found["high"]) == pytest.approx((reference.low, reference.high))
    assert found["num_games"] == 134


def test_success_of_no_games_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 trial"):
        success([])


def test_accuracy_is_scikit_learn_s() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = (rng.choice(["go to desk 1", "open drawer 2", "look"], size=200).tolist() for _ in range(2))
    found = measure(CommandAccuracy, predictions=ours, references=theirs)
    assert found["accuracy"] == pytest.approx(accuracy_score(theirs, ours))
    assert found["low"] < found["accuracy"] < found["high"]
    assert found["num_decisions"] == 200


def test_metrics_can_be_added_batch_by_batch(tmp_path: Path) -> None:
    metric = SuccessRate(keep_in_memory=True, cache_dir=str(tmp_path), seed=0)
    metric.add_batch(predictions=[1, 0])
    metric.add_batch(predictions=[1, 1])
    assert metric.compute() == success([True, False, True, True])


def test_mean_steps_are_reproducible_from_their_generator() -> None:
    steps = [5, 9, 12, 50, 7]
    found = measure(MeanSteps, predictions=steps, rng=np.random.default_rng(3))
    assert found == measure(MeanSteps, predictions=steps, rng=np.random.default_rng(3))
    assert found["mean_steps"] == pytest.approx(np.mean(steps))
    assert min(steps) <= found["low"] < found["mean_steps"] < found["high"] <= max(steps)


def test_measuring_needs_no_network_and_leaves_nothing_in_the_home(tmp_path: Path) -> None:
    code = """
import socket
def refuse(*args, **kwargs): raise AssertionError(f"network access: {args}")
socket.socket.connect = socket.getaddrinfo = refuse
from dualmind.evaluation.metrics import success
print(success([True])["success_rate"])
"""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "XDG_"))} | {"HOME": str(tmp_path)}
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, cwd=root, env=environment, capture_output=True, text=True)
    assert done.stdout == "1.0\n"
    assert list(tmp_path.rglob("*")) == []
