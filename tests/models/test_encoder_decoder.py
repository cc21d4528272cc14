from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForSeq2SeqLM
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from dualmind.models.config import CompactConfig
from dualmind.models.encoder_decoder import CompactForConditionalGeneration
from dualmind.models.layers import CrossAttention, attend, hide, rotate


@pytest.fixture
def model() -> CompactForConditionalGeneration:
    torch.manual_seed(0)
    config = CompactConfig(vocab_size=40, d_model=32, d_ff=64, num_heads=4, encoder_layers=2, decoder_layers=2)
    return CompactForConditionalGeneration(config).eval()


@pytest.fixture
def prompt() -> dict[str, torch.Tensor]:
    ids = torch.randint(4, 40, (3, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    return {"input_ids": ids.masked_fill(mask == 0, 0), "attention_mask": mask}


def test_attention_is_that_of_torch() -> None:
    q, k, v = torch.randn(3, 2, 4, 5, 8, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(2, 5)
    mask[0, 3:] = 0
    reference = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None].bool())
    torch.testing.assert_close(attend(q, k, v, hide(mask, q.dtype)), reference.transpose(1, 2).flatten(2))


def test_rotary_scores_depend_on_distance_only() -> None:
    q, k = torch.randn(2, 1, 1, 1, 8, generator=torch.Generator().manual_seed(0))
    scores = [(rotate(q, i + 5, 100.0) * rotate(k, i, 100.0)).sum() for i in (0, 3, 40)]
    torch.testing.assert_close(torch.stack(scores), scores[0].expand(3), atol=1e-5, rtol=1e-5)


def test_cached_and_uncached_decoding_give_the_same_logits(
    model: CompactForConditionalGeneration, prompt: dict[str, torch.Tensor]
) -> None:
    words = torch.randint(4, 40, (3, 7), generator=torch.Generator().manual_seed(2))
    whole = model(**prompt, decoder_input_ids=words).logits
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    steps = [
        model(**prompt, decoder_input_ids=words[:, i : i + 1], cache=cache, use_cache=True).logits for i in range(7)
    ]
    torch.testing.assert_close(torch.cat(steps, dim=1), whole, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("options", [{"num_beams": 1}, {"num_beams": 3}])
def test_generate_does_not_depend_on_the_cache(
    model: CompactForConditionalGeneration, prompt: dict[str, torch.Tensor], options: dict[str, int]
) -> None:
    shared = {**prompt, **options, "max_new_tokens": 8, "do_sample": False}
    assert torch.equal(model.generate(**shared, use_cache=True), model.generate(**shared, use_cache=False))


def test_greedy_generate_is_the_argmax_loop(
    model: CompactForConditionalGeneration, prompt: dict[str, torch.Tensor]
) -> None:
    written = torch.full((3, 1), model.config.decoder_start_token_id)
    for _ in range(8):
        following = model(**prompt, decoder_input_ids=written).logits[:, -1].argmax(-1, keepdim=True)
        written = torch.cat((written, following), dim=1)
    generated = model.generate(**prompt, max_new_tokens=8, do_sample=False, eos_token_id=None)
    assert torch.equal(generated, written)


def test_sampling_works(model: CompactForConditionalGeneration, prompt: dict[str, torch.Tensor]) -> None:
    assert model.generate(**prompt, max_new_tokens=5, do_sample=True).shape[0] == 3


def test_auto_classes_load_what_save_pretrained_wrote(
    model: CompactForConditionalGeneration, prompt: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert isinstance(loaded, CompactForConditionalGeneration)
    assert isinstance(AutoConfig.from_pretrained(tmp_path), CompactConfig)
    words = torch.tensor([[1, 5], [1, 6], [1, 7]])
    assert torch.equal(
        loaded(**prompt, decoder_input_ids=words).logits, model(**prompt, decoder_input_ids=words).logits
    )


def test_a_word_looks_for_the_same_word_before_anything_is_learnt(model: CompactForConditionalGeneration) -> None:
    words = model.get_input_embeddings().weight[4:12]  # eight words, each (D,)
    states = torch.nn.functional.rms_norm(words, words.shape[-1:])[None]  # (1, 8, D)
    found = []
    for layer in (module for module in model.modules() if isinstance(module, CrossAttention)):
        queries = layer.q(states).unflatten(-1, (layer.heads, -1)).transpose(1, 2)  # (1, H, 8, d)
        scores = (queries @ layer.keys_values(states)[0].transpose(-1, -2)).mean(1)  # (1, 8, 8)
        found.append(scores.argmax(-1) == torch.arange(8))
    assert len(found) == 2
    assert torch.stack(found).float().mean() > 0.9  # by chance 0.125


def test_loss_is_the_cross_entropy_of_the_shifted_labels(
    model: CompactForConditionalGeneration, prompt: dict[str, torch.Tensor]
) -> None:
    labels = torch.tensor([[5, 6, 2], [7, 2, -100], [8, 9, 2]])
    inputs = torch.tensor([[1, 5, 6], [1, 7, 2], [1, 8, 9]])
    logits = model(**prompt, decoder_input_ids=inputs).logits
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
    torch.testing.assert_close(model(**prompt, labels=labels).loss, expected)


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple of twice"):
        CompactConfig(d_model=30, num_heads=4)
