import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM

from dualmind.errors import CheckpointError
from dualmind.models.checkpoint import FILES, Checkpoint, Meta, save_checkpoint
from dualmind.models.system1 import System1
from tests.learning.demonstrations import small_system1

META = Meta(
    kind="system1", parents={"decisions": "0" * 32}, seed=1, threads=1, steps=5, num_parameters=9, metrics={"x": 0.5}
)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    system1 = small_system1()
    return save_checkpoint(tmp_path / "checkpoint", system1.model, system1.tokenizer, META).path


def test_the_same_model_gives_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    system1 = small_system1()
    again = save_checkpoint(tmp_path / "again", system1.model, system1.tokenizer, META)
    assert again.digest == Checkpoint.open(saved).digest
    assert again.meta == META
    assert {p.name for p in saved.iterdir()} == set(FILES)


def test_transformers_loads_it_as_well(saved: Path) -> None:
    ours, theirs = System1.load(saved).model.state_dict(), AutoModelForSeq2SeqLM.from_pretrained(saved).state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_or_empty_file_is_named(saved: Path, name: str) -> None:
    (saved / name).write_bytes(b"")
    with pytest.raises(CheckpointError, match=f"has no {name}; run `dvc repro`"):
        System1.load(saved)
    (saved / name).unlink()
    with pytest.raises(CheckpointError, match=f"has no {name}; run `dvc repro`"):
        System1.load(saved)


def test_a_pickle_in_place_of_the_weights_is_not_loaded(saved: Path) -> None:
    torch.save({"x": torch.zeros(1)}, saved / "model.safetensors")
    with pytest.raises(CheckpointError, match="pickle"):
        System1.load(saved)


def test_a_pickle_beside_the_weights_is_not_accepted(saved: Path) -> None:
    torch.save({}, saved / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin"):
        System1.load(saved)


def test_weights_of_other_shapes_are_refused(saved: Path) -> None:
    weights = load_file(saved / "model.safetensors")
    save_file({**weights, "norm.weight": torch.ones(7)}, saved / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"norm\.weight"):
        System1.load(saved)


def test_weights_that_lack_a_tensor_are_refused(saved: Path) -> None:
    weights = load_file(saved / "model.safetensors")
    del weights["command_head.weight"]
    save_file(weights, saved / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"command_head\.weight"):
        System1.load(saved)


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"\xff" * 8 + b[8:], lambda b: b[:20]])
def test_damaged_weights_are_refused(saved: Path, damage: object) -> None:
    assert callable(damage)
    file = saved / "model.safetensors"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        System1.load(saved)


def test_other_meta_data_and_other_architectures_are_refused(saved: Path) -> None:
    (saved / "config.json").write_text(json.dumps({"model_type": "vit"}))
    with pytest.raises(CheckpointError, match="describes no model that we can load"):
        System1.load(saved)
    (saved / "meta.json").write_text('{"kind": "system1", "when": "today"}')
    with pytest.raises(CheckpointError, match="meta data"):
        System1.load(saved)


@pytest.mark.parametrize(("key", "value"), [("num_heads", 0), ("d_model", "wide"), ("d_ff", -3), ("vocab_size", None)])
def test_a_config_of_impossible_sizes_is_refused(saved: Path, key: str, value: object) -> None:
    file = saved / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), key: value}))
    with pytest.raises(CheckpointError, match=r"config\.json.*dvc checkout"):
        System1.load(saved)


@pytest.mark.parametrize("content", ["{}", "no json", '{"model": {"type": "WordLevel"}}'])
def test_a_broken_tokenizer_is_refused(saved: Path, content: str) -> None:
    (saved / "tokenizer.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json is no tokenizer.*dvc checkout"):
        System1.load(saved)


def test_a_full_disk_leaves_the_former_checkpoint(saved: Path) -> None:
    before = Checkpoint.open(saved).digest
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from dualmind.models.checkpoint import save_checkpoint\n"
        "from tests.learning.demonstrations import small_system1\n"
        "from tests.models.test_checkpoint import META\n"
        "system1 = small_system1(seed=7)\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "save_checkpoint(Path(sys.argv[1]), system1.model, system1.tokenizer, META)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(saved)], capture_output=True, text=True, check=False)
    assert "StorageError" in done.stderr, done.stderr[-2000:]
    assert Checkpoint.open(saved).digest == before
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]
