import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmind.domains.base import Problem
from dualmind.domains.reasoning.families import words
from dualmind.domains.reasoning.families.brackets import Brackets
from dualmind.domains.reasoning.families.lists import Counting, Sorting
from dualmind.domains.reasoning.families.navigation import Navigation
from dualmind.domains.reasoning.families.swaps import Swaps
from dualmind.domains.reasoning.question import TextFamily, rollout, value
from dualmind.domains.reasoning.real import (
    FAMILY_OF_BBH,
    Reference,
    load_bbh,
    load_gsm8k,
    score_reference,
    to_words,
)
from dualmind.errors import QuestionError
from tests.domains.reasoning import solvers

ROOT = Path(__file__).resolve().parents[3]
BBH, GSM8K = ROOT / "../shared/data/bbh", ROOT / "../shared/data/gsm8k"
needs_bbh = pytest.mark.skipif(not BBH.is_dir(), reason=f"BIG-Bench Hard is not at {BBH}")
needs_gsm8k = pytest.mark.skipif(not GSM8K.is_dir(), reason=f"GSM8K is not at {GSM8K}")


def write_bbh(folder: Path, task: str, *examples: tuple[str, str]) -> Path:
    path = folder / f"{task}.json"
    path.write_text(json.dumps({"examples": [{"input": text, "target": target} for text, target in examples]}))
    return path


@given(st.text())
def test_words_are_parted_by_single_blanks_and_stay_the_same_when_read_again(text: str) -> None:
    read = to_words(text)
    assert read == " ".join(read.split())
    assert to_words(read) == read


def test_words_of_known_texts() -> None:
    assert to_words("((-1 + 2) * 3) =") == "( ( - 1 + 2 ) * 3 ) ="
    assert to_words("Bob\u2019s $80,000, and 1.5 (A)\n\u00fc") == "bob's $ 80000 , and 1.5 ( a ) \u00fc"
    assert to_words("second-newest, [ <it&t>") == "second - newest , [ < it&t >"


def test_options_become_the_answer_that_our_families_give(tmp_path: Path) -> None:
    options = "\nOptions:\n(A) The owl is the second from the left\n(B) The blue jay is the second from the left"
    text = (
        "The following paragraphs each describe a set of two objects arranged in a fixed order. The statements are "
        f"logically consistent within each paragraph. On a branch, there are two birds: an owl, a blue jay.{options}"
    )
    write_bbh(tmp_path, "logical_deduction_three_objects", (text, "(B)"))
    write_bbh(tmp_path, "date_understanding", ("When?\nOptions:\n(A) now\n(B) then", "(B)"))
    (ours,) = load_bbh(tmp_path, ["logical_deduction_three_objects"])
    assert ours.text == "on a branch , there are two birds : an owl , a blue jay . which is the second from the left ?"
    assert ours.payload.answer == "blue jay"
    for right in ("blue jay", "#1 owl #2 blue jay = blue jay", "(B)", "B", "The blue jay is the second from the left"):
        assert score_reference(ours.payload, right) == 1.0
    for wrong in ("owl", "(A)", "", "=", "blue jay owl", "jay"):
        assert score_reference(ours.payload, wrong) == 0.0
    (other,) = load_bbh(tmp_path, ["date_understanding"])
    assert (other.text, other.payload.answer) == ("when ? options : ( a ) now ( b ) then", "( b )")
    assert score_reference(other.payload, "then") == 1.0


@given(st.text())
def test_any_output_can_be_scored(text: str) -> None:
    for reference in (Reference("gsm8k", None, "18", ("18",), by_value=True), Reference("bbh/x", None, "a", ("a",))):
        assert score_reference(reference, text) in {0.0, 1.0}


def test_numbers_are_compared_by_value() -> None:
    reference = Reference("gsm8k", None, "70000", ("70000",), by_value=True)
    assert [score_reference(reference, out) for out in ("70,000", "$70000.00", "#1 7 = 70000 .")] == [1.0] * 3
    assert [score_reference(reference, out) for out in ("7", "nan", "inf", "seventy", "", "- 70000")] == [0.0] * 6


def test_missing_and_broken_files_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(QuestionError, match="cannot be read"):
        load_bbh(tmp_path, ["navigate"])
    for broken in ("", "[]", "{}", '{"examples": []}', '{"examples": [{"input": 1, "target": "x"}]}'):
        (tmp_path / "navigate.json").write_text(broken)
        with pytest.raises(QuestionError, match=r"navigate\.json"):
            load_bbh(tmp_path, ["navigate"])
    write_bbh(tmp_path, "logical_deduction_three_objects", ("x\nOptions:\n(A) y\n(B) z", "(C)"))
    with pytest.raises(QuestionError, match=r"example 0 .* \('C' is not among A, B\)"):
        load_bbh(tmp_path, ["logical_deduction_three_objects"])
    path = tmp_path / "test.jsonl"
    with pytest.raises(QuestionError, match="cannot be read"):
        load_gsm8k(path, "valid_unseen")
    for broken in (
        "x",
        "[]",
        '{"question": "q"}',
        '{"question": "q", "answer": "5"}',
        '{"question":"q","answer":"#### x"}',
    ):
        path.write_text(broken)
        with pytest.raises(QuestionError, match="line 1 "):
            load_gsm8k(path, "valid_unseen")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(QuestionError, match="cannot be read"):
        load_gsm8k(path, "valid_unseen")


@needs_bbh
def test_every_bbh_file_can_be_read() -> None:
    tasks = sorted(path.stem for path in BBH.glob("*.json"))
    problems = load_bbh(BBH, tasks)
    assert len({p.id for p in problems}) == len(problems) > 5000
    assert all(score_reference(p.payload, p.payload.answer) == 1.0 and p.hops >= 1 for p in problems)
    assert {p.payload.family for p in problems} >= {"swaps", "ordering", "navigation", "brackets", "counting"}


def known_bbh(family: str, is_ours: Callable[[str], bool]) -> list[Problem]:
    tasks = [task for task, own in FAMILY_OF_BBH.items() if own == family and (BBH / f"{task}.json").is_file()]
    return [problem for problem in load_bbh(BBH, tasks) if is_ours(problem.text)]


def _items_are_known(text: str) -> bool:
    nouns = {noun for kind in words.KINDS.values() for pair in kind.items() for noun in pair}
    items = re.split(r" , (?:and )?| and ", text.split(" . how many ", maxsplit=1)[0])
    return all(item.split()[-1] in nouns for item in items)


# our steps on BIG-Bench Hard's own texts, in the settings and words that our families have; at least so many
READERS: dict[str, tuple[TextFamily, Callable[[str], bool], int]] = {
    "brackets": (Brackets(), lambda _: True, 250),
    "swaps": (Swaps(), lambda text: not {"books", "soccer"} & set(text.split()), 200),
    "counting": (Counting(), _items_are_known, 60),
    "sorting": (Sorting(), lambda _: True, 250),
}


@needs_bbh
@pytest.mark.parametrize("family", READERS)
def test_our_steps_solve_bbh_in_its_own_words(family: str) -> None:
    """The wordings that follow BIG-Bench Hard are its own: what reads our texts reads these, and finds the answers."""
    reader, is_ours, least = READERS[family]
    problems = known_bbh(family, is_ours)
    assert len(problems) >= least
    for problem in problems:
        reading = reader.reading(problem.text)
        steps = rollout(reading.hops if family == "counting" else problem.hops, reading.follow)
        answer = " ".join(steps) if family in {"brackets", "sorting"} else value(steps[-1])
        assert score_reference(problem.payload, answer) == 1.0, problem


@needs_bbh
def test_our_walk_solves_bbh_navigate() -> None:
    for problem in known_bbh("navigation", lambda _: True):
        last = rollout(problem.hops, Navigation().reading(problem.text).follow)[-1].split()
        place = last[-3:-1] if "turn" in problem.text.split() else last[-2:]
        assert problem.payload.answer == ("yes" if place == ["50", "50"] else "no")
        assert solvers.navigation(problem.text) == problem.payload.answer


@needs_gsm8k
def test_gsm8k_can_be_read() -> None:
    problems = load_gsm8k(GSM8K / "test.jsonl", "valid_unseen")
    assert len(problems) == 1319
    assert problems[0].payload.answer == "18"
    assert 2 <= problems[0].hops <= 4
    assert all(score_reference(p.payload, p.payload.answer) == 1.0 for p in problems)
