"""Lists: counting what belongs to a kind, and sorting."""

import re
from collections.abc import Sequence

import numpy as np

from dualmind.domains.reasoning.families.words import (
    BIRDS,
    KIND_OF,
    KINDS,
    NUMBER_OF,
    NUMBER_WORDS,
    SINGULAR,
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

_NUM_OTHERS = (2, 3)  # things in the list that are not asked for
# A sum is drawn from as many values whatever the number of hops, so that neither hints at the other.
_NUM_SUMS = {"bbh": len(NUMBER_WORDS) + 1, "plain": 60}

_ITEMS = r"\w+ \w+(?: , \w+ \w+)*(?: ,)?(?: and \w+ \w+)?"
_COUNTS_FORM = re.compile(
    rf"i have {_ITEMS} \. how many [a-z ]+ do i have \?|there are {_ITEMS} \. how many [a-z ]+ are there \?", re.ASCII
)


def _read_counts(text: str) -> list[tuple[str, str, int]]:
    """What is asked for, in the order of the list: number and thing in the list's words, and the number."""
    told, _, asked = text.partition(" . how many ")
    kind = re.sub(r" (?:do i have|are there) \?$", "", asked)
    items = re.split(r" , and | , | and ", re.sub(r"^(?:i have|there are) ", "", told))
    counts = []
    for number, thing in (item.split(" ") for item in items):
        if KIND_OF[SINGULAR.get(thing, thing)] == kind:
            counts.append((number, thing, 1 if number in {"a", "an"} else NUMBER_OF.get(number) or int(number)))
    return counts


def _follow_counts(counts: Sequence[tuple[str, str, int]]) -> Follow:
    """Steps: each thing that counts, with its number, and the sum so far."""

    def follow(before: Sequence[str]) -> str:
        number, thing, count = counts[len(before)]
        return f"{number} {thing} {(int(value(before[-1])) if before else 0) + count}"

    return follow


class Counting(TextFamily):
    """How many of one kind (BIG-Bench Hard: object_counting)?"""

    name = "counting"
    form = _COUNTS_FORM

    def draw(self, hops: int, rng: np.random.Generator) -> Question:
        """One hop is one thing that counts."""
        check_hops(hops)
        phrasing = pick(rng, ("bbh", "plain"))
        kind = pick(rng, [kind for kind, nouns in KINDS.items() if len(nouns) >= hops])
        total = hops - 1 + between(rng, 1, _NUM_SUMS[phrasing])
        counts = _parts(total, hops, rng)
        others = [noun for noun, other in KIND_OF.items() if other != kind]
        items = list(zip(sample(rng, tuple(KINDS[kind]), hops), counts, strict=True))
        for noun in sample(rng, others, between(rng, *_NUM_OTHERS)):
            count = pick(rng, _parts(hops - 1 + between(rng, 1, _NUM_SUMS[phrasing]), hops, rng))
            items.insert(between(rng, 0, len(items)), (noun, count))
        if phrasing == "bbh":
            told = [with_article(noun) if n == 1 else f"{NUMBER_WORDS[n - 2]} {_many(noun)}" for noun, n in items]
            text = f"i have {enumerate_words(told)} . how many {kind} do i have ?"
        else:
            told = [f"{n} {noun if n == 1 else _many(noun)}" for noun, n in items]
            text = f"there are {enumerate_words(told)} . how many {kind} are there ?"
        return self.ask(text, hops, phrasing)

    def reading(self, text: str) -> Reading:
        """See :class:`TextFamily`."""
        counts = _read_counts(text)
        return Reading(len(counts), _follow_counts(counts))


def _many(noun: str) -> str:
    return KINDS[KIND_OF[noun]][noun]


def _parts(total: int, num_parts: int, rng: np.random.Generator) -> list[int]:
    """Random parts >= 1 of a sum."""
    cuts = sorted((rng.permutation(total - 1)[: num_parts - 1] + 1).tolist())
    return [high - low for low, high in zip([0, *cuts], [*cuts, total], strict=True)]


_SORTED_WORDS = tuple(sorted({*KIND_OF, *BIRDS, *VEHICLES}))
_LEAD = {
    "bbh": "sort the following words alphabetically : list :",
    "plain": "sort these numbers from small to large :",
}

_SORTED_FORM = re.compile(rf"{_LEAD['bbh']}(?: [a-z]+)+|{_LEAD['plain']}(?: \d+)+", re.ASCII)


def _follow_sorted(text: str) -> Follow:
    """Steps: the smallest of what is left; the last step places the last two."""
    items = text.rpartition(" : ")[2].split()
    by_number = text.startswith(_LEAD["plain"])

    def follow(before: Sequence[str]) -> str:
        left = list(items)
        for item in before:
            left.remove(item)
        left.sort(key=int if by_number else None)
        return " ".join(left if len(left) == 2 else left[:1])

    return follow


class Sorting(TextFamily):
    """Words by the alphabet (BIG-Bench Hard: word_sorting), numbers by size; one more of them than hops."""

    name = "sorting"
    form = _SORTED_FORM

    def draw(self, hops: int, rng: np.random.Generator) -> Question:
        """One hop picks the next of the order; the last one is left over."""
        check_hops(hops)
        phrasing = pick(rng, ("bbh", "plain"))
        pool = _SORTED_WORDS if phrasing == "bbh" else tuple(str(number) for number in range(100))
        text = f"{_LEAD[phrasing]} {' '.join(sample(rng, pool, hops + 1))}"
        return self.ask(text, hops, phrasing, " ".join)

    def reading(self, text: str) -> Reading:
        """See :class:`TextFamily`."""
        return Reading(len(text.rpartition(" : ")[2].split()) - 1, _follow_sorted(text))
