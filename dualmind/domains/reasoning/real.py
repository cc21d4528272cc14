"""Readers of published test sets: BIG-Bench Hard (Suzgun et al. 2022) and GSM8K (Cobbe et al. 2021). Never trained on.

Texts keep their own wording as words parted by blanks (:func:`to_words`). Where we train a family of the task's kind,
its options are cut off and the answer is the option's own word, as our families answer; the letter counts as well.
Other tasks keep their options, and are answered by letter or by text.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dualmind.domains.base import Problem, Split
from dualmind.domains.reasoning.families.words import ORDINALS
from dualmind.domains.reasoning.question import parse_output
from dualmind.errors import QuestionError

# BIG-Bench Hard's tasks and our families; tasks of three and more objects have one kind of text
FAMILY_OF_BBH = {
    "boolean_expressions": "boolean",
    "dyck_languages": "brackets",
    "logical_deduction_three_objects": "ordering",
    "logical_deduction_five_objects": "ordering",
    "logical_deduction_seven_objects": "ordering",
    "multistep_arithmetic_two": "arithmetic",
    "navigate": "navigation",
    "object_counting": "counting",
    "tracking_shuffled_objects_three_objects": "swaps",
    "tracking_shuffled_objects_five_objects": "swaps",
    "tracking_shuffled_objects_seven_objects": "swaps",
    "web_of_lies": "truth",
    "word_sorting": "sorting",
}
# says the same before each question of logical_deduction, and our family leaves it out
_PREAMBLE = re.compile(r"^the following paragraphs .* consistent within each paragraph \. ")
_WORD = re.compile(r"\d+(?:,\d{3})+(?!\d)|\d+(?:\.\d+)?|[^\W\d_]+(?:['&][^\W\d_]+)*|[^\w\s]|_")
_OPTION = re.compile(r"^\(([A-Z])\) (.+)$", re.MULTILINE)
_PREDICATE = re.compile(r"^(?:the )?(.+?) ((?:is|are|finished) .+)$")


def _place(word: str) -> int:
    return ORDINALS.index(word) + 1 if word in ORDINALS else 1


# what makes up a hop in a task's text, as in our family of its kind; 1 where we have none
_HOPS: dict[str, Callable[[str, str], int]] = {
    "arithmetic": lambda text, _: len(re.findall(r"(?<=[\d)]) [-+*] ", text)),
    "boolean": lambda text, _: len(re.findall(r"\b(?:not|and|or)\b", text)),
    "brackets": lambda _, answer: len(answer.split()),
    "counting": lambda text, _: text.count(" , ") + 1,
    "navigation": lambda text, _: len(re.findall(r"\b(?:take|turn)\b", text)),
    "ordering": lambda text, _: max(map(_place, text.rpartition(" . ")[2].split())),
    "sorting": lambda _, answer: len(answer.split()) - 1,
    "swaps": lambda text, _: len(re.findall(r"(?:first|then|finally) ,", text)),
    "truth": lambda text, _: text.count(" says "),
}


@dataclass(frozen=True, slots=True)
class Reference:
    """What a published question is scored by.

    Attributes:
        task: "bbh/navigate", "gsm8k".
        family: our family of this kind of question, if there is one.
        answer: as our families answer.
        accepted: all texts that count as right, the answer among them.
        by_value: compare as numbers, so that "18", "18.0" and "$ 18" are one.
    """

    task: str
    family: str | None
    answer: str
    accepted: tuple[str, ...]
    by_value: bool = False


def to_words(text: str) -> str:
    """Lower-case words parted by single blanks, with punctuation apart; thousands lose their commas."""
    words = _WORD.findall(text.lower().replace("\u2019", "'"))
    return " ".join(word.replace(",", "") if len(word) > 1 else word for word in words)


def load_bbh(folder: Path, tasks: Sequence[str]) -> list[Problem]:
    """Questions of BIG-Bench Hard's files ``<task>.json``, all of the split ``valid_unseen``.

    Raises:
        QuestionError: a file is missing or is not such a file.
    """
    problems = []
    for task in tasks:
        path = folder / f"{task}.json"
        for index, (text, target) in enumerate(_read_bbh(path)):
            try:
                words, reference = _bbh_question(task, text, target)
            except ValueError as error:
                message = f"{path}, example {index} is not of the task's form ({error}); get the file again"
                raise QuestionError(message) from error
            hops = max(1, _HOPS[reference.family](words, reference.answer)) if reference.family else 1
            problems.append(Problem(f"{task}-{index:03d}", "bbh", words, hops, "valid_unseen", reference))
    return problems


def load_gsm8k(path: Path, split: Split) -> list[Problem]:
    """Questions of a GSM8K file, all of one split; hops are the calculations that its solution marks.

    Raises:
        QuestionError: the file is missing or is not such a file.
    """
    problems = []
    for index, line in enumerate(_read_text(path).splitlines()):
        try:
            row = json.loads(line)
            text, solution = str(row["question"]), str(row["answer"])
            number = solution.rsplit("#### ", 1)[1]
            _value(number)
        except (json.JSONDecodeError, KeyError, TypeError, IndexError, ValueError) as error:
            message = f"{path}, line {index + 1} is not a GSM8K question ({error}); get the file again"
            raise QuestionError(message) from error
        answer = to_words(number)
        reference = Reference("gsm8k", None, answer, (answer,), by_value=True)
        hops = max(1, solution.count("<<"))
        problems.append(Problem(f"gsm8k-{path.stem}-{index:04d}", "gsm8k", to_words(text), hops, split, reference))
    return problems


def score_reference(reference: Reference, output: str) -> float:
    """1 if an output's answer is right, else 0; case and blanks aside."""
    answer = to_words(parse_output(output)[1])
    if not answer:
        return 0.0
    if reference.by_value:
        try:
            return float(_value(answer) == _value(reference.answer))
        except ValueError:
            return 0.0
    return float(answer in reference.accepted)


def _value(text: str) -> float:
    """A number written with or without a currency sign, blanks and thousands' commas."""
    return float(re.sub(r"[\s$,]", "", text).removesuffix("."))


def _bbh_question(task: str, text: str, target: str) -> tuple[str, Reference]:
    """Text and reference of an example.

    Raises:
        ValueError: its letter is not among its options, or they are not of the task's form.
    """
    family = FAMILY_OF_BBH.get(task)
    asked = to_words(text.split("\nOptions:", maxsplit=1)[0] if family else text)
    options = {letter: to_words(option) for letter, option in _OPTION.findall(text)}
    letter = target.strip().strip("()")
    if not options or (family is None and letter not in options):  # one file names a film instead of its letter
        answer = to_words(target)
        return asked, Reference(f"bbh/{task}", family, answer, (answer,))
    if letter not in options:
        raise ValueError(f"{letter!r} is not among {', '.join(options)}")
    option = options[letter]
    forms = [f"( {letter.lower()} )", letter.lower(), option]
    if family == "ordering":
        thing, predicate = _split_predicate(option)
        forms = [thing, f"the {thing}", *forms]
        asked = f"{_PREAMBLE.sub('', asked)} {'who' if predicate.startswith('finished') else 'which'} {predicate} ?"
    elif family is not None:
        forms = [option.removesuffix(" ball").removesuffix(" present"), *forms]
    return asked, Reference(f"bbh/{task}", family, forms[0], tuple(dict.fromkeys(forms)))


def _split_predicate(option: str) -> tuple[str, str]:
    """The thing and what an option says of it; all options say the same."""
    match = _PREDICATE.match(option.removesuffix(" ."))
    if match is None:
        raise ValueError(f"{option!r} says nothing of a place")
    return match[1], match[2]


def _read_bbh(path: Path) -> list[tuple[str, str]]:
    try:
        data: Any = json.loads(_read_text(path))
        rows = [(row["input"], row["target"]) for row in data["examples"]]
        if not rows or not all(isinstance(part, str) for row in rows for part in row):
            raise TypeError("no examples, or one that is no text")  # noqa: TRY301 - one message for a broken file
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        message = f"{path} is not a task file of BIG-Bench Hard ({error}); get it again from its publisher"
        raise QuestionError(message) from error
    return rows


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise QuestionError(f"{path} cannot be read ({error}); get the file from its publisher") from error
