import json
import re
from pathlib import Path

import pytest

from dualmind.data.validation import open_validated
from dualmind.models.system1 import System1
from dualmind.storage import md5_file
from stages.evaluate import EvaluateParams, evaluate
from stages.prepare import prepare_household
from stages.pretrain import pretrain
from stages.validate import SUITES as NAMES
from stages.validate import validate
from tests.stages.test_prepare import PREPARE, household
from tests.stages.test_pretrain import PARAMS, RUN, SUITES

EVALUATE = EvaluateParams(splits=["valid_seen", "valid_unseen"], max_steps=10, batch_size=4, timed_decisions=20)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which all stages before ``evaluate`` have run."""
    root = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        prepare_household(PREPARE, household(), Path("artifacts/prepare/household"))
        validate(SUITES, NAMES["household"], Path("artifacts/prepare/household"), Path("artifacts/validate/household"))
        decisions = open_validated(Path("artifacts/validate/household/decisions.json"))
        pretrain(PARAMS, RUN, {"household": decisions}, Path("artifacts/pretrain/system1"))
    return root


def run(project: Path, out: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(project)
    receipts = Path("artifacts/validate/household")
    evaluate(
        EVALUATE,
        RUN,
        System1.load(Path("artifacts/pretrain/system1")),
        open_validated(receipts / "decisions.json"),
        open_validated(receipts / "problems.json"),
        Path(out),
    )
    return project / out


def test_metrics_add_up_and_are_the_same_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = (run(project, name, monkeypatch) for name in ("a", "b"))
    for name in ("metrics.json", "plots/success.json"):
        assert md5_file(first / name) == md5_file(again / name)
    metrics = json.loads((first / "metrics.json").read_text())
    for modes in metrics["splits"].values():
        for results in modes.values():
            assert results["num_games"] == 6 == sum(r["num_games"] for r in results["by_task_type"].values())
            assert results["within_steps"][-1][1] == pytest.approx(results["success_rate"])
            assert results["low"] <= results["success_rate"] <= results["high"]
            assert 1 <= results["steps"]["mean_steps"] <= 10
    trained = json.loads((project / "artifacts/pretrain/system1.json").read_text())
    assert metrics["agreement"]["accuracy"] == pytest.approx(trained["valid_accuracy"])


def test_report_stands_alone(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (run(project, "c", monkeypatch) / "report.html").read_text()
    assert not re.findall(r"<(?:script|link|img|iframe)\b", page)
    assert not [url for url in re.findall(r"https?://[^\s\"'<)]+", page) if "www.w3.org" not in url]
    assert "valid unseen" in page
    assert "Your task is to" in page
