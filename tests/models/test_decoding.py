import math
from typing import Any

import pytest
import torch
from torch import Tensor

from dualmind.models.config import CompactConfig, ReasonerConfig
from dualmind.models.decoding import Written, write
from dualmind.models.encoder_decoder import CompactForConditionalGeneration
from dualmind.models.reasoner import ReasonerForConditionalGeneration

LIMIT, VOCAB, END = 9, 24, 2
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "d_model": 32,
    "d_ff": 64,
    "num_heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 2,
}


@pytest.fixture(params=["compact", "reasoner"])
def model(request: pytest.FixtureRequest) -> CompactForConditionalGeneration:
    torch.manual_seed(3)
    made: CompactForConditionalGeneration
    if request.param == "compact":
        made = CompactForConditionalGeneration(CompactConfig(**SIZES))
    else:
        made = ReasonerForConditionalGeneration(ReasonerConfig(**SIZES, num_experts=4, reasoning_steps=2))
    with torch.no_grad():  # else the embedding, which is the head too, outweighs the layers: each word repeats itself
        for name, weight in made.layers.named_parameters():
            if "norm" not in name:
                weight.mul_(3.0)
    return made.eval()


@pytest.fixture
def prompt() -> tuple[Tensor, Tensor]:
    ids = torch.randint(4, VOCAB, (12, 7), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1::3, 4:] = 0
    return ids.masked_fill(mask == 0, 0), mask


def memory(model: CompactForConditionalGeneration, prompt: tuple[Tensor, Tensor]) -> Tensor:
    with torch.inference_mode():
        states: Tensor = model.get_encoder()(*prompt)[0]
    return states


def run(
    model: CompactForConditionalGeneration, prompt: tuple[Tensor, Tensor], **options: object
) -> list[list[Written]]:
    return write(model, memory(model, prompt), prompt[1], max_words=LIMIT, **options)  # type: ignore[arg-type]  # options of several types


def generated(
    model: CompactForConditionalGeneration, prompt: tuple[Tensor, Tensor], prefix: tuple[int, ...], ends: list[int]
) -> list[tuple[int, ...]]:
    """Words up to the first of ``ends``, by transformers' own loop."""
    ids, mask = prompt
    start = torch.tensor([[model.config.decoder_start_token_id, *prefix]]).expand(len(ids), -1)
    out = model.generate(
        input_ids=ids, attention_mask=mask, decoder_input_ids=start, do_sample=False, num_beams=1, use_cache=True,
        max_new_tokens=LIMIT + 1 - len(prefix), eos_token_id=ends,
    )  # fmt: skip
    texts = []
    for row in out[:, 1:].tolist():
        cut = next((i for i, word in enumerate(row) if i >= len(prefix) and word in ends), LIMIT)
        texts.append(tuple(row[:cut]))
    return texts


@pytest.mark.parametrize("prefix", [(), (7,), (9, 4, 11)])
@pytest.mark.parametrize("num_stop", [0, 2])
def test_greedy_writing_is_that_of_transformers_word_by_word(
    model: CompactForConditionalGeneration, prompt: tuple[Tensor, Tensor], prefix: tuple[int, ...], num_stop: int
) -> None:
    free = [word for own in run(model, prompt, prefix=prefix) for word in own[0].ids[len(prefix) :]]
    stop = sorted(set(free), key=free.count)[:num_stop]  # words that some write, and others do not
    ours = run(model, prompt, prefix=prefix, stop=frozenset(stop))
    assert [own[0].ids for own in ours] == generated(model, prompt, prefix, [END, *stop])
    stopped_by = {own[0].stopped_by for own in ours} - {None}
    assert stopped_by <= set(stop)
    assert bool(stopped_by) == bool(stop)


def test_log_probability_and_entropy_are_those_of_one_pass_without_a_cache(
    model: CompactForConditionalGeneration, prompt: tuple[Tensor, Tensor]
) -> None:
    prefix = (9, 4)
    ids, mask = prompt
    for row, (own,) in enumerate(run(model, prompt, prefix=prefix, stop=frozenset({5, 6}))):
        said = [*own.ids, *([END if own.stopped_by is None else own.stopped_by] if own.complete else [])]
        inputs = torch.tensor([[model.config.decoder_start_token_id, *said[:-1]]])
        with torch.inference_mode():
            logits = model(input_ids=ids[[row]], attention_mask=mask[[row]], decoder_input_ids=inputs).logits
        own_log = logits[0].log_softmax(-1)[len(prefix) :]
        total = own_log.gather(1, torch.tensor(said[len(prefix) :])[:, None]).sum()
        entropy = torch.distributions.Categorical(logits=own_log).entropy().max() / math.log(VOCAB)
        assert own.log_probability == pytest.approx(float(total), abs=1e-3)
        assert own.entropy == pytest.approx(float(entropy), abs=1e-4)


def test_samples_are_the_same_for_the_same_seed_and_differ_among_copies(
    model: CompactForConditionalGeneration, prompt: tuple[Tensor, Tensor]
) -> None:
    def draw(seed: int) -> list[list[Written]]:
        return run(model, prompt, copies=4, temperature=1.0, generator=torch.Generator().manual_seed(seed))

    first = draw(0)
    assert first == draw(0)
    assert first != draw(1)
    assert [len(own) for own in first] == [4] * 12
    assert all(len({text.ids for text in own}) > 1 for own in first)


def test_a_sample_of_one_word_has_the_softmax_as_its_distribution(
    model: CompactForConditionalGeneration, prompt: tuple[Tensor, Tensor]
) -> None:
    ids, mask = prompt[0][:1], prompt[1][:1]
    number, temperature = 4000, 2.0
    (texts,) = write(
        model, memory(model, (ids, mask)), mask, max_words=1, copies=number, prefix=(), temperature=temperature,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    words = torch.tensor([own.ids[0] if own.ids else END for own in texts])
    with torch.inference_mode():
        start = torch.tensor([[model.config.decoder_start_token_id]])
        logits = model(input_ids=ids, attention_mask=mask, decoder_input_ids=start).logits[0, 0]
    expected = (logits / temperature).softmax(-1)
    found = words.bincount(minlength=VOCAB) / number
    assert float((found - expected).abs().max()) < 5 * math.sqrt(0.25 / number)


def test_greedy_copies_are_equal(model: CompactForConditionalGeneration, prompt: tuple[Tensor, Tensor]) -> None:
    alone = run(model, prompt)
    for own, (single,) in zip(run(model, prompt, copies=3), alone, strict=True):
        assert {text.ids for text in own} == {single.ids}


def test_texts_end_at_the_limit(model: CompactForConditionalGeneration, prompt: tuple[Tensor, Tensor]) -> None:
    texts = [own for (own,) in run(model, prompt)]
    assert any(len(own.ids) == LIMIT and not own.complete for own in texts)
    for own in texts:
        assert END not in own.ids
        assert own.complete or len(own.ids) == LIMIT
    given = tuple(range(4, 4 + LIMIT))
    assert all(own.ids == given for (own,) in run(model, prompt, prefix=given))


def test_words_given_beforehand_end_nothing(
    model: CompactForConditionalGeneration, prompt: tuple[Tensor, Tensor]
) -> None:
    assert all(own.ids[:2] == (7, 8) for (own,) in run(model, prompt, prefix=(7, 8), stop=frozenset({7, 8})))


def test_texts_that_end_early_do_not_change_the_others(
    model: CompactForConditionalGeneration, prompt: tuple[Tensor, Tensor]
) -> None:
    stop = frozenset(own[0].ids[1] for own in run(model, prompt)[:6] if len(own[0].ids) > 1)
    together = [own[0] for own in run(model, prompt, stop=stop)]
    lengths = sorted(len(own.ids) for own in together)
    assert lengths[len(lengths) // 2] < lengths[-1]  # half of the rows end, and are dropped, before the last
    for row, own in enumerate(together):
        (alone,) = run(model, (prompt[0][[row]], prompt[1][[row]]), stop=stop)[0]
        assert (alone.ids, alone.complete, alone.stopped_by) == (own.ids, own.complete, own.stopped_by)
        assert alone.log_probability == pytest.approx(own.log_probability, abs=1e-3)
