"""The stage on a tiny pair: what is written fits together, and a promise that cannot be kept is not made."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dualmind.agent.gate import Gate
from dualmind.calibration.threshold import Threshold
from dualmind.data.validation import open_validated
from dualmind.errors import GateError, NoValidThreshold, ThresholdMismatch
from dualmind.models.checkpoint import Checkpoint
from dualmind.storage import md5_file, md5_folder
from stages.calibrate import SOURCE, CalibrateParams, calibrate
from tests.stages.test_pretrain import RUN

PARAMS = CalibrateParams(
    alpha=0.97, delta=0.1, grid_points=99, fit_share=0.5, num_clusters=4, value_width=8, shallow_loss=0.03, max_steps=6
)


def run(pair: Path, out: str, monkeypatch: pytest.MonkeyPatch, params: CalibrateParams = PARAMS) -> Threshold:
    monkeypatch.chdir(pair)
    return calibrate(
        params,
        RUN,
        {name: Checkpoint.open(SOURCE / name) for name in ("system1", "system2")},
        {name: open_validated(Path(f"artifacts/validate/{name}/problems.json")) for name in ("household", "reasoning")},
        Path(out),
    )


def test_gate_and_threshold_belong_together_and_are_the_same_bytes_again(
    pair: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the compressed pair: the gate and the threshold are proven on its bytes, not on those of its parent."""
    threshold, again = (run(pair, name, monkeypatch) for name in ("a", "b"))
    assert Checkpoint.open(pair / SOURCE / "system1").meta.storage == "int8"
    assert md5_folder(pair / "a") == md5_folder(pair / "b")
    assert threshold == again == Threshold.read(pair / "a/threshold.json")
    weights = Checkpoint.open(pair / SOURCE / "system1").digest
    gate = Gate.load(pair / "a/gate.json", weights)
    assert threshold.for_weights(weights, md5_file(pair / "a/gate.json")) == threshold
    with pytest.raises(GateError, match="was fitted on weights"):
        Gate.load(pair / "a/gate.json", "0" * 32)
    for other in ("0" * 32, Checkpoint.open(pair / "artifacts/pretrain/system1").digest):
        with pytest.raises(ThresholdMismatch):
            threshold.for_weights(other, md5_file(pair / "a/gate.json"))
    assert gate.file.coefficients[0] >= 0
    assert threshold.calibration_digest == md5_file(pair / "a/decisions.parquet")


def test_the_proof_can_be_recounted_from_its_rows(pair: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threshold = run(pair, "c", monkeypatch)
    rows = pq.read_table(pair / "c/decisions.parquet").to_pylist()
    proof = [row for row in rows if row["part"] == "proof"]
    accepted = [row for row in proof if row["score"] >= threshold.value]
    assert (len(accepted), sum(not row["right"] for row in accepted)) == (threshold.n, threshold.errors)
    assert len({row["problem_id"] for row in proof}) == len(proof)
    assert not {row["problem_id"] for row in proof} & {row["problem_id"] for row in rows if row["part"] == "fit"}
    metrics = json.loads((pair / "c/metrics.json").read_text())
    assert metrics["system1_share"] == pytest.approx(len(accepted) / len(proof))
    assert 0 <= metrics["expected_calibration_error"]["score"] <= 1


def test_a_promise_that_cannot_be_kept_is_not_made(pair: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strict = PARAMS.model_copy(update={"alpha": 0.001})
    with pytest.raises(NoValidThreshold, match=r"no valid threshold at alpha = 0\.001"):
        run(pair, "d", monkeypatch, strict)
    assert not (pair / "d/threshold.json").exists()
