import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from dualmind.errors import CheckpointError, ParamsError
from dualmind.learning.batching import TokenizedDecisions
from dualmind.learning.cloning import Lessons, clone
from dualmind.models.checkpoint import Checkpoint, Meta, save_checkpoint
from dualmind.models.compression import expert_use, largest, prune_experts, sparse, sparsity_of
from dualmind.models.experts import MixtureOfExperts
from dualmind.models.int8 import Int8Linear, dequantize, quantize, to_int8
from dualmind.models.packing import pack
from dualmind.models.system1 import System1
from dualmind.models.system2 import ReasonerParams, System2
from dualmind.models.text_model import TextModel
from stages.pretrain import texts
from tests.learning.demonstrations import demonstrations, small_system1
from tests.learning.test_cloning import PARAMS

META = Meta(kind="system1", parents={"system1": "1" * 32}, seed=1, threads=1, steps=5, num_parameters=9, metrics={})
REASONER = ReasonerParams(
    kind="reasoner", d_model=32, d_ff=64, num_heads=4, encoder_layers=2, decoder_layers=2, num_experts=4, num_slots=2,
    reasoning_steps=2, validity_cutoff=0.0, concept=True, relation=True, reasoning=True, verification=True,
)  # fmt: skip


def small_system2() -> System2:
    return System2.build(REASONER, texts(demonstrations()), seed=0)


def probabilities(system: System1 | System2) -> list[torch.Tensor]:
    rows = demonstrations()[:8]
    scores = TextModel.score(system, [r.prompt for r in rows], [r.candidates for r in rows])  # without a plan
    return [own.exp() for own in scores]


def far(one: list[torch.Tensor], other: list[torch.Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True))


@given(st.integers(1, 4), st.integers(1, 9), st.integers(0, 100))
def test_int8_is_torch_s_own_symmetric_quantisation_by_channel(rows: int, columns: int, seed: int) -> None:
    weight = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
    integers, scale = quantize(weight)
    zeros = torch.zeros(rows, dtype=torch.int32)
    theirs = torch.fake_quantize_per_channel_affine(weight, scale, zeros, 0, -127, 127)
    torch.testing.assert_close(dequantize(integers, scale), theirs)
    assert bool(((dequantize(integers, scale) - weight).abs() <= scale[:, None] * 0.5001).all())


def test_a_row_of_zeros_stays_zero() -> None:
    assert not dequantize(*quantize(torch.zeros(2, 3))).any()


def test_an_int8_layer_is_the_layer_of_its_rounded_weights() -> None:
    linear = nn.Linear(16, 8)
    small = Int8Linear.of(linear)
    x = torch.randn(3, 16)
    torch.testing.assert_close(small(x), nn.functional.linear(x, small.weight, linear.bias))
    torch.testing.assert_close(small(x), linear(x), rtol=0, atol=0.05)


@pytest.mark.parametrize("build", [small_system1, small_system2])
def test_a_system_in_int8_says_nearly_the_same_and_loads_through_the_same_call(build: object, tmp_path: Path) -> None:
    assert callable(build)
    system = build()
    plain = probabilities(system)
    full = save_checkpoint(tmp_path / "full", system.model, system.tokenizer, META)
    to_int8(system.model)
    assert far(plain, probabilities(system)) < 0.05
    saved = save_checkpoint(tmp_path / "small", system.model, system.tokenizer, META)
    again = type(system).load(saved.path)
    assert far(plain, probabilities(again)) < 0.05
    assert again.num_bytes < 0.6 * build().num_bytes  # embeddings are float32 in memory, and half of so small a model
    sizes = [(c.path / "model.safetensors").stat().st_size for c in (full, saved)]
    assert sizes[1] < 0.4 * sizes[0]
    assert saved.meta.parents == {"system1": "1" * 32}
    assert (saved.meta.storage, full.meta.storage, full.meta.files) == ("int8", "float32", {})


def test_the_same_int8_model_gives_the_same_bytes(tmp_path: Path) -> None:
    digests = []
    for name in ("a", "b"):
        system = small_system1()
        to_int8(system.model)
        digests.append(save_checkpoint(tmp_path / name, system.model, system.tokenizer, META).digest)
    assert digests[0] == digests[1]


@pytest.fixture
def compressed(tmp_path: Path) -> Path:
    system = small_system1()
    to_int8(system.model)
    return save_checkpoint(tmp_path / "small", system.model, system.tokenizer, META).path


@pytest.mark.parametrize("place", [9, 0.2, 0.5, 0.999])
def test_one_flipped_byte_of_a_compressed_checkpoint_is_noticed(compressed: Path, place: float) -> None:
    file = compressed / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[int(place) if place > 1 else int(place * len(content))] ^= 1
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"model\.safetensors has MD5 .*dvc checkout"):
        System1.load(compressed)


def test_a_compressed_checkpoint_that_claims_to_be_plain_is_refused(compressed: Path) -> None:
    meta = json.loads((compressed / "meta.json").read_text())
    (compressed / "meta.json").write_text(json.dumps({**meta, "storage": "float32", "files": {}}))
    with pytest.raises(CheckpointError, match=r"does not fit|lacks"):
        System1.load(compressed)


@pytest.mark.parametrize("drop", ["scale", "integers"])
def test_a_compressed_weight_that_lacks_a_part_is_refused(compressed: Path, drop: str) -> None:
    from safetensors.torch import load_file, save_file

    file = compressed / "model.safetensors"
    stored = load_file(file)
    key = next(key for key in stored if key.endswith(f"qkv.integers#{drop}"))
    del stored[key]
    save_file(stored, file)
    meta = json.loads((compressed / "meta.json").read_text())
    (compressed / "meta.json").write_text(json.dumps({**meta, "files": {}}))
    with pytest.raises(CheckpointError):
        System1.load(compressed)


def test_sparse_weights_come_back_and_take_less_room_than_dense_int8(tmp_path: Path) -> None:
    system = small_system2()
    with sparse(system.model, 0.75):
        pass
    assert sparsity_of(system.model) == pytest.approx(0.75, abs=0.01)
    to_int8(system.model)
    plain = probabilities(system)
    saved = save_checkpoint(tmp_path / "sparse", system.model, system.tokenizer, META)
    again = System2.load(saved.path)
    assert far(plain, probabilities(again)) < 0.05  # embeddings are rounded on disk
    ours, theirs = system.model.state_dict(), again.model.state_dict()
    assert all(torch.equal(ours[n], theirs[n]) for n in ours if ours[n].dtype == torch.int8)
    stored = pack(system.model)
    masked = [key for key in stored if key.endswith("#mask")]
    assert masked
    for key in masked:
        name = key.removesuffix("#mask")
        room = stored[key].nbytes + stored[f"{name}#values"].nbytes
        assert room < 0.42 * ours[name].numel()  # an eighth and a quarter of a byte, against one


@given(st.floats(0, 0.99), st.integers(1, 6), st.integers(1, 6), st.integers(0, 50))
def test_the_largest_weights_stay(sparsity: float, rows: int, columns: int, seed: int) -> None:
    weight = torch.randn(2, rows, columns, generator=torch.Generator().manual_seed(seed))
    mask = largest(weight, sparsity)
    for own, kept in zip(weight, mask, strict=True):
        number = max(1, round(rows * columns * (1 - sparsity)))
        assert int(kept.sum()) == number
        gone = own[kept == 0].abs()
        assert not len(gone) or float(gone.max()) <= float(own[kept == 1].abs().min())


def test_pruned_weights_stay_zero_while_the_others_recover() -> None:
    system = small_system1()
    decisions = TokenizedDecisions.of(demonstrations(), system)
    with sparse(system.model, 0.6):
        before = system.model.get_encoder().layers[0].feed_forward.up.weight.detach().clone()
        report = clone(system, Lessons(decisions, None), PARAMS.model_copy(update={"steps": 40}), seed=0)
    after = system.model.get_encoder().layers[0].feed_forward.up.weight
    assert bool((after[before == 0] == 0).all())
    assert not torch.equal(after, before)
    assert report.curve[-1]["score"] < report.curve[0]["score"]
    assert isinstance(after, nn.Parameter)


@pytest.mark.parametrize("sparsity", [1.0, 1.5, -0.1, float("nan")])
def test_pruning_everything_is_an_error(sparsity: float) -> None:
    with pytest.raises(ParamsError, match="sparsity = "), sparse(small_system1().model, sparsity):
        pass


def test_the_experts_that_are_used_most_are_kept() -> None:
    system = small_system2()
    mixtures = [m for m in system.model.modules() if isinstance(m, MixtureOfExperts)]
    use = [torch.tensor([0.1, 0.4, 0.2, 0.3]) for _ in mixtures]
    smaller = prune_experts(system.model, use, 2)
    left = [m for m in smaller.modules() if isinstance(m, MixtureOfExperts)]
    for old, new in zip(mixtures, left, strict=True):
        assert torch.equal(new.up, old.up[[1, 3]])
        assert torch.equal(new.router.weight, old.router.weight[[1, 3]])
    assert smaller.config.num_experts == 2
    assert system.model.config.num_experts == 4
    probabilities(System2(smaller, system.tokenizer))


def test_an_experts_use_is_its_share_of_the_positions() -> None:
    system = small_system2()

    def passes() -> Iterator[object]:
        for _ in range(2):
            yield system.scorer(system.collate(["a b c"], [["go"]]))

    use = expert_use(system.model, passes())
    assert all(float(own.sum()) == pytest.approx(1) for own in use)


@pytest.mark.parametrize("keep", [0, 1, 5])
def test_pruning_all_experts_or_fewer_than_none_is_an_error(keep: int) -> None:
    system = small_system2()
    use = [torch.ones(4) / 4 for m in system.model.modules() if isinstance(m, MixtureOfExperts)]
    with pytest.raises(ParamsError, match=f"keep_experts = {keep} of 4"):
        prune_experts(system.model, use, keep)


def test_a_pruned_and_compressed_system_2_comes_back_with_fewer_experts(tmp_path: Path) -> None:
    system = small_system2()
    use = [torch.ones(4) / 4 for m in system.model.modules() if isinstance(m, MixtureOfExperts)]
    smaller = System2(prune_experts(system.model, use, 2), system.tokenizer)
    with sparse(smaller.model, 0.5):
        pass
    to_int8(smaller.model)
    path = save_checkpoint(tmp_path / "x", smaller.model, smaller.tokenizer, META).path
    assert Checkpoint.open(path).load()[0].config.num_experts == 2
    assert System2.load(path).answer(["a b c"])
