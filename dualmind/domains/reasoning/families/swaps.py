"""Object tracking: people swap what they hold."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dualmind.domains.reasoning.families.words import COLOURS, NAMES, PARTNERS, PLAYERS
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
)


@dataclass(frozen=True, slots=True)
class _Scene:
    """A setting of BIG-Bench Hard's task in its words; ``has`` and ``thing`` frame what a person holds."""

    opening: str
    has: str
    thing: str  # the noun after the colour, with its blank, or nothing
    middle: str
    swap: str
    closing: str
    pool: tuple[str, ...]


_SCENES = (
    _Scene(
        "are playing a game . at the start of the game , they are each holding a ball :", "has a", " ball",
        "as the game progresses , pairs of players trade balls .", "swap balls",
        "at the end of the game , {} has the", COLOURS,
    ),
    _Scene(
        "are holding a white elephant gift exchange . at the start of the event , they are each holding a present of a"
        " different color :", "has a", " present",
        "as the event progresses , pairs of people swap gifts .", "swap their gifts",
        "at the end of the event , {} has the", COLOURS,
    ),
    _Scene(
        "are dancers at a square dance . at the start of a song , they each have a partner :", "is dancing with", "",
        "throughout the song , the dancers often trade partners .", "switch partners",
        "at the end of the dance , {} is dancing with", PARTNERS,
    ),
)  # fmt: skip
_HOLDS = re.compile(r"(\w+) (?:has(?: a)?|is dancing with) (\w+)")
_PEOPLE = r"\w+(?: , \w+)*(?: ,)? and \w+"
_BBH_FORM = "|".join(
    rf"{_PEOPLE} {re.escape(scene.opening)}"
    rf" (?:\w+ {scene.has} \w+{scene.thing}(?: , and | , | and | \. )){{2,}}{re.escape(scene.middle)}"
    rf"(?: (?:first|then|finally) , \w+ and \w+ {scene.swap} \.)+ {scene.closing.format('[a-z]+')}"
    for scene in _SCENES
)
_FORM = re.compile(
    rf"{_BBH_FORM}|\w+ has \w+(?: \. \w+ has \w+)+(?: \. #\d+ \w+ and \w+ swap)+ \. who has \w+ now \?", re.ASCII
)
_SWAPS = re.compile(r"(\w+) and (\w+) (?:swap|switch|trade)")
_NUMBER = re.compile(r"#(\d+)")
_ASKED = re.compile(r"(?:at the end of the \w+ , (\w+) (?:has the|is dancing with)|who has (\w+) now \?)$")


@dataclass(frozen=True, slots=True)
class _Facts:
    holds: dict[str, str]  # what each person holds at the start
    swaps: tuple[tuple[str, str], ...]
    asked: str  # a person (what do they hold at the end?) or a thing (who holds it at the end?)


def _read(text: str) -> _Facts:
    """Facts of a text in any of our wordings."""
    start, _, rest = text.partition(" . first , ") if " . first , " in text else text.partition(" . #")
    holds = dict(_HOLDS.findall(start))
    asked = _ASKED.search(text)
    swaps, numbers = tuple(_SWAPS.findall(rest)), [int(number) for number in _NUMBER.findall(text)]
    if not holds or asked is None or numbers not in ([], list(range(1, len(swaps) + 1))):
        raise ValueError(f"{text[:60]!r} is not a question about swaps")
    return _Facts(holds, swaps, asked[1] or asked[2])


def _follow(facts: _Facts) -> Follow:
    """Steps: a pair that swaps, who has what is asked for before, and who after; the one thing is tracked only.

    Where a person is asked, the way goes back in time, and the last step ends with what that person held at the start.
    Where a thing is asked, it goes forward, and the first step names the thing before its holder.
    """
    backward = facts.asked in facts.holds
    order = facts.swaps[::-1] if backward else facts.swaps
    holder = {thing: person for person, thing in facts.holds.items()}

    def follow(before: Sequence[str]) -> str:
        now = value(before[-1]) if before else (facts.asked if backward else holder[facts.asked])
        if now not in facts.holds:
            raise ValueError(f"{now!r} is nobody here")
        one, other = order[len(before)]
        after = other if now == one else one if now == other else now
        words = [one, other, now, after]
        if not before and not backward:
            words.insert(2, facts.asked)
        if backward and len(before) == len(order) - 1:
            words.append(facts.holds[after])
        return " ".join(words)

    return follow


@dataclass(frozen=True, slots=True)
class Swaps(TextFamily):
    """People swap what they hold (BIG-Bench Hard: tracking_shuffled_objects).

    Three swaps among three people take 99 words in BIG-Bench Hard's wording, seven among seven 180: so its wording is
    used up to ``max_bbh_hops`` only. The plain one, with three to five people, has all numbers of hops; its swaps are
    numbered, for a reader cannot count far.
    """

    name = "swaps"
    form = _FORM
    max_bbh_hops: int = 3  # 0..12
    max_bbh_people: int = 3  # 3..7; there are three, five or seven

    def draw(self, hops: int, rng: np.random.Generator) -> Question:
        """One hop is one swap, whether or not it moves what is asked for."""
        check_hops(hops)
        if hops <= self.max_bbh_hops and rng.random() < 0.5:
            num_people = pick(rng, [number for number in (3, 5, 7) if number <= self.max_bbh_people])
            text, phrasing = _write_bbh(hops, num_people, rng), "bbh"
        else:
            text, phrasing = _write_plain(hops, rng), "plain"
        return self.ask(text, hops, phrasing)

    def reading(self, text: str) -> Reading:
        """See :class:`TextFamily`."""
        facts = _read(text)
        return Reading(len(facts.swaps), _follow(facts))


def _write_bbh(hops: int, num_people: int, rng: np.random.Generator) -> str:
    scene, people = pick(rng, _SCENES), list(PLAYERS[:num_people])
    things = sample(rng, scene.pool, len(people))
    holds = enumerate_words([f"{p} {scene.has} {t}{scene.thing}" for p, t in zip(people, things, strict=True)])
    swaps = [" and ".join(sample(rng, people, 2)) for _ in range(hops)]
    marks = ["first" if i == 0 else "finally" if i == hops - 1 else "then" for i in range(hops)]
    told = " ".join(f"{mark} , {pair} {scene.swap} ." for mark, pair in zip(marks, swaps, strict=True))
    closing = scene.closing.format(pick(rng, people))
    return f"{enumerate_words(people)} {scene.opening} {holds} . {scene.middle} {told} {closing}"


def _write_plain(hops: int, rng: np.random.Generator) -> str:
    people = sample(rng, NAMES, between(rng, 3, 5))
    things = sample(rng, COLOURS, len(people))
    holds = " . ".join(f"{p} has {t}" for p, t in zip(people, things, strict=True))
    now = pick(rng, people)  # who holds what will be asked for
    asked, swaps = things[people.index(now)], []
    for index in range(hops):
        # as likely to end with whom it started as with anybody else; and, but for a single swap, no more likely with
        # the two of the last swap
        last = index == hops - 1 > 0
        moves = rng.random() < (2 / len(people) if last else 1 - 1 / len(people))
        others = [person for person in people if person != now]
        pair = sample(rng, [now, pick(rng, others)], 2) if moves else sample(rng, others, 2)
        now = pair[pair[0] == now] if moves else now
        swaps.append(f"#{index + 1} {pair[0]} and {pair[1]} swap")
    return f"{holds} . {' . '.join(swaps)} . who has {asked} now ?"
