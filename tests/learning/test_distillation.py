from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from dualmind.data.decisions import DecisionRow
from dualmind.errors import DistillationError
from dualmind.learning.cloning import Lessons, clone
from dualmind.learning.distillation import (
    DistillationParams,
    answer_logits,
    ask,
    check_vocabulary,
    distill,
    share_at_error,
    soft_loss,
)
from dualmind.learning.writing import TokenizedTexts
from dualmind.models.system1 import System1
from dualmind.models.system2 import System2
from dualmind.models.text_model import PublishedParams
from dualmind.models.tokenizer import build_tokenizer
from stages.pretrain import texts
from tests.learning.demonstrations import SMALL, demonstrations
from tests.learning.test_cloning import PARAMS as CLONING
from tests.models.test_compression import REASONER
from tests.models.test_system1 import tiny_published

PARAMS = DistillationParams(
    steps=60, batch_size=16, lr=0.01, gradient_clip=1.0, temperature=2.0, soft_weight=0.5, on_policy=0.5,
    sampling_temperature=1.0,
)  # fmt: skip
EASY = REASONER.model_copy(update={"encoder_layers": 1, "decoder_layers": 1, "num_experts": 0, "reasoning": False})


def question(index: int) -> DecisionRow:
    """Which of three words stands in the middle? With one step before the answer."""
    words = [f"w{(index * 7 + k * (1 + index % 5)) % 11}" for k in range(3)]
    return DecisionRow(
        f"q{index}/0", "reasoning", "train", f"q{index}", 0, 1, f"question : {' '.join(words)}", (), words[1],
        f"#1 {words[1]} = {words[1]}", 1.0, "test",
    )  # fmt: skip


QUESTIONS = [question(index) for index in range(55)]


@lru_cache
def teacher() -> System2:
    torch.set_num_threads(1)
    system = System2.build(EASY, [*texts(QUESTIONS), *texts(demonstrations())], seed=0)
    writing = TokenizedTexts.of([r.prompt for r in QUESTIONS], [r.rationale for r in QUESTIONS], system.tokenizer)
    clone(system, Lessons(None, writing), CLONING.model_copy(update={"steps": 120, "writing_batch_size": 32}), seed=0)
    return system


def student() -> System1:
    return System1.build(SMALL, [*texts(QUESTIONS), *texts(demonstrations())], seed=1)


def test_a_student_learns_the_answers_of_its_teacher_and_a_seed_gives_the_same_weights() -> None:
    taught = []
    for _ in range(2):
        system = student()
        report = distill(teacher(), system, QUESTIONS, PARAMS, seed=0)
        taught.append(torch.cat([p.detach().flatten() for p in system.model.parameters()]))
    assert torch.equal(*taught)
    assert report.taught > 0.8 * report.offered == 0.8 * len(QUESTIONS)
    assert report.curve[-1]["answer_hard"] < 0.4 * report.curve[0]["answer_hard"]
    assert {"answer_soft", "answer_hard", "answer_own"} <= set().union(*report.curve)
    found = system.answer([row.prompt for row in QUESTIONS], [()] * len(QUESTIONS))
    assert np.mean([a.answer == row.target for a, row in zip(found, QUESTIONS, strict=True)]) > 0.6


def test_dropout_of_a_published_student_follows_the_seed_and_leaves_the_global_generator(tmp_path: Path) -> None:
    folder = tiny_published("t5", tmp_path)  # T5 drops 0.1 of its states
    params = PARAMS.model_copy(update={"steps": 2, "soft_weight": 0.0})  # its vocabulary is another one

    def taught(state: int) -> torch.Tensor:
        own = System1.build(PublishedParams(kind="published", checkpoint=str(folder)), [], seed=0)
        torch.manual_seed(state)
        distill(teacher(), own, QUESTIONS[:16], params, seed=4)
        assert torch.equal(torch.rand(1), torch.rand(1, generator=torch.Generator().manual_seed(state)))
        return torch.cat([p.detach().flatten() for p in own.model.parameters()])

    assert torch.equal(taught(1), taught(2))


def test_the_teacher_teaches_only_what_it_gets_right() -> None:
    wrong = [replace(row, target="w99") for row in QUESTIONS[:20]]
    assert ask(teacher(), wrong) == []
    with pytest.raises(DistillationError, match="none of 20 decisions right"):
        distill(teacher(), student(), wrong, PARAMS, seed=0)
    kept = {lesson.row.example_id for lesson in ask(teacher(), [*QUESTIONS[20:], *wrong])}
    assert kept <= {row.example_id for row in QUESTIONS[20:]}


def test_commands_are_taught_by_their_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """A teacher that knows every command lets the student learn them, from soft targets alone."""
    rows = demonstrations()[:60]

    def knows(_: System2, prompts: list[str], candidates: list[tuple[str, ...]]) -> list[torch.Tensor]:
        by_prompt = {row.prompt: row.target for row in rows}
        return [
            torch.tensor([3.0 * (c == by_prompt[p]) for c in own]).log_softmax(-1)
            for p, own in zip(prompts, candidates, strict=True)
        ]

    monkeypatch.setattr(System2, "score", knows)
    system = student()
    report = distill(teacher(), system, rows, PARAMS.model_copy(update={"soft_weight": 1.0}), seed=0)
    assert report.taught == len(rows)
    assert report.curve[-1]["choice_hard"] == 0.0
    assert report.curve[-1]["choice_soft"] < 0.7 * report.curve[0]["choice_soft"]


def test_the_soft_loss_is_the_kl_divergence_times_the_squared_temperature() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 4, 5, generator=generator)
    mask = torch.tensor([True, True, False, True])
    p, q = (b / 3).softmax(-1)[mask], (a / 3).softmax(-1)[mask]
    want = 9 * (p * (p / q).log()).sum(-1).mean()
    torch.testing.assert_close(soft_loss(a, b, 3.0, mask), want)
    assert float(soft_loss(b, b, 3.0, mask)) == pytest.approx(0, abs=1e-6)


def test_at_a_high_temperature_the_gradient_is_that_of_centred_logits() -> None:
    """Hinton et al. 2015, Eq. 4: T^2 times the gradient tends to (z - v) / N for centred logits."""
    generator = torch.Generator().manual_seed(0)
    student_logits, teacher_logits = torch.randn(2, 1, 6, generator=generator)
    student_logits = (student_logits - student_logits.mean()).requires_grad_()
    teacher_logits = teacher_logits - teacher_logits.mean()
    soft_loss(student_logits, teacher_logits, 1000.0, torch.ones(1)).backward()
    assert student_logits.grad is not None
    torch.testing.assert_close(
        student_logits.grad, (student_logits - teacher_logits).detach() / 6, rtol=0.01, atol=1e-3
    )


def test_answers_are_scored_where_they_stand_after_the_steps() -> None:
    system = teacher()
    (lesson,) = ask(system, QUESTIONS[:5])[:1]
    text = system.command_ids([lesson.row.target])[0]
    logits, labels = answer_logits(system, [lesson.row.prompt], [lesson.steps], [text])
    assert labels.tolist() == [[*text, system.model.config.eos_token_id]]
    assert logits.argmax(-1).tolist() == labels.tolist()  # it wrote so itself


def test_other_vocabularies_are_refused_also_of_the_same_size_in_another_order() -> None:
    one = build_tokenizer(["a b c"])
    check_vocabulary(one, build_tokenizer(["c b", "a"]))
    with pytest.raises(DistillationError, match=r"'d' is known to one of them only"):
        check_vocabulary(one, build_tokenizer(["a b c d"]))
    with pytest.raises(DistillationError, match="known to one of them only"):
        check_vocabulary(one, build_tokenizer(["a b d"]))
    with pytest.raises(DistillationError, match=r"the same \d+ words in another order"):
        check_vocabulary(one, swapped(one))
    other = System1.build(SMALL, ["quite other words"], seed=0)
    with pytest.raises(DistillationError, match="other vocabularies"):
        distill(teacher(), other, QUESTIONS, PARAMS, seed=0)


def swapped(tokenizer: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    """The same words, two of which have changed places."""
    import json

    from tokenizers import Tokenizer

    content = json.loads(tokenizer.backend_tokenizer.to_str())
    vocabulary = content["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(content)))


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=12), st.floats(0, 1))
def test_the_share_at_an_error_is_that_of_trying_all_thresholds(answers: list[tuple[int, bool]], most: float) -> None:
    best = 0.0
    for threshold in range(6):
        kept = [right for confidence, right in answers if confidence >= threshold]
        if kept and kept.count(False) <= most * len(kept):
            best = max(best, len(kept) / len(answers))
    confidence, right = [float(c) for c, _ in answers], [r for _, r in answers]
    assert share_at_error(confidence, right, most) == pytest.approx(best)


def test_the_share_at_an_error_grows_with_the_error() -> None:
    rng = np.random.default_rng(0)
    confidence, right = rng.random(200).tolist(), (rng.random(200) < 0.7).tolist()
    shares = [share_at_error(confidence, right, most) for most in (0.0, 0.1, 0.3, 1.0)]
    assert all(a <= b for a, b in pairwise(shares))
    assert shares[-1] == 1.0
    assert share_at_error([], [], 0.1) == 0.0
