import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from dualmind.errors import CheckpointError, ParamsError
from dualmind.models.system1 import System1
from dualmind.models.system2 import System2
from dualmind.storage import md5_file
from stages.compress import CompressSystem1Params, CompressSystem2Params, compress
from tests.stages.small import CLONING, RUN, SYSTEM1, SYSTEM2, data, pair

ONE = CompressSystem1Params(max_judged=20, tolerance=0.5)
TWO = CompressSystem2Params(
    max_judged=20, tolerance=0.9, keep_experts=2, sparsity=0.5, recovery=CLONING.model_copy(update={"steps": 4})
)


def test_system_1_becomes_small_names_its_parent_and_is_the_same_bytes_again(tmp_path: Path) -> None:
    parent = pair()[0]
    first, again = (compress(ONE, SYSTEM1, RUN, parent, data()["decisions"], tmp_path / name) for name in "ab")
    assert first.digest == again.digest
    assert first.meta.parents["system1"] == parent.digest
    found = json.loads((tmp_path / "a.json").read_text())
    assert found["bytes_after"] < found["bytes_before"]
    assert found["after"]["valid_accuracy"] == pytest.approx(found["before"]["valid_accuracy"], abs=0.1)
    System1.load(first.path)


def test_what_pruning_ruins_only_becomes_int8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shares = iter((0.9, 0.1, 0.9))  # before, pruned, and in int8 alone
    monkeypatch.setattr("stages.compress.judge_system", lambda *_: {"answers_right": next(shares)})
    params = TWO.model_copy(update={"tolerance": 0.2})
    saved = compress(params, SYSTEM2, RUN, pair()[1], data()["decisions"], tmp_path / "two")
    found = json.loads((tmp_path / "two.json").read_text())
    assert (found["kept_input"], found["pruned"]) == (0, 0)
    assert found["tried"] == [{"answers_right": 0.1}, {"answers_right": 0.9}]
    assert System2.load(saved.path).model.config.num_experts == 4
    assert found["bytes_ratio"] < 0.5


def test_what_int8_ruins_is_handed_on_as_it_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = pair()[0]
    shares = iter((0.9, 0.1))
    monkeypatch.setattr("stages.compress.judge_system", lambda *_: {"answers_right": next(shares)})
    saved = compress(ONE, SYSTEM1, RUN, parent, data()["decisions"], tmp_path / "one")
    assert json.loads((tmp_path / "one.json").read_text())["kept_input"] == 1
    assert saved.meta.storage == "float32"
    assert md5_file(saved.path / "model.safetensors") == md5_file(parent.path / "model.safetensors")
    assert saved.meta.parents["system1"] == parent.digest


def test_system_2_is_pruned_recovers_and_becomes_small(tmp_path: Path) -> None:
    parent = pair()[1]
    saved = compress(TWO, SYSTEM2, RUN, parent, data()["decisions"], tmp_path / "two")
    found = json.loads((tmp_path / "two.json").read_text())
    assert found["zeros"] == pytest.approx(0.5, abs=0.02)
    assert found["bytes_ratio"] < 0.4
    assert System2.load(saved.path).model.config.num_experts == 2
    assert saved.meta.parents["system2"] == parent.digest


def test_adapters_cannot_recover_what_is_pruned() -> None:
    recovery = CLONING.model_dump() | {"memory": {"gradient_checkpointing": True, "base": "int8", "adapter_rank": 4}}
    with pytest.raises(ValidationError, match="adapters would undo the zeros"):
        CompressSystem2Params.model_validate(TWO.model_dump() | {"recovery": recovery})


def test_one_flipped_byte_of_the_small_checkpoint_is_noticed(tmp_path: Path) -> None:
    saved = compress(ONE, SYSTEM1, RUN, pair()[0], data()["decisions"], tmp_path / "one")
    file = saved.path / "tokenizer.json"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json has MD5"):
        System1.load(saved.path)


def test_pruning_all_experts_stops_the_stage(tmp_path: Path) -> None:
    params = TWO.model_copy(update={"keep_experts": 1})
    with pytest.raises(ParamsError, match="keep_experts = 1 of 4"):
        compress(params, SYSTEM2, RUN, pair()[1], data()["decisions"], tmp_path / "x")
    assert not (tmp_path / "x").exists()
