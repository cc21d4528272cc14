"""An independent solver of questions that follow by deduction: Z3 (de Moura and Bjorner 2008) on the text alone.

It shares no code but a list of words with the families that draw these questions, and reads their texts by its own
patterns; a text that it does not know in full, or that does not fix one answer, has the answer ``None``.
"""

import re
import threading
from collections.abc import Iterable
from typing import Any

import z3

from dualmind.domains.reasoning.families.words import ORDINALS
from dualmind.errors import SymbolicError
from dualmind.symbolic.grammar import Valid
from dualmind.symbolic.parser import parse
from dualmind.symbolic.worker import formula

_LIMIT_MS = 2_000  # of one check by Z3
_LOCK = threading.Lock()  # all of Z3's terms live in one context, which is not safe among threads


def solve(text: str) -> str | None:
    """The answer to a question of an order, a boolean expression, honest people or swaps; None for any other text."""
    with _LOCK:
        return next((answer for read in (_boolean, _truth, _order, _swaps) if (answer := read(text)) is not None), None)


def _only(facts: Iterable[Any], claims: dict[str, Any]) -> str | None:
    """The one answer whose claim follows from the facts; None where they leave it open or contradict each other."""
    solver = z3.Solver()
    solver.set("timeout", _LIMIT_MS)
    solver.add(*facts)
    if solver.check() != z3.sat:
        return None
    model = solver.model()
    for answer, claim in claims.items():
        if z3.is_true(model.eval(claim, model_completion=True)):
            return answer if solver.check(z3.Not(claim)) == z3.unsat else None
    return None


_IS = re.compile(r"([a-z]) is (true|false)", re.ASCII)


def _boolean(text: str) -> str | None:
    told, asks, asked = text.removesuffix(" ?").rpartition("what is ")
    facts = [_IS.fullmatch(fact) for fact in told.split(" . ") if fact]
    if text.endswith(" is") and not asks:
        facts, asked = [], text.removesuffix(" is")
    elif not asks or not all(facts):
        return None
    try:
        call = parse(f"valid : {asked}")
    except SymbolicError:
        return None
    assert isinstance(call, Valid)
    expression = formula(call.formula)
    known = [z3.Bool(fact[1]) == z3.BoolVal(fact[2] == "true") for fact in facts if fact]
    return _only(known, {"true": expression, "false": z3.Not(expression)})


_VERDICTS = {"tells the truth": True, "is honest": True, "lies": False, "is a liar": False}
_VERDICT = "|".join(_VERDICTS)
_SENTENCE = re.compile(rf"(\w+) (?:says (?:that )?(\w+) )?({_VERDICT})", re.ASCII)
_HONEST = re.compile(r"does (\w+) tell the truth \?|is (\w+) honest \?", re.ASCII)


def _truth(text: str) -> str | None:
    *told, asked = text.split(" . ")
    question, sentences = _HONEST.fullmatch(asked), [_SENTENCE.fullmatch(sentence) for sentence in told]
    if question is None or not sentences or not all(sentences):
        return None
    facts = []
    for match in filter(None, sentences):
        speaker, other, verdict = match.groups()
        said = z3.Bool(other or speaker) == _VERDICTS[verdict]
        facts.append(z3.Bool(speaker) == said if other else said)
    honest = z3.Bool(question[1] or question[2])
    return _only(facts, {"yes": honest, "no": z3.Not(honest)})


_BEFORE = ("is to the left of", "is newer than", "are less expensive than", "finished above", "is taller than")
_AFTER = ("is to the right of", "is older than", "are more expensive than", "finished below", "is shorter than")
_COMPARED = re.compile(rf"(?:the )?(\w+) ({'|'.join((*_BEFORE, *_AFTER))}) (?:the )?(\w+)", re.ASCII)
_PLACED = re.compile(r"(?:the )?(\w+) (?:is the|are the|finished) ([a-z -]+)", re.ASCII)
_WHICH = re.compile(r"(?:which|who) (?:is the|are the|finished) ([a-z -]+) \?", re.ASCII)
_LISTED = re.compile(r"[\w ]+(?: ,[\w ]+)? :[\w ,]+|a fruit stand sells [\w ,:]+", re.ASCII)
_NTH = {word: number for number, word in enumerate(ORDINALS, start=1)}
_FIRST_END = ("leftmost", "newest", "cheapest", "tallest", "first", "from the left")
_LAST_END = ("rightmost", "oldest", "most expensive", "shortest", "last", "from the right")


def _place(words: str, number: int) -> int | None:
    """Place, from 1, that "second - newest" or "third from the right" means among ``number`` things."""
    if words in _NTH:  # "finished second"
        return _NTH[words]
    word, _, rest = words.partition(" ")
    nth, end = (_NTH[word], rest.removeprefix("- ").removeprefix("to - ")) if word in _NTH else (1, words)
    if end in _FIRST_END:
        return nth
    return number + 1 - nth if end in _LAST_END else None


def _order(text: str) -> str | None:
    *told, asked = text.split(" . ")
    question = _WHICH.fullmatch(asked)
    if told and _LISTED.fullmatch(told[0]):
        told = told[1:]
    compared, placed = [], []
    for sentence in told:
        if match := _COMPARED.fullmatch(sentence):
            compared.append(match.groups() if match[2] in _BEFORE else (match[3], match[2], match[1]))
        elif match := _PLACED.fullmatch(sentence):
            placed.append(match.groups())
        else:
            return None
    things = {thing: z3.Int(thing) for row in (*compared, *placed) for thing in (row[0], *row[2:])}
    wanted = None if question is None else _place(question[1], len(things))
    places = [(things[thing], _place(words, len(things))) for thing, words in placed]
    if wanted is None or any(place is None for _, place in places):
        return None
    facts = [z3.Distinct(*things.values()), *(z3.And(x >= 1, x <= len(things)) for x in things.values())]
    facts += [things[low] < things[high] for low, _, high in compared]
    facts += [thing == place for thing, place in places]
    return _only(facts, {name: thing == wanted for name, thing in things.items()})


_HAS = re.compile(r"(\w+) (?:has (?:a )?|is dancing with )(\w+)(?: ball| present)?", re.ASCII)
_SWAP = re.compile(
    r"(?:#\d+ |(?:first|then|finally) , )?(\w+) and (\w+) (?:swap|swap balls|swap their gifts|switch partners)",
    re.ASCII,
)
_SCENERY = re.compile(
    r"as the (?:game|event) progresses , pairs of p\w+ (?:trade balls|swap gifts)|"
    r"throughout the song , the dancers often trade partners|[a-z , ]+ (?:playing a game|gift exchange|square dance)"
)
_HOLDERS = re.compile(r"at the (?:start|end) of (?:the|a) [a-z , ]+ : ", re.ASCII)
_LAST = re.compile(r"who has (\w+) now \?|at the end of the \w+ , (\w+) (?:has the|is dancing with)", re.ASCII)


def _swaps(text: str) -> str | None:
    """Who holds what after each swap, one unknown for each person and time."""
    *told, asked = _HOLDERS.sub("", text, count=1).split(" . ")
    question, swaps = _LAST.fullmatch(asked), []
    holds: dict[str, str] = {}
    for sentence in told:
        if match := _SWAP.fullmatch(sentence):
            swaps.append(match.groups())
        elif all(held := [_HAS.fullmatch(clause) for clause in re.split(r" , and | , | and ", sentence)]):
            holds.update((match[1], match[2]) for match in held if match)
        elif not _SCENERY.fullmatch(sentence):
            return None
    named = {name for pair in swaps for name in pair}
    if question is None or not swaps or not named <= holds.keys() or len(set(holds.values())) != len(holds):
        return None
    code = {thing: index for index, thing in enumerate(holds.values())}
    hands = [{person: z3.Int(f"{person} {time}") for person in holds} for time in range(len(swaps) + 1)]
    facts = [hands[0][person] == code[thing] for person, thing in holds.items()]
    for (one, other), before, after in zip(swaps, hands, hands[1:], strict=False):
        partner = {one: other, other: one}
        facts += [after[person] == before[partner.get(person, person)] for person in holds]
    thing, person = question.groups()
    if person in holds:
        return _only(facts, {name: hands[-1][person] == number for name, number in code.items()})
    return _only(facts, {name: hand == code[thing] for name, hand in hands[-1].items()}) if thing in code else None
