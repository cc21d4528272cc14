import json
import re
from pathlib import Path
from typing import Any

import pytest

from dualmind.storage import md5_file
from stages.evaluate import EvaluateParams, Judged, evaluate, open_data
from tests.stages.test_calibrate import run as calibrated
from tests.stages.test_pretrain import RUN

EVALUATE = EvaluateParams(splits=["valid_seen", "valid_unseen"], max_steps=10, batch_size=4, timed_decisions=20)


def run(pair: Path, out: str, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Path:
    monkeypatch.chdir(pair)
    if not Path("artifacts/calibrate").exists():
        calibrated(pair, "artifacts/calibrate", monkeypatch)
    evaluate(EVALUATE.model_copy(update=changes), RUN, Judged.load(Path("artifacts")), open_data(), Path(out))
    return pair / out


def test_metrics_add_up_and_are_the_same_again(pair: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = (run(pair, name, monkeypatch) for name in ("a", "b"))
    for name in ("metrics.json", "plots/success.json"):
        assert md5_file(first / name) == md5_file(again / name)
    metrics = json.loads((first / "metrics.json").read_text())
    for modes in metrics["splits"].values():
        for results in modes.values():
            assert results["num_games"] == 6 == sum(r["num_games"] for r in results["by_task_type"].values())
            assert results["within_steps"][-1][1] == pytest.approx(results["success_rate"])
            assert results["low"] <= results["success_rate"] <= results["high"]
            assert 1 <= results["steps"]["mean_steps"] <= 10
    small = json.loads((pair / "artifacts/compress/system1.json").read_text())["after"]["valid_accuracy"]
    assert metrics["agreement"]["accuracy"] == pytest.approx(small)


def test_report_stands_alone(pair: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (run(pair, "c", monkeypatch) / "report.html").read_text()
    assert not re.findall(r"<(?:script|link|img|iframe)\b", page)
    assert not [url for url in re.findall(r"https?://[^\s\"'<)]+", page) if "www.w3.org" not in url]
    assert "valid unseen" in page
    assert "Your task is to" in page
