from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB

from dualmind.domains.reasoning.families import FAMILIES
from dualmind.domains.reasoning.families.swaps import Swaps
from dualmind.domains.reasoning.families.words import PLAYERS
from dualmind.domains.reasoning.question import MAX_HOPS, Family, Question, parse_output
from dualmind.errors import QuestionError
from tests.domains.reasoning.solvers import SOLVERS

each_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def draw_many(family: Family, number: int, hops: int, seed: int) -> list[Question]:
    rng = np.random.default_rng(seed)
    return [family.draw(hops, rng) for _ in range(number)]


@each_family
@pytest.mark.parametrize("hops", range(1, MAX_HOPS + 1))
def test_an_independent_solver_agrees_with_every_answer(family: Family, hops: int) -> None:
    number = (
        100 if family.name != "truth" or hops < 7 else 1 + (20 >> (hops - 7))
    )  # it tries 2 ** (hops + 3) assignments
    for question in draw_many(family, number, hops, seed=hops):
        assert SOLVERS[family.name](question.text) == question.answer, question.text


@each_family
@pytest.mark.parametrize("hops", range(1, MAX_HOPS + 1))
def test_steps_pass_their_own_check_and_answers_score_1(family: Family, hops: int) -> None:
    for question in draw_many(family, 40, hops, seed=100 + hops):
        assert (question.family, question.hops, len(question.steps)) == (family.name, hops, hops)
        assert all(family.check(question, question.steps[:k]) for k in range(hops + 1)), question
        assert family.score(question, question.answer) == 1.0
        assert family.score(question, "") == family.score(question, f"{question.answer} x") == 0.0
        assert parse_output(question.rationale) == (question.steps, question.answer)


@each_family
def test_wrong_steps_are_rejected(family: Family) -> None:
    rng = np.random.default_rng(7)
    for hops in (1, 2, 5, 8, 12):
        pool = sorted({step for question in draw_many(family, 50, hops, seed=3) for step in question.steps})
        for question in draw_many(family, 20, hops, seed=4):
            for k in range(hops):
                wrong = [
                    step for step in (pool[i] for i in rng.integers(len(pool), size=5)) if step != question.steps[k]
                ]
                assert not any(family.check(question, [*question.steps[:k], step]) for step in [*wrong, "", "zz 7"])
            assert not family.check(question, [*question.steps, question.steps[-1]])  # more steps than hops


@each_family
def test_a_step_is_judged_by_the_steps_before_it(family: Family) -> None:
    """After a wrong step that makes sense, what follows from it is valid; after one that makes none, nothing is."""
    carried = 0
    for question in draw_many(family, 60, 4, seed=5):
        for other in draw_many(family, 15, 4, seed=6):
            before = [*question.steps[:1], other.steps[1]]
            if before[1] == question.steps[1]:
                continue
            valid = [step for step in {question.steps[2], other.steps[2]} if family.check(question, [*before, step])]
            assert len(valid) <= 1
            carried += bool(valid)
        assert not (family.check(question, ["zz", question.steps[1]]) and family.name in {"swaps", "ordering", "keys"})
    assert carried or family.name in {
        "arithmetic",
        "counting",
        "navigation",
        "sorting",
    }  # too many values to meet by chance


@each_family
def test_text_is_plain_words_with_all_numbers_below_100(family: Family) -> None:
    wordings = set()
    for hops in range(1, MAX_HOPS + 1):
        for question in draw_many(family, 40, hops, seed=hops):
            text = f"{question.text} {question.rationale}"
            assert text == " ".join(text.lower().split())
            assert all(word.isalpha() or word.isdigit() or len(word) == 1 or word[0] == "#" for word in text.split())
            assert all(int(word) < 100 for word in text.split() if word.isdigit())
            assert len(question.rationale.split()) <= 90
            if hops <= 8:
                assert len(question.text.split()) <= 100
            wordings.add(question.phrasing)
    assert len(wordings) >= 2
    assert any(wording.startswith("bbh") for wording in wordings) or family.name == "keys"


def test_the_vocabulary_is_small_and_closed() -> None:
    def words(seed: int) -> set[str]:
        questions = [q for f in FAMILIES for hops in range(1, MAX_HOPS + 1) for q in draw_many(f, 40, hops, seed)]
        return {word for q in questions for word in f"{q.text} {q.rationale}".split() if not word.isdigit()}

    one, other = words(0), words(1)
    assert len(one | other) < 400
    assert len(one ^ other) < 10  # rare words only


GUESSES: dict[str, Callable[[list[str], Counter[str]], str]] = {
    "the last answer-like word": lambda words, known: next((w for w in reversed(words) if w in known), ""),
    "the first answer-like word": lambda words, known: next((w for w in words if w in known), ""),
    "the most frequent answer-like word": lambda words, known: max(
        (w for w in words if w in known), key=words.count, default=""
    ),
}
# The highest share that any guesser may reach. Chance is 1/2 for yes and no, 1/3 to 1/5 where there
# are as many people or things. At one hop the bag of words *is* the question for brackets and counting.
CEILING = {"boolean": 0.62, "truth": 0.62, "swaps": 0.45, "ordering": 0.42, "keys": 0.3, "navigation": 0.38}


@each_family
@pytest.mark.parametrize("hops", [1, 2, 3, 5, 8])
def test_guessers_stay_close_to_chance(family: Family, hops: int) -> None:
    train, test = draw_many(family, 700, hops, seed=1), draw_many(family, 300, hops, seed=2)
    known = Counter(question.answer for question in train)
    guesses = [[known.most_common(1)[0][0]] * len(test)]
    guesses += [[guess(question.text.split(), known) for question in test] for guess in GUESSES.values()]
    if (family.name, hops) not in {("brackets", 1), ("brackets", 2), ("counting", 1)}:
        counter = CountVectorizer(token_pattern=r"\S+")
        bags = counter.fit_transform([question.text for question in train])
        model = MultinomialNB().fit(bags, [question.answer for question in train])
        guesses.append(list(model.predict(counter.transform([question.text for question in test]))))
    shares = [np.mean([g == q.answer for g, q in zip(guess, test, strict=True)]) for guess in guesses]
    assert max(shares) <= CEILING.get(family.name, 0.32 if hops == 1 else 0.2), shares


@each_family
def test_the_number_of_hops_does_not_tell_the_answer(family: Family) -> None:
    """The best guess for each number of hops is hardly better than the best guess for all of them."""
    by_hops = {h: Counter(q.answer for q in draw_many(family, 400, h, seed=9)) for h in range(3, 9)}
    apart = np.mean([counts.most_common(1)[0][1] / 400 for counts in by_hops.values()])
    together = sum(by_hops.values(), Counter()).most_common(1)[0][1] / (400 * len(by_hops))
    assert apart - together < 0.06


@each_family
@pytest.mark.parametrize("hops", [0, -1, MAX_HOPS + 1])
def test_hops_out_of_range_are_an_error(family: Family, hops: int) -> None:
    with pytest.raises(QuestionError, match=f"hops = {hops}"):
        family.draw(hops, np.random.default_rng(0))


@each_family
def test_the_same_generator_gives_the_same_questions(family: Family) -> None:
    assert draw_many(family, 20, 3, seed=8) == draw_many(family, 20, 3, seed=8)


def test_swaps_among_seven_people_in_the_wording_of_bbh() -> None:
    family, rng = Swaps(max_bbh_hops=7, max_bbh_people=7), np.random.default_rng(0)
    questions = [family.draw(7, rng) for _ in range(100)]
    assert all(SOLVERS["swaps"](q.text) == q.answer and family.check(q, q.steps) for q in questions)
    assert {sum(name in q.text.split() for name in PLAYERS) for q in questions if q.phrasing == "bbh"} == {3, 5, 7}
