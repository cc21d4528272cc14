import itertools
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BartConfig, BartForConditionalGeneration, T5Config, T5ForConditionalGeneration

from dualmind.errors import CheckpointError
from dualmind.learning.batching import TokenizedDecisions
from dualmind.learning.cloning import Lessons, clone
from dualmind.models import system1 as module
from dualmind.models.checkpoint import Meta, save_checkpoint
from dualmind.models.system1 import System1
from dualmind.models.text_model import PublishedParams
from dualmind.models.tokenizer import build_tokenizer
from stages.pretrain import texts
from tests.learning.demonstrations import demonstrations, small_system1
from tests.learning.test_cloning import PARAMS

ROWS = demonstrations()
META = Meta(kind="system1", parents={}, seed=0, threads=1, steps=0, num_parameters=1, metrics={})


def tiny_published(kind: str, folder: Path, dtype: torch.dtype = torch.float32) -> Path:
    """A real T5 or BART with random weights and a tokenizer, as a publisher would save it."""
    tokenizer = build_tokenizer(texts(ROWS))
    torch.manual_seed(0)
    shared = {
        "vocab_size": len(tokenizer),
        "d_model": 32,
        "pad_token_id": 0,
        "eos_token_id": 2,
        "decoder_start_token_id": 1,
    }
    if kind == "t5":
        T5ForConditionalGeneration(
            T5Config(**shared, d_kv=8, d_ff=64, num_layers=1, num_decoder_layers=1, num_heads=4)
        ).to(dtype).save_pretrained(folder)
    else:
        BartForConditionalGeneration(
            BartConfig(
                **shared, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
                encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=256, bos_token_id=1,
                forced_eos_token_id=2,
            )
        ).save_pretrained(folder)  # fmt: skip
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(params=["compact", "t5", "bart"])
def system1(request: pytest.FixtureRequest, tmp_path: Path) -> System1:
    torch.set_num_threads(1)
    if request.param == "compact":
        return small_system1()
    folder = tiny_published(request.param, tmp_path / "published")
    return System1.build(PublishedParams(kind="published", checkpoint=str(folder)), [], seed=0)


def test_any_encoder_decoder_learns_to_score_and_comes_back_from_disk(system1: System1, tmp_path: Path) -> None:
    params = PARAMS.model_copy(update={"optimizer": "adamw", "rename_probability": 0.0})
    decisions = TokenizedDecisions.of(ROWS, system1)
    report = clone(system1, Lessons(decisions, None), params, seed=0)
    assert report.curve[-1]["loss"] < 0.85 * report.curve[0]["loss"]
    before = system1.score([r.prompt for r in ROWS[:5]], [r.candidates for r in ROWS[:5]])
    save_checkpoint(tmp_path / "saved", system1.model, system1.tokenizer, META)
    after = System1.load(tmp_path / "saved").score([r.prompt for r in ROWS[:5]], [r.candidates for r in ROWS[:5]])
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_scores_are_a_distribution_and_no_command_sees_another(system1: System1) -> None:
    torch.nn.init.normal_(system1.model.command_head.weight)
    row = max(ROWS, key=lambda r: len(r.candidates))
    scores = system1.score([row.prompt], [row.candidates])[0]
    assert scores.exp().sum() == pytest.approx(1.0, abs=1e-5)
    for order in itertools.islice(itertools.permutations(range(4)), 5):
        own = [row.candidates[i] for i in order]
        shuffled = system1.score([row.prompt], [own])[0]
        expected = scores[list(order)] - scores[list(order)].logsumexp(0)
        torch.testing.assert_close(shuffled, expected, atol=1e-5, rtol=1e-4)


def test_a_published_checkpoint_in_bf16_scores(tmp_path: Path) -> None:
    folder = tiny_published("t5", tmp_path, torch.bfloat16)
    system1 = System1.build(PublishedParams(kind="published", checkpoint=str(folder)), [], seed=0)
    assert system1.score([ROWS[0].prompt], [ROWS[0].candidates])[0].exp().sum() == pytest.approx(1.0, abs=1e-5)


def test_dropout_of_a_published_checkpoint_follows_the_seed_and_leaves_the_global_generator(tmp_path: Path) -> None:
    folder = tiny_published("t5", tmp_path)  # T5 drops 0.1 of its states
    params = PARAMS.model_copy(update={"optimizer": "adamw", "rename_probability": 0.0, "steps": 3, "batch_size": 8})

    def trained(state: int) -> torch.Tensor:
        own = System1.build(PublishedParams(kind="published", checkpoint=str(folder)), [], seed=0)
        decisions = TokenizedDecisions.of(ROWS[:16], own)
        torch.manual_seed(state)
        clone(own, Lessons(decisions, None), params, seed=4)
        assert torch.equal(torch.rand(1), torch.rand(1, generator=torch.Generator().manual_seed(state)))
        return torch.cat([p.detach().flatten() for p in own.model.parameters()])

    assert torch.equal(trained(1), trained(2))


def test_published_checkpoint_that_is_not_there_is_refused_with_the_remedy() -> None:
    with pytest.raises(CheckpointError, match="download it beforehand"):
        System1.build(PublishedParams(kind="published", checkpoint="google/no-such-model"), [], seed=0)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", "{}"),
        ("tokenizer.json", '{"model": {"type": "WordLevel"}}'),
        ("config.json", {"num_heads": 0}),
        ("config.json", {"d_model": "wide"}),
        ("config.json", {"d_ff": -3}),
        ("config.json", {"d_ff": 32}),
        ("model.safetensors", "cut off"),
    ],
)
def test_a_damaged_published_checkpoint_is_refused_with_the_remedy(name: str, content: object, tmp_path: Path) -> None:
    file = tiny_published("t5", tmp_path) / name
    if isinstance(content, dict):
        content = json.dumps({**json.loads(file.read_text()), **content})
    file.write_text(str(content))
    with pytest.raises(
        CheckpointError, match=r"pretrain\.system1\.model\.checkpoint = .*; download it beforehand, whole"
    ):
        System1.build(PublishedParams(kind="published", checkpoint=str(tmp_path)), [], seed=0)


def test_a_published_checkpoint_that_lacks_weights_is_not_filled_with_random_ones(tmp_path: Path) -> None:
    file = tiny_published("t5", tmp_path) / "model.safetensors"
    weights = load_file(file)
    lost = next(name for name in weights if name.endswith("DenseReluDense.wi.weight"))
    save_file({name: own for name, own in weights.items() if name != lost}, file, metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=rf"lacks the weights {lost}; download"):
        System1.build(PublishedParams(kind="published", checkpoint=str(tmp_path)), [], seed=0)


def test_a_published_tokenizer_without_padding_is_refused(tmp_path: Path) -> None:
    file = tiny_published("t5", tmp_path) / "tokenizer_config.json"
    file.write_text(json.dumps({k: v for k, v in json.loads(file.read_text()).items() if k != "pad_token"}))
    with pytest.raises(CheckpointError, match="has a tokenizer without padding; name its pad_token"):
        System1.build(PublishedParams(kind="published", checkpoint=str(tmp_path)), [], seed=0)


def test_a_pickled_published_checkpoint_is_refused(tmp_path: Path) -> None:
    folder = tiny_published("t5", tmp_path)
    torch.save({}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="safetensors"):
        System1.build(PublishedParams(kind="published", checkpoint=str(folder)), [], seed=0)


def test_a_model_that_is_too_large_for_system1_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PARAMETERS", 1000)
    with pytest.raises(CheckpointError, match="choose a smaller"):
        small_system1()


def test_tokenizer_knows_all_words_of_its_texts_and_all_numbers() -> None:
    tokenizer = build_tokenizer(["go to desk 1", "take mug 2"])
    ids = tokenizer("take desk 57 mug")["input_ids"]
    assert tokenizer.unk_token_id not in ids
    assert tokenizer.decode(ids) == "take desk 57 mug </s>"
    assert tokenizer("unheard of")["input_ids"][:2] == [tokenizer.unk_token_id] * 2
    assert build_tokenizer(["take mug 2", "go to desk 1"]).get_vocab() == tokenizer.get_vocab()
