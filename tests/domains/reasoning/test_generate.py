from collections import Counter

import numpy as np
import pytest
from pydantic import ValidationError

from dualmind.domains.base import SPLITS, Split
from dualmind.domains.reasoning.families import FAMILIES
from dualmind.domains.reasoning.families.brackets import Brackets
from dualmind.domains.reasoning.generate import Mix, choose_families, generate_questions
from dualmind.domains.reasoning.question import Question
from dualmind.errors import QuestionError
from dualmind.models.tokenizer import build_tokenizer

MIX = Mix(easy_share=0.85, max_hops=8)
NUM: dict[Split, int] = {"train": 1500, "valid_train": 100, "valid_seen": 200, "valid_unseen": 200}
QUESTIONS = generate_questions(NUM, MIX, seed=1)


def test_splits_have_their_numbers_and_share_no_text() -> None:
    assert Counter(q.split for q in QUESTIONS) == NUM
    assert [q.split for q in QUESTIONS] == sorted((q.split for q in QUESTIONS), key=SPLITS.index)
    assert len({q.text for q in QUESTIONS}) == len({q.id for q in QUESTIONS}) == len(QUESTIONS)
    for split in SPLITS:
        assert {q.family for q in QUESTIONS if q.split == split} == {family.name for family in FAMILIES}


def test_the_same_arguments_give_the_same_questions_in_any_order_of_the_splits() -> None:
    assert generate_questions({split: NUM[split] for split in reversed(SPLITS)}, MIX, seed=1) == QUESTIONS
    assert generate_questions(NUM, MIX, seed=2) != QUESTIONS


def test_held_out_questions_do_not_change_with_the_number_of_training_questions() -> None:
    more = generate_questions({**NUM, "train": 1700}, MIX, seed=1)
    assert [q for q in more if q.split != "train"] == [q for q in QUESTIONS if q.split != "train"]
    assert [q for q in more if q.split == "train"][:1500] == [q for q in QUESTIONS if q.split == "train"]


def test_the_mix_of_hops_is_kept() -> None:
    hops = Counter(q.hops for q in QUESTIONS)
    easy = (hops[1] + hops[2]) / len(QUESTIONS)
    assert abs(easy - 0.85) < 4 * np.sqrt(0.85 * 0.15 / len(QUESTIONS))
    assert max(hops) == 8
    even = Counter(q.hops for q in generate_questions({"train": 1200}, Mix(easy_share=None, max_hops=12), seed=0))
    assert set(even) == set(range(1, 13))
    assert max(abs(number - 100) for number in even.values()) < 50  # five standard deviations
    assert {q.hops for q in generate_questions({"train": 50}, Mix(easy_share=1, max_hops=3), seed=0)} == {1, 2}


def test_yes_and_no_stay_balanced_when_repeated_texts_are_drawn_again() -> None:
    shares = {}
    for name in ("boolean", "truth", "navigation"):
        own = [q for q in QUESTIONS if q.family == name and q.answer in {"yes", "no", "true", "false"}]
        shares[name] = np.mean([q.answer in {"yes", "true"} for q in own]), len(own)
    assert all(abs(share - 0.5) < 4 * np.sqrt(0.25 / number) for share, number in shares.values()), shares


def test_the_word_level_tokenizer_reads_every_question_of_another_seed() -> None:
    many = generate_questions({"train": 6000}, Mix(easy_share=None, max_hops=12), seed=5)
    tokenizer = build_tokenizer(f"{q.text} {q.rationale}" for q in many)
    unknown = tokenizer.unk_token_id
    ids = tokenizer([f"{q.text} {q.rationale}" for q in QUESTIONS])["input_ids"]
    assert sum(unknown in row for row in ids) <= 5  # rare words


@pytest.mark.parametrize(
    ("num", "seed", "message"),
    [
        ({"train": -1}, 0, "above 0"),
        ({"train": 0}, 0, "above 0"),
        ({}, 0, "above 0"),
        ({"train": 1}, -1, "seed = -1"),
        ({"test": 1}, 0, "'test'"),
    ],
)
def test_bad_arguments_are_clear_errors(num: dict[str, int], seed: int, message: str) -> None:
    with pytest.raises(QuestionError, match=message):
        generate_questions(num, MIX, seed)  # type: ignore[arg-type]  # the point of the test


def test_no_family_and_a_family_without_new_questions_are_clear_errors() -> None:
    with pytest.raises(QuestionError, match="at least one family"):
        generate_questions({"train": 1}, MIX, 0, families=())

    class Same(Brackets):
        def draw(self, hops: int, rng: np.random.Generator) -> Question:  # noqa: ARG002 - always the same
            return super().draw(hops, np.random.default_rng(0))

    with pytest.raises(QuestionError, match="no new question"):
        generate_questions({"train": 20}, MIX, 0, families=[Same()])


@pytest.mark.parametrize("fields", [{"easy_share": 1.1}, {"max_hops": 13}, {"max_hops": 2}, {"hard_share": 1}])
def test_a_mix_out_of_range_is_an_error(fields: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Mix.model_validate({"easy_share": 0.85, "max_hops": 8, **fields})


def test_families_are_chosen_by_name() -> None:
    assert [family.name for family in choose_families(["keys", "arithmetic"])] == ["keys", "arithmetic"]
    with pytest.raises(QuestionError, match=r"reasoning\.families has 'poetry'; known: arithmetic"):
        choose_families(["poetry"])
