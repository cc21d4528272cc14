"""Learning from variants of what was wrong, on a real, small System 2."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dualmind.domains.reasoning.domain import as_prompt
from dualmind.domains.reasoning.families import FAMILIES
from dualmind.domains.reasoning.generate import Mix, generate_questions
from dualmind.errors import LearningError
from dualmind.learning.cloning import CloningParams
from dualmind.learning.counterfactual import (
    CounterfactualParams,
    Pair,
    Wrong,
    contrastive_loss,
    likelihood,
    pair_of,
    pairs_of,
    practise,
    vary,
    words,
    worth,
    wrong_outputs,
)
from dualmind.learning.skipped import Skipped
from dualmind.learning.writing import TokenizedTexts
from dualmind.models.system2 import System2
from stages.params import load_params
from stages.pretrain import System2Params
from tests.models.test_compression import REASONER

KEYS = next(family for family in FAMILIES if family.name == "keys")
QUESTIONS = generate_questions({"train": 24}, Mix(easy_share=None, max_hops=3), 0, [KEYS])
PROMPTS = [as_prompt(question.text) for question in QUESTIONS]
PARAMS = CounterfactualParams(
    rate=0.1, variants=400, steps=12, batch_size=8, learning_rate=0.5, beta=0.5, weight=1.0, kl=0.1
)
WORDS = st.sampled_from(["red", "blue", "#1", "=", "room"])


@pytest.fixture(scope="module")
def system2() -> System2:
    torch.set_num_threads(1)
    made = System2.build(REASONER, [*PROMPTS, *(question.rationale for question in QUESTIONS)], 0)
    made.model.eval()
    return made


def cloning() -> CloningParams:
    found: CloningParams = load_params(System2Params, "pretrain.system2").cloning
    return found.model_copy(update={"writing_batch_size": 8, "warmup_steps": 2})


def lessons(system2: System2) -> TokenizedTexts:
    return TokenizedTexts.of(PROMPTS, [question.rationale for question in QUESTIONS], system2.tokenizer)


def nearly_right(number: int) -> Wrong:
    """The right output but for the answer's colour."""
    question = QUESTIONS[number]
    pool = tuple(sorted({word for word in question.rationale.split() if word[0] not in "#="} | {"room"}))
    return Wrong(question, " ".join([*question.rationale.split()[:-1], "room"]), pool)


@given(
    st.lists(WORDS, min_size=1, max_size=40).filter(lambda own: any(word not in {"#1", "="} for word in own)),
    st.floats(0.01, 1),
    st.integers(0, 2**32 - 1),
)
def test_variants_replace_the_share_of_words_and_leave_all_marks(own: list[str], rate: float, seed: int) -> None:
    pool = ["red", "blue", "green"]
    wanted = min(max(1, round(rate * len(own))), sum(word not in {"#1", "="} for word in own))
    for variant in vary(" ".join(own), pool, rate, 5, np.random.default_rng(seed)):
        changed = [(old, new) for old, new in zip(own, variant.split(), strict=True) if old != new]
        assert len(changed) == wanted
        assert all(old not in {"#1", "="} and new in pool for old, new in changed)


def test_variants_are_the_same_for_the_same_seed() -> None:
    one, other, third = (vary("a b c d", ["a", "b", "c"], 0.5, 9, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert one == other != third


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.01, float("nan")])
def test_a_rate_out_of_range_is_refused(rate: float) -> None:
    with pytest.raises(LearningError, match="above 0 and at most 1"):
        vary("a b", ["a", "b"], rate, 1, np.random.default_rng(0))
    with pytest.raises(ValueError, match="rate"):
        CounterfactualParams.model_validate({**PARAMS.model_dump(), "rate": rate})


@pytest.mark.parametrize("text", ["", "  ", "#1 #2 ="])
def test_an_output_of_no_words_is_refused(text: str) -> None:
    with pytest.raises(LearningError, match="no words that can be replaced; leave it out"):
        vary(text, ["a", "b"], 0.1, 1, np.random.default_rng(0))


def test_a_pool_of_one_word_is_refused() -> None:
    with pytest.raises(LearningError, match="give two or more"):
        vary("a b", ["a", "a"], 0.1, 1, np.random.default_rng(0))


def test_worth_counts_unbroken_steps_and_the_answer() -> None:
    question = next(own for own in QUESTIONS if own.hops == 3)
    steps = question.steps
    assert worth(question, question.rationale) == 1
    assert worth(question, f"#1 {steps[0]} #2 {steps[1]} = {question.answer}") == pytest.approx((2 / 3 + 1) / 2)
    assert worth(question, f"#1 {steps[0]} #2 room #3 {steps[2]} = room") == pytest.approx((1 / 3) / 2)
    assert worth(question, "room") == worth(question, "") == 0


def test_a_pair_is_the_best_variant_against_the_output() -> None:
    wrong = nearly_right(0)
    pair = pair_of(wrong, PARAMS, lambda text: worth(wrong.question, text), np.random.default_rng(0))
    assert pair is not None
    assert (pair.better, pair.worse) == (wrong.question.rationale, wrong.text)
    assert (pair.gain, pair.replaced) == (0.5, 1)
    assert pair_of(wrong, PARAMS, lambda _: 0.5, np.random.default_rng(0)) is None


def test_nothing_wrong_or_nothing_better_gives_a_reason() -> None:
    none = pairs_of([], PARAMS, np.random.default_rng(0))
    assert isinstance(none, Skipped)
    assert "no wrong output" in none.reason
    flat = pairs_of([nearly_right(0)], PARAMS, np.random.default_rng(0), lambda *_: 0.0)
    assert isinstance(flat, Skipped)
    assert "none of 400 variants of 1 wrong outputs is better" in flat.reason


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_score_that_is_no_number_is_refused(bad: float) -> None:
    with pytest.raises(LearningError, match="a variant can be compared by a finite number alone"):
        pairs_of([nearly_right(0)], PARAMS, np.random.default_rng(0), lambda *_: bad)


def test_wrong_outputs_are_those_that_are_not_wholly_right(system2: System2) -> None:
    found = wrong_outputs(system2, QUESTIONS, {"keys": ["gold", "#1", "="]})
    said = system2.write(PROMPTS, max_words=96)
    texts = {q.id: system2.text(row[0]) for q, row in zip(QUESTIONS, said, strict=True)}
    assert {own.question.id for own in found} == {
        q.id for q in QUESTIONS if texts[q.id].split() and worth(q, texts[q.id]) < 1
    }
    for own in found:
        assert own.text == texts[own.question.id]
        assert {"gold", *own.question.text.split()} <= set(own.pool)
        assert not {"#1", "="} & set(own.pool)


@given(st.lists(st.floats(-20, 0), min_size=4, max_size=4), st.floats(0.01, 5))
def test_the_loss_is_that_of_a_logistic_choice_between_the_two(logs: list[float], beta: float) -> None:
    better, worse, better_before, worse_before = (torch.tensor([x], dtype=torch.float64) for x in logs)
    loss = float(contrastive_loss(better, worse, better_before, worse_before, beta))
    margin = beta * ((logs[0] - logs[2]) - (logs[1] - logs[3]))
    assert loss == pytest.approx(float(np.logaddexp(0, -margin)), rel=1e-9)


def test_likelihoods_are_those_of_each_text_alone(system2: System2) -> None:
    """In a padded batch, against transformers' own mean loss of one text."""
    own = lessons(system2)
    together = likelihood(words(system2.model, own.batch(range(6))), own.batch(range(6)))
    for i in range(6):
        batch = own.batch([i])
        thought = system2.model.encoder.think(batch.prompt_ids, batch.prompt_mask, early_stop=False)
        out = system2.model(encoder_outputs=(thought.memory,), attention_mask=batch.prompt_mask, labels=batch.labels)
        assert float(together[i].detach()) == pytest.approx(-float(out.loss.detach()) * batch.labels.shape[1], abs=2e-3)


def log_odds(system2: System2, pairs: list[Pair]) -> float:
    """Mean log-probability of the better texts minus that of the worse."""
    sides = []
    for texts in ([pair.better for pair in pairs], [pair.worse for pair in pairs]):
        own = TokenizedTexts.of([pair.prompt for pair in pairs], texts, system2.tokenizer).batch(range(len(pairs)))
        with torch.no_grad():
            sides.append(float(likelihood(words(system2.model, own), own).mean()))
    return sides[0] - sides[1]


def test_training_raises_the_better_text_over_the_worse_more_than_cloning_alone_does(system2: System2) -> None:
    pairs = pairs_of([nearly_right(i) for i in range(16)], PARAMS, np.random.default_rng(0))
    assert not isinstance(pairs, Skipped)
    trained, control, again = (copy.deepcopy(system2) for _ in range(3))
    curve = practise(trained, pairs, lessons(trained), PARAMS, cloning(), seed=0)
    plain = practise(control, [], lessons(control), PARAMS, cloning(), seed=0)
    assert len(curve) == len(plain) == PARAMS.steps
    assert curve[0]["contrast"] == pytest.approx(np.log(2), abs=1e-4)  # nothing has moved yet
    assert curve[0]["kl"] == pytest.approx(0, abs=1e-5)
    assert curve[-1]["contrast"] < curve[0]["contrast"]
    assert plain[0]["clone"] == curve[0]["clone"]
    assert set(plain[0]) == {"clone"}
    assert log_odds(trained, pairs) > log_odds(control, pairs) + 0.5
    practise(trained, pairs, lessons(trained), PARAMS, cloning(), seed=1)  # and it can go on
    assert practise(again, pairs, lessons(again), PARAMS, cloning(), seed=0) == curve


def test_a_loss_that_is_no_number_stops_the_training(system2: System2) -> None:
    broken = copy.deepcopy(system2)
    with torch.no_grad():
        broken.model.lm_head.weight[0, 0] = float("nan")
    with pytest.raises(LearningError, match="the loss is nan at step 1; lower learning_rate or weight"):
        practise(broken, [], lessons(broken), PARAMS, cloning(), seed=0)
