"""Navigation: where do steps and turns lead?"""

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np

from dualmind.domains.reasoning.question import (
    Follow,
    Question,
    Reading,
    TextFamily,
    between,
    check_hops,
    pick,
)

_HEADINGS = ("north", "east", "south", "west")
_DELTAS = ((0, 1), (1, 0), (0, -1), (-1, 0))  # of the headings
# each phrasing's words for the four headings
_WAYS = {
    "bbh_sides": ("forward", "right", "backward", "left"),
    "compass": _HEADINGS,
    "grid": ("up", "right", "down", "left"),
}
_TURNS = {"right": 1, "around": 2, "left": 3}
_TOP, _CENTRE, _MAX_STEPS = 99, 50, 10
_LEAD = "if you follow these instructions , do you return to the starting point ?"
# Below these there are too few ways back: "yes" would run out before "no", or "no" could be told by its words.
_MIN_HOPS = {"compass": 1, "grid": 1, "bbh_sides": 3, "bbh_turns": 4}
_PLACE_FORM = (
    r"start at \d+ \d+ \.(?: go \d+ (?:north|east|south|west) \.)+ where are you \?"
    r"|you are in column \d+ and row \d+ \.(?: move \d+ (?:up|right|down|left) \.)+ which column and row are you in \?"
)
_RETURN_FORM = (
    r"always face forward \.(?: take \d+ steps? (?:forward|right|backward|left) \.)+"
    r"|(?:take \d+ steps?|turn (?:right|around|left)) \.(?: (?:take \d+ steps?|turn (?:right|around|left)) \.)*"
)
_FORM = re.compile(rf"{_PLACE_FORM}|{re.escape(_LEAD)} (?:{_RETURN_FORM})", re.ASCII)
_Phrasing = Literal["compass", "grid", "bbh_sides", "bbh_turns"]
_PHRASINGS: tuple[_Phrasing, ...] = ("compass", "grid", "bbh_sides", "bbh_turns")
_Move = tuple[str, int]  # a way (or "ahead") and the number of steps, or a turn and 0


def _read(text: str) -> tuple[_Phrasing, tuple[int, int], list[_Move]]:
    """Phrasing, start and moves."""
    if text.startswith(_LEAD):
        told = text.removeprefix(f"{_LEAD} ")
        sides = told.startswith("always face forward")
        moves = [
            (turn, 0) if turn else (way or "ahead", int(number))
            for turn, number, way in re.findall(r"turn (\w+)|take (\d+) steps? ?(\w*)", told)
        ]
        return "bbh_sides" if sides else "bbh_turns", (_CENTRE, _CENTRE), moves
    column, row = re.findall(r"\d+", text)[:2]
    moves = [(way, int(number)) for number, way in re.findall(r"(?:go|move) (\d+) (\w+)", text)]
    return "compass" if text.startswith("start at") else "grid", (int(column), int(row)), moves


def _walk(phrasing: _Phrasing, state: tuple[int, int, int], move: _Move) -> tuple[int, int, int]:
    """Column, row and heading after a move.

    Raises:
        ValueError: the move leaves 0..99.
    """
    x, y, heading = state
    word, number = move
    if phrasing == "bbh_turns":
        if number == 0:
            return x, y, (heading + _TURNS[word]) % 4
        dx, dy = _DELTAS[heading]
    else:
        dx, dy = _DELTAS[_WAYS[phrasing].index(word)]
    x, y = x + dx * number, y + dy * number
    if not (0 <= x <= _TOP and 0 <= y <= _TOP):
        raise ValueError(f"{move} leaves 0..{_TOP}")
    return x, y, heading


def _follow(phrasing: _Phrasing, start: tuple[int, int], moves: Sequence[_Move]) -> Follow:
    """Steps: a move, and column and row after it; with turns the heading, too.

    The return starts at 50 50, facing north.
    """
    turns = phrasing == "bbh_turns"

    def follow(before: Sequence[str]) -> str:
        state = (*start, 0)
        if before:
            column, row, *heading = _place(before[-1], turns)
            state = (int(column), int(row), _HEADINGS.index(heading[0]) if turns else 0)
        word, number = moves[len(before)]
        x, y, at = _walk(phrasing, state, (word, number))
        move = f"{number} {word}" if number else word
        return f"{move} {x} {y} {_HEADINGS[at]}" if turns else f"{move} {x} {y}"

    return follow


def _place(step: str, turns: bool) -> list[str]:
    """Column and row of a step, and its heading where there are turns."""
    return step.split()[-3 if turns else -2 :]


class Navigation(TextFamily):
    """Where does a walk end (a place, in 0..99), and is that the start (BIG-Bench Hard: navigate)?"""

    name = "navigation"
    form = _FORM

    def draw(self, hops: int, rng: np.random.Generator) -> Question:
        """One hop is one instruction. Returns are asked for from three hops (four with turns), half of them true."""
        check_hops(hops)
        phrasing = pick(rng, [name for name in _PHRASINGS if hops >= _MIN_HOPS[name]])
        returns = phrasing in {"bbh_sides", "bbh_turns"}
        text = _write_return(phrasing, hops, rng) if returns else _write_place(phrasing, hops, rng)
        turns, centre = phrasing == "bbh_turns", [str(_CENTRE)] * 2

        def answer(steps: tuple[str, ...]) -> str:
            place = _place(steps[-1], turns)[:2]
            return ("yes" if place == centre else "no") if returns else " ".join(place)

        return self.ask(text, hops, phrasing, answer)

    def reading(self, text: str) -> Reading:
        """See :class:`TextFamily`."""
        phrasing, start, moves = _read(text)
        return Reading(len(moves), _follow(phrasing, start, moves))


def _write_place(phrasing: _Phrasing, hops: int, rng: np.random.Generator) -> str:
    start = (between(rng, 0, _TOP), between(rng, 0, _TOP))
    state = (*start, 0)
    told: list[str] = []
    while len(told) < hops:
        way, number = pick(rng, _WAYS[phrasing]), between(rng, 1, _MAX_STEPS)
        try:
            state = _walk(phrasing, state, (way, number))
        except ValueError:  # a way out of the field; draw another
            continue
        told.append(f"{'go' if phrasing == 'compass' else 'move'} {number} {way} .")
    if phrasing == "compass":
        return f"start at {start[0]} {start[1]} . {' '.join(told)} where are you ?"
    return f"you are in column {start[0]} and row {start[1]} . {' '.join(told)} which column and row are you in ?"


def _write_return(phrasing: _Phrasing, hops: int, rng: np.random.Generator) -> str:
    """A walk back to the start; for a "no" the number of one of its moves is changed, so that the words are alike."""
    while (moves := _closed_walk(phrasing, hops, rng)) is None:
        pass
    if rng.random() < 0.5:
        index = pick(rng, [i for i, (_, number) in enumerate(moves) if number])
        word, number = moves[index]
        others = [n for n in range(max(1, number - 3), min(_MAX_STEPS, number + 3) + 1) if n != number]
        moves[index] = (word, pick(rng, others))
    told = ["always face forward ."] if phrasing == "bbh_sides" else []
    for word, number in moves:
        steps = f"take {number} {'step' if number == 1 else 'steps'}"
        told.append(f"turn {word} ." if not number else f"{steps} ." if word == "ahead" else f"{steps} {word} .")
    return f"{_LEAD} {' '.join(told)}"


def _closed_walk(phrasing: _Phrasing, hops: int, rng: np.random.Generator) -> list[_Move] | None:
    """Random moves whose last one on each axis is as long as it must be; None where that is impossible."""
    moves: list[_Move] = []
    headings: list[int] = []  # of the moves that are steps
    heading = 0
    for _ in range(hops):
        if phrasing == "bbh_sides":
            heading = between(rng, 0, 3)
            moves.append((_WAYS[phrasing][heading], between(rng, 1, _MAX_STEPS)))
        elif rng.random() < 0.5:
            moves.append((pick(rng, tuple(_TURNS)), 0))
            heading = (heading + _TURNS[moves[-1][0]]) % 4
            continue
        else:
            moves.append(("ahead", between(rng, 1, _MAX_STEPS)))
        headings.append(heading)
    walked = [index for index, (_, number) in enumerate(moves) if number]
    for axis in (0, 1):  # north and south, east and west
        own = [i for i, h in zip(walked, headings, strict=True) if h % 2 == axis]
        sign = {i: 1 if h < 2 else -1 for i, h in zip(walked, headings, strict=True)}
        if own:
            rest = sum(sign[i] * moves[i][1] for i in own[:-1])
            length = -rest * sign[own[-1]]
            if not 1 <= length <= _MAX_STEPS:
                return None
            moves[own[-1]] = (moves[own[-1]][0], length)
    return moves if walked else None
