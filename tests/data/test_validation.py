import copy
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dualmind.data.decisions import read_decisions, write_decisions
from dualmind.data.suites import Suite, build_suite, import_great_expectations
from dualmind.data.summary import render_summary
from dualmind.data.validation import ValidatedDataset, judge, open_validated, validate
from dualmind.errors import ReceiptMismatch, ValidationFailed
from dualmind.storage import md5_file
from tests.data.rows import PARAMS, decision_rows


@pytest.fixture(scope="module")
def validated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("validated")
    write_decisions(folder / "prepare" / "decisions.parquet", decision_rows())
    validate(
        folder / "prepare" / "decisions.parquet", "household decisions", PARAMS, folder / "validate" / "decisions.json"
    )
    return folder


@pytest.fixture
def dataset(validated: Path, tmp_path: Path) -> ValidatedDataset:
    shutil.copytree(validated, tmp_path, dirs_exist_ok=True)
    return open_validated(tmp_path / "validate" / "decisions.json")


def test_importing_the_gate_imports_no_heavy_library() -> None:
    code = (
        "import sys, dualmind.data.decisions, dualmind.data.problems, dualmind.data.validation, dualmind.data.summary; "
        "print([m for m in ('great_expectations', 'pandas', 'datasets', 'evaluate', 'torch') if m in sys.modules])"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=root)
    assert done.stdout == "[]\n"


def test_the_receipt_names_the_bytes_and_every_expectation(dataset: ValidatedDataset) -> None:
    receipt = json.loads(dataset.receipt.read_text(encoding="utf-8"))
    assert receipt["md5"] == md5_file(dataset.path) == dataset.md5
    assert receipt["dataset"] == "../prepare/decisions.parquet"
    assert (receipt["rows"], receipt["suite"]) == (6, "household decisions")
    assert len(receipt["expectations"]) == len(build_suite("household decisions", PARAMS).expectations)
    assert all(check["success"] for check in receipt["expectations"])
    ranges = [c for c in receipt["expectations"] if (c["column"], "between" in c["expectation"]) == ("reward", True)]
    assert ranges[0]["expected"] == {"max_value": 1.0, "min_value": 0.0}
    assert ranges[0]["observed"] == "6 rows, all as expected"


def test_judging_twice_writes_the_same_receipt(dataset: ValidatedDataset) -> None:
    before = dataset.receipt.read_bytes()
    again = validate(dataset.path, "household decisions", PARAMS, dataset.receipt)
    assert again == dataset
    assert dataset.receipt.read_bytes() == before


def test_a_validated_data_set_opens_by_its_receipt_also_after_both_moved(
    dataset: ValidatedDataset, tmp_path: Path
) -> None:
    assert open_validated(dataset.receipt) == dataset
    (tmp_path / "elsewhere").mkdir()
    for folder in ("prepare", "validate"):
        (tmp_path / folder).rename(tmp_path / "elsewhere" / folder)
    assert open_validated(tmp_path / "elsewhere" / "validate" / "decisions.json").md5 == dataset.md5


def test_nobody_else_can_make_a_validated_data_set(dataset: ValidatedDataset) -> None:
    with pytest.raises(TypeError, match=r"made by validate\(\) or open_validated\(\) only"):
        ValidatedDataset(dataset.path, dataset.md5, dataset.suite, dataset.receipt, object())
    with pytest.raises((TypeError, ValueError), match="token"):
        replace(dataset, md5="0" * 32)  # type: ignore[call-arg]  # that it cannot be called is the point
    assert copy.copy(dataset) == dataset


def test_a_file_that_was_edited_after_validation_is_refused(dataset: ValidatedDataset) -> None:
    write_decisions(dataset.path, decision_rows()[:4])
    for reading in (lambda: open_validated(dataset.receipt), lambda: read_decisions(dataset, "train")):
        with pytest.raises(ReceiptMismatch) as caught:
            reading()
        message = str(caught.value)
        assert dataset.md5 in message
        assert md5_file(dataset.path) in message
        assert "dvc repro validate" in message


def test_a_file_that_vanished_after_validation_is_refused(dataset: ValidatedDataset) -> None:
    dataset.path.unlink()
    with pytest.raises(ReceiptMismatch, match="which is missing"):
        dataset.check()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"md5": "0" * 32}, "changed since it was validated"),
        ({"rows": 0}, "not a pass"),
        ({"expectations": []}, "not a pass"),
        ({"surplus": 1}, "surplus"),
        ({"suite": None}, "suite"),
    ],
)
def test_a_receipt_that_proves_nothing_is_refused(
    dataset: ValidatedDataset, change: dict[str, object], expected: str
) -> None:
    content = json.loads(dataset.receipt.read_text(encoding="utf-8"))
    dataset.receipt.write_text(json.dumps(content | change), encoding="utf-8")
    with pytest.raises(ReceiptMismatch, match=expected):
        open_validated(dataset.receipt)


def test_a_receipt_with_a_failed_expectation_is_refused(dataset: ValidatedDataset) -> None:
    content = json.loads(dataset.receipt.read_text(encoding="utf-8"))
    content["expectations"][0]["success"] = False
    dataset.receipt.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ReceiptMismatch, match="not a pass"):
        open_validated(dataset.receipt)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]"])
def test_a_broken_receipt_is_refused(dataset: ValidatedDataset, content: bytes) -> None:
    dataset.receipt.write_bytes(content)
    with pytest.raises(ReceiptMismatch, match="is not a receipt"):
        open_validated(dataset.receipt)


def test_a_missing_receipt_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReceiptMismatch, match="there is no receipt at"):
        open_validated(tmp_path / "decisions.json")


def test_no_rows_are_refused_though_all_expectations_on_values_hold(tmp_path: Path) -> None:
    write_decisions(tmp_path / "decisions.parquet", [])
    gxe = import_great_expectations().expectations
    suite = Suite("values", (), [gxe.ExpectColumnValuesToBeUnique(column="example_id")])
    with pytest.raises(ValidationFailed, match="has 0 rows"):
        judge(tmp_path / "decisions.parquet", suite, tmp_path / "decisions.json")


def test_an_empty_suite_is_refused(tmp_path: Path) -> None:
    write_decisions(tmp_path / "decisions.parquet", decision_rows())
    with pytest.raises(ValidationFailed, match="'nothing' holds 0 expectations"):
        judge(tmp_path / "decisions.parquet", Suite("nothing", (), []), tmp_path / "decisions.json")
    assert not (tmp_path / "decisions.json").exists()


def test_an_expectation_that_raises_is_a_failure_with_its_reason(tmp_path: Path) -> None:
    write_decisions(tmp_path / "decisions.parquet", decision_rows())
    gxe = import_great_expectations().expectations
    broken = Suite("broken", (), [gxe.ExpectColumnValuesToMatchRegex(column="prompt", regex="[")])
    with pytest.raises(ValidationFailed, match=r"column 'prompt': .*evaluating it raised: .*\["):
        judge(tmp_path / "decisions.parquet", broken, tmp_path / "decisions.json")


@pytest.mark.parametrize("content", [b"", b"not a parquet file", b"PAR1" + b"\0" * 100 + b"PAR1"])
def test_what_is_no_parquet_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "decisions.parquet"
    path.write_bytes(content)
    with pytest.raises(ValidationFailed, match="is not a readable Parquet file"):
        validate(path, "household decisions", PARAMS, tmp_path / "decisions.json")


def test_a_truncated_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "decisions.parquet"
    write_decisions(path, decision_rows())
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValidationFailed, match="is not a readable Parquet file"):
        validate(path, "household decisions", PARAMS, tmp_path / "decisions.json")


def test_a_missing_file_is_refused_with_the_stage_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(ValidationFailed, match=r"there is no data set at .* run `dvc repro prepare`"):
        validate(tmp_path / "decisions.parquet", "household decisions", PARAMS, tmp_path / "decisions.json")


def test_a_failure_takes_the_older_receipt_away(dataset: ValidatedDataset) -> None:
    stricter = PARAMS.model_copy(update={"min_decisions": 1000})
    with pytest.raises(ValidationFailed, match="found 6"):
        validate(dataset.path, "household decisions", stricter, dataset.receipt)
    assert list(dataset.receipt.parent.iterdir()) == []


def test_the_summary_is_self_contained_and_escapes_what_it_shows(dataset: ValidatedDataset) -> None:
    content = json.loads(dataset.receipt.read_text(encoding="utf-8"))
    content["expectations"][0]["observed"] = "<script>alert(1)</script>"
    dataset.receipt.write_text(json.dumps(content), encoding="utf-8")
    page = render_summary([dataset])
    assert "http" not in page
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert dataset.md5 in page
    assert page.count("<tr>") == 1 + len(content["expectations"])
