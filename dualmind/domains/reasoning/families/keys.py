"""Look-ups: each key opens a room that holds the next key."""

import re
from collections.abc import Sequence

import numpy as np

from dualmind.domains.reasoning.families.words import COLOURS
from dualmind.domains.reasoning.question import (
    Question,
    Reading,
    TextFamily,
    between,
    check_hops,
    pick,
    sample,
    value,
)

_NUM_SPARE = (3, 4)  # rooms beyond the way, so that going round the other way is no short cut
_LEADS = re.compile(r"(\w+) (?:room holds|key opens) (\w+)")
_FORM = re.compile(
    r"(?:the \w+ room holds \w+ \. )+start in the \w+ room and use \d+ keys? \. where are you \?"
    r"|(?:\w+ key opens \w+ \. )+start with the \w+ key \. what do you have after \d+ doors? \?",
    re.ASCII,
)
_HOPS = re.compile(r"(\d+) (?:keys?|doors?) (?:\.|\?)")
_START = re.compile(r"(?:start in the|start with the) (\w+)")


class Keys(TextFamily):
    """Rooms in a ring: every colour occurs once as a room and once as a key, so counting words tells nothing.

    Steps: a room, and the key that it holds; or a key, and what its door gives.
    """

    name = "keys"
    form = _FORM

    def draw(self, hops: int, rng: np.random.Generator) -> Question:
        """One hop is one look-up."""
        check_hops(hops)
        ring = sample(rng, COLOURS, hops + between(rng, *_NUM_SPARE))
        phrasing = pick(rng, ("rooms", "doors"))
        frame = "the {} room holds {} ." if phrasing == "rooms" else "{} key opens {} ."
        facts = [frame.format(one, other) for one, other in zip(ring, ring[1:] + ring[:1], strict=True)]
        told = " ".join(sample(rng, facts, len(facts)))
        if phrasing == "rooms":
            keys = "1 key" if hops == 1 else f"{hops} keys"
            text = f"{told} start in the {ring[0]} room and use {keys} . where are you ?"
        else:
            doors = "1 door" if hops == 1 else f"{hops} doors"
            text = f"{told} start with the {ring[0]} key . what do you have after {doors} ?"
        return self.ask(text, hops, phrasing)

    def reading(self, text: str) -> Reading:
        """See :class:`TextFamily`."""
        following, start = dict(_LEADS.findall(text)), _START.findall(text)[0]

        def follow(before: Sequence[str]) -> str:
            now = value(before[-1]) if before else start
            return f"{now} {following[now]}"

        return Reading(int(_HOPS.findall(text)[0]), follow)
