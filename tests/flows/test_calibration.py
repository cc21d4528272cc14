from pathlib import Path

import numpy as np
import pytest

from dualmind.calibration import production
from dualmind.storage import md5_file
from flows.calibration import calibration
from tests.calibration.traffic import decisions, log_traffic
from tests.flows.project import make_calibrated

pytestmark = [
    pytest.mark.usefixtures("server"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),  # Prefect's own
]
MONTH, BEFORE = "2026-10", "2026-09"


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two quiet months."""
    root = tmp_path_factory.mktemp("traffic")
    rng = np.random.default_rng(0)
    for month in (BEFORE, MONTH):
        log_traffic(root, month, decisions(month, 1500, rng))
    return root


@pytest.fixture
def project(tmp_path: Path, traffic: Path) -> Path:
    import shutil

    root = make_calibrated(tmp_path)
    shutil.copytree(traffic, root / "traffic")
    return root


def test_a_month_proves_a_threshold_that_serves_from_then_on(project: Path) -> None:
    decision = calibration(project, MONTH)
    now = production.read(project / "production")
    assert decision.action == "promote", decision.reason
    assert now.threshold == decision.serves
    assert now.threshold.previous_value == 0.95
    assert now.threshold.calibration_digest == md5_file(project / f"calibration/data/{MONTH}.parquet")
    assert calibration(project, MONTH).action == "keep"
