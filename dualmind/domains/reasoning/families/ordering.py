"""Ordering: clues fix a row of things, and one place of it is asked for."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dualmind.domains.reasoning.families.words import (
    BIRDS,
    FRUITS,
    GOLFERS,
    NAMES,
    NUMBER_WORDS,
    ORDINALS,
    VEHICLES,
)
from dualmind.domains.reasoning.question import (
    Follow,
    Question,
    Reading,
    TextFamily,
    between,
    check_hops,
    enumerate_words,
    pick,
    sample,
    value,
    with_article,
)


@dataclass(frozen=True, slots=True)
class _Scene:
    """A setting in words. The row goes from its low end (left, newest, cheapest, first, tallest) to its high end."""

    opening: str  # "{}" is the number of things; empty where the things are not listed
    pool: tuple[str, ...]
    max_items: int  # so that the text stays below about 90 words
    article: str  # before a thing in a clue, with its blank
    listed: str  # "a" where the list of things has articles
    lower: str  # x is closer to the low end than y
    higher: str
    be: str  # between a thing and its rank
    ends: tuple[str, str]
    rank: tuple[str, str]  # "{}" is the ordinal, counted from the low and from the high end
    ask: str


_BBH_SCENES = (
    _Scene("on a branch , there are {} birds :", BIRDS, 5, "the ", "a", "is to the left of", "is to the right of",
           "is the", ("leftmost", "rightmost"), ("{} from the left", "{} from the right"), "which"),
    _Scene("in an antique car show , there are {} vehicles :", VEHICLES, 6, "the ", "a", "is newer than",
           "is older than", "is the", ("newest", "oldest"), ("{} - newest", "{} - oldest"), "which"),
    _Scene("a fruit stand sells {} fruits :", tuple(FRUITS.values()), 7, "the ", "", "are less expensive than",
           "are more expensive than", "are the", ("cheapest", "most expensive"),
           ("{} - cheapest", "{} - most expensive"), "which"),
    _Scene("in a golf tournament , there were {} golfers :", GOLFERS, 10, "", "", "finished above", "finished below",
           "finished", ("first", "last"), ("{}", "{} - to - last"), "who"),
)  # fmt: skip
_PLAIN = _Scene("", NAMES, 14, "", "", "is taller than", "is shorter than", "is the", ("tallest", "shortest"),
                ("{} tallest", "{} shortest"), "who")  # fmt: skip
_SCENES = (*_BBH_SCENES, _PLAIN)


def _rank(scene: _Scene, place: int, end: int) -> str:
    """Words for the ``place``-th (from 1) from the low (0) or high (1) end."""
    return scene.ends[end] if place == 1 else scene.rank[end].format(ORDINALS[place - 1])


_PLACES = {
    _rank(scene, place, end): (place, end)
    for scene in _SCENES
    for place in range(1, len(ORDINALS) + 1)
    for end in (0, 1)
}
_LOWER = {scene.lower for scene in _SCENES}
_RELATIONS = "|".join(sorted(relation for scene in _SCENES for relation in (scene.lower, scene.higher)))
_CLUE = re.compile(rf"(\w+) ({_RELATIONS}) (?:the )?(\w+) \.")
_FIXED = re.compile(rf"(\w+) (?:is the|are the|finished) ({'|'.join(sorted(_PLACES, key=len, reverse=True))}) \.")
_ASKED = re.compile(r"(?:which|who) (?:is the|are the|finished) ([\w -]+) \?$")
_OPENINGS = "|".join(re.escape(scene.opening.format("NUMBER")) for scene in _BBH_SCENES).replace("NUMBER", r"\w+")
_FORM = re.compile(
    rf"(?:(?:{_OPENINGS}) [\w ,]+ \. )?(?:(?:the )?(?:{_CLUE.pattern}|{_FIXED.pattern}) )+{_ASKED.pattern}", re.ASCII
)


def _read(text: str) -> list[str]:
    """Things in order, from the end at which the question counts."""
    clues = [(one, other) if relation in _LOWER else (other, one) for one, relation, other in _CLUE.findall(text)]
    fixed = {thing: _PLACES[rank] for thing, rank in _FIXED.findall(text)}
    loose = list(dict.fromkeys(thing for clue in clues for thing in clue if thing not in fixed))
    num_things = len(loose) + len(fixed)
    row: list[str | None] = [None] * num_things
    for thing, (place, end) in fixed.items():
        row[num_things - place if end else place - 1] = thing
    for index in range(num_things):
        if row[index] is None:
            row[index] = next(thing for thing in loose if not any(low in loose for low, high in clues if high == thing))
            loose.remove(str(row[index]))
    asked = _ASKED.findall(text)[0]
    return [str(thing) for thing in (row[::-1] if _PLACES[asked][1] else row)]


def _follow(row: Sequence[str]) -> Follow:
    """Steps: two neighbours each, from the end at which the question counts to the place that it asks for.

    The first step is the thing at that end alone.
    """

    def follow(before: Sequence[str]) -> str:
        if not before:
            return row[0]
        now = value(before[-1])
        return f"{now} {row[row.index(now) + 1]}"

    return follow


class Ordering(TextFamily):
    """Things in a row (BIG-Bench Hard: logical_deduction); its options are turned into a question at the end."""

    name = "ordering"
    form = _FORM

    def draw(self, hops: int, rng: np.random.Generator) -> Question:
        """The place that is asked for is the ``hops``-th from its end; one hop finds the next thing in the row."""
        check_hops(hops)
        num_things = max(3, hops + between(rng, 1, 2))
        scenes = [scene for scene in _BBH_SCENES if num_things <= scene.max_items]
        phrasing = pick(rng, ("bbh", "plain")) if scenes else "plain"
        scene = pick(rng, scenes) if phrasing == "bbh" else _PLAIN
        text = _write(scene, num_things, hops, rng)
        return self.ask(text, hops, phrasing)

    def reading(self, text: str) -> Reading:
        """See :class:`TextFamily`."""
        return Reading(_PLACES[_ASKED.findall(text)[0]][0], _follow(_read(text)))


def _write(scene: _Scene, num_things: int, place: int, rng: np.random.Generator) -> str:
    """Clues between neighbours and one between the two ends, so that every thing occurs in two of them.

    Some things are told by their places alone, and their neighbours become neighbours of each other.
    """
    row, asked_end = sample(rng, scene.pool, num_things), between(rng, 0, 1)
    asked = row[-place if asked_end else place - 1]
    others = [thing for thing in row if thing != asked]
    told_alone = sample(rng, others, between(rng, 0, num_things // 3))
    chain = [thing for thing in row if thing not in told_alone]
    pairs = list(itertools.pairwise(chain)) + ([(chain[0], chain[-1])] if len(chain) > 2 else [])
    the, clues = scene.article, []
    for low, high in pairs:
        first, relation, second = (low, scene.lower, high) if rng.random() < 0.5 else (high, scene.higher, low)
        clues.append(f"{the}{first} {relation} {the}{second} .")
    for thing in told_alone:
        place_of = ((row.index(thing) + 1, 0), (num_things - row.index(thing), 1))
        rank = _rank(scene, *pick(rng, [place for place in place_of if place[0] <= len(ORDINALS)]))
        clues.append(f"{the}{thing} {scene.be} {rank} .")
    listed = ""
    if scene.opening:
        things = [with_article(thing) if scene.listed else thing for thing in sample(rng, row, num_things)]
        listed = f"{scene.opening.format(NUMBER_WORDS[num_things - 2])} {enumerate_words(things)} . "
    question = f"{scene.ask} {scene.be} {_rank(scene, place, asked_end)} ?"
    return f"{listed}{' '.join(sample(rng, clues, len(clues)))} {question}"
