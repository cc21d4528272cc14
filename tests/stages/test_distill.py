import json
from pathlib import Path

import pytest

from dualmind.errors import DistillationError
from dualmind.models.checkpoint import save_checkpoint
from dualmind.models.system1 import System1
from dualmind.storage import md5_file
from stages.distill import DistillParams, distill_system1
from tests.learning.demonstrations import SMALL
from tests.learning.test_distillation import PARAMS as LEARNING
from tests.stages.small import RUN, data, pair

PARAMS = DistillParams(
    max_decisions=60, max_judged=30, max_error=0.1, tolerance=1.0 - 1e-9,
    learning=LEARNING.model_copy(update={"steps": 6}),
)  # fmt: skip


def test_a_student_names_its_teacher_and_is_the_same_bytes_again(tmp_path: Path) -> None:
    student, teacher = pair()
    first, again = (
        distill_system1(PARAMS, RUN, teacher, student, data()["decisions"], tmp_path / name) for name in "ab"
    )
    assert first.digest == again.digest != student.digest
    assert first.meta.parents["system2"] == teacher.digest
    assert first.meta.parents["system1"] == student.digest
    found = json.loads((tmp_path / "a.json").read_text())
    assert 0 < found["taught"] <= found["offered"] <= 120
    for domain in ("household", "reasoning"):
        assert set(found["before"][domain]) == set(found["after"][domain]) == {"accuracy", "agreement", "share"}
    System1.load(first.path)


def test_a_student_that_got_worse_is_handed_on_as_it_came_and_the_metrics_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    student, teacher = pair()
    accuracies = iter((0.9, 0.9, 0.9, 0.8))  # of both domains, before and after
    monkeypatch.setattr("stages.distill.judge", lambda *_: {"accuracy": next(accuracies), "share": 0.5})
    params = PARAMS.model_copy(update={"tolerance": 0.01})
    saved = distill_system1(params, RUN, teacher, student, data()["decisions"], tmp_path / "x")
    found = json.loads((tmp_path / "x.json").read_text())
    assert found["kept_input"] == 1
    assert saved.meta.parents["system1"] == student.digest
    assert saved.meta.steps == 0
    assert md5_file(saved.path / "model.safetensors") == md5_file(student.path / "model.safetensors")


def test_a_student_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    student, teacher = pair()
    other = System1.build(SMALL, ["other words"], seed=0)
    stranger = save_checkpoint(tmp_path / "stranger", other.model, other.tokenizer, student.meta)
    with pytest.raises(DistillationError, match="other vocabularies"):
        distill_system1(PARAMS, RUN, teacher, stranger, data()["decisions"], tmp_path / "x")
    assert not (tmp_path / "x").exists()
