"""The stages in a row, as DVC runs them, on a handful of games."""

import json
from pathlib import Path

import pytest

from dualmind.data.decisions import read_decisions
from dualmind.data.suites import SuiteParams
from dualmind.data.validation import ValidatedDataset, open_validated
from dualmind.errors import ParamsError, ReceiptMismatch
from dualmind.models.checkpoint import Checkpoint
from dualmind.models.system1 import System1
from dualmind.models.system2 import ReasonerParams
from stages.params import RunParams
from stages.prepare import prepare_household
from stages.pretrain import System1Params, System2Params, pretrain, problems_of
from stages.validate import SUITES as NAMES
from stages.validate import validate
from tests.learning import test_cloning
from tests.learning.demonstrations import SMALL
from tests.stages.test_prepare import PREPARE, household

RUN = RunParams(seed=0, threads=1)
SUITES = SuiteParams(min_decisions=10, min_problems=10, max_prompt_chars=4000)
CLONING = test_cloning.PARAMS.model_copy(update={"steps": 30})
PARAMS = System1Params(model=SMALL, hard_share=0.5, cloning=CLONING)
SYSTEM2 = System2Params(
    model=ReasonerParams(
        kind="reasoner", d_model=32, d_ff=32, num_heads=4, encoder_layers=2, decoder_layers=2, num_experts=2,
        num_slots=2, reasoning_steps=3, validity_cutoff=0.0, concept=True, relation=True, reasoning=True,
        verification=True,
    ),
    direct_share=0.3,
    cloning=CLONING,
)  # fmt: skip


@pytest.fixture(scope="module")
def decisions(tmp_path_factory: pytest.TempPathFactory) -> ValidatedDataset:
    root = tmp_path_factory.mktemp("stages")
    prepare_household(PREPARE, household(), root / "prepare")
    validate(SUITES, NAMES["household"], root / "prepare", root / "validate")
    return open_validated(root / "validate" / "decisions.json")


def test_a_checkpoint_names_its_data_and_is_the_same_bytes_again(decisions: ValidatedDataset, tmp_path: Path) -> None:
    first, again = (pretrain(PARAMS, RUN, {"household": decisions}, tmp_path / name) for name in ("a", "b"))
    assert first.digest == again.digest
    assert first.meta.parents == {"household decisions": decisions.md5}
    assert (first.meta.seed, first.meta.threads, first.meta.steps) == (0, 1, 30)
    metrics = json.loads((tmp_path / "a.json").read_text())
    assert metrics["curve"][-1]["step"] == 30
    assert metrics["valid_accuracy"] == Checkpoint.open(tmp_path / "a").meta.metrics["valid_accuracy"]


def test_what_is_held_back_is_not_learnt_but_its_words_are_known(decisions: ValidatedDataset, tmp_path: Path) -> None:
    problems = {"household": open_validated(decisions.receipt.with_name("problems.json"))}
    held_back = problems_of(["household/pick_and_place_simple"], problems)
    saved = pretrain(PARAMS, RUN, {"household": decisions}, tmp_path / "x", held_back)
    rows = read_decisions(decisions, "train")
    assert held_back >= {row.problem_id for row in rows if row.problem_id in held_back} != set()
    found = json.loads((tmp_path / "x.json").read_text())
    assert found["train_decisions"]["household"] == sum(row.problem_id not in held_back for row in rows) < len(rows)
    system = System1.load(saved.path)
    assert system.tokenizer.unk_token_id not in {i for row in rows for i in system.tokenizer(row.prompt)["input_ids"]}


def test_a_kind_of_problems_that_is_not_there_cannot_be_held_back(decisions: ValidatedDataset) -> None:
    problems = {"household": open_validated(decisions.receipt.with_name("problems.json"))}
    with pytest.raises(ParamsError, match=r"held_back holds 'household/fly', of which there are no problems"):
        problems_of(["household/fly"], problems)
    assert problems_of([], problems) == frozenset()


def test_data_that_changed_after_validation_are_not_read(decisions: ValidatedDataset, tmp_path: Path) -> None:
    content = decisions.path.read_bytes()
    try:
        decisions.path.write_bytes(content[:-1] + b"x")
        with pytest.raises(ReceiptMismatch):
            pretrain(PARAMS, RUN, {"household": decisions}, tmp_path / "out")
    finally:
        decisions.path.write_bytes(content)
    assert not (tmp_path / "out").exists()
