"""Summarises real games into rooms.json, the tables that the generator draws from.

    python -m dualmind.domains.household.summarise GAMES > dualmind/domains/household/rooms.json

Only games of the training split are counted. ALFWorld's games are under the MIT licence.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dualmind.domains.household.game import FLAGS, Game
from dualmind.domains.household.generate import FIRST_LAYOUT
from dualmind.domains.household.sources import load_games

_RARE = 0.005  # things in fewer of a room kind's games are left out
_DEPTH = {"rooms": 3, "goals": 2, "goal_things": 2}  # levels of a table that get lines of their own
_INNER = ("coffeemachine", "stoveburner")  # what stands in or on another receptacle: its contents lie in both


def room_kind(layout: str) -> str:
    """Kind of room by AI2-THOR's numbers."""
    return max((first, kind) for kind, first in FIRST_LAYOUT.items() if first <= int(layout))[1]


def summarise(games: Iterable[Game]) -> dict[str, Any]:
    """Tables over games: rooms by kind, goals by room kind and task type, things of goals, flags, what fits where."""
    by_kind: dict[str, list[Game]] = defaultdict(list)
    for game in games:
        by_kind[room_kind(game.layout)].append(game)
    everything = [game for own in by_kind.values() for game in own]
    flags = {
        t.type: [f for f in FLAGS if f in t.flags and f != "iscool"] for g in everything for t in g.things if t.inside
    }
    fits: dict[str, set[str]] = defaultdict(set)
    for game in everything:
        for place, things in game.can_contain:
            fits[place].update(things)
    return {
        "rooms": {kind: _room(own) for kind, own in sorted(by_kind.items())},
        "goals": {kind: _goals(own) for kind, own in sorted(by_kind.items())},
        "goal_things": _goal_things(everything),
        "wordings": _wordings(everything),
        "flags": dict(sorted(flags.items())),
        "fits": {place: sorted(things & flags.keys()) for place, things in sorted(fits.items())},
    }


def _room(games: list[Game]) -> dict[str, Any]:
    """Receptacles by layout, things by game."""
    layouts = {game.layout: game for game in games}.values()
    openable: dict[str, list[bool]] = defaultdict(list)
    for game in layouts:
        for r in game.receptacles:
            openable[r.type].append(r.openable)
    shared = [_share_of_shared(game) for game in layouts]
    return {
        "receptacles": {
            kind: {
                "openable": round(sum(openable[kind]) / len(openable[kind]), 3),
                "counts": _counts([g.receptacle_types().count(kind) for g in layouts]),
            }
            for kind in sorted(openable)
        },
        "shared_location": round(sum(shared) / len(shared), 3),
        "things": _things(games),
    }


def _things(games: list[Game]) -> dict[str, Any]:
    """For each type: how many a game has; of 1,000 in a room with such a receptacle, how many lie in it; where else."""
    numbers: dict[str, Counter[int]] = defaultdict(Counter)
    both: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for game in games:
        kind = {r.id: r.type for r in game.receptacles}
        for thing, number in Counter(thing for thing, _ in _placements(game)).items():
            numbers[thing][number] += 1
        for t in game.things:
            if t.inside and (kinds := sorted((kind[place] for place in t.inside), key=_outermost))[0] in _INNER:
                both[t.type][kinds[0]][kinds[1] if len(kinds) > 1 else ""] += 1
    return {
        thing: {
            "counts": {str(n): round(c / len(games), 3) for n, c in sorted(own.items()) if c / len(games) >= _RARE / 2},
            "places": {place: share for place, share in _shares(games, thing).items() if share >= 10},
            "also_in": {place: _also(seconds) for place, seconds in sorted(both[thing].items()) if _also(seconds)},
        }
        for thing, own in sorted(numbers.items())
        if own.total() / len(games) >= _RARE
    }


def _placements(game: Game) -> list[tuple[str, str]]:
    """(object type, receptacle type) of each thing in a receptacle; of several receptacles, the innermost."""
    kind = {r.id: r.type for r in game.receptacles}
    return [(t.type, min((kind[place] for place in t.inside), key=_outermost)) for t in game.things if t.inside]


def _outermost(kind: str) -> tuple[bool, str]:
    return kind not in _INNER, kind


def _shares(games: list[Game], thing: str) -> dict[str, int]:
    """Of 1,000 things of a type in rooms that have the receptacle, how many lie in it; the commonest first."""
    placed: Counter[str] = Counter()
    possible: Counter[str] = Counter()
    for game in games:
        own = [place for kind, place in _placements(game) if kind == thing]
        placed.update(own)
        possible.update({place: len(own) for place in set(game.receptacle_types())})
    return {place: round(1000 * number / possible[place]) for place, number in placed.most_common()}


def _also(seconds: Counter[str]) -> dict[str, float]:
    """Share of things that lie in a second receptacle too, by its type."""
    shares = {kind: round(number / seconds.total(), 3) for kind, number in sorted(seconds.items()) if kind}
    return {kind: share for kind, share in shares.items() if share >= 0.02} if seconds.total() >= 20 else {}


def _goal_things(games: list[Game]) -> dict[str, Any]:
    """For each task type: how many things of the goal's type there are, and how the goal changes where they lie.

    ``lift`` is the number in a receptacle type divided by the number that all games of the room kind let expect.
    """
    by_kind: dict[str, list[Game]] = defaultdict(list)
    for game in games:
        by_kind[room_kind(game.layout)].append(game)
    shares = {
        (kind, thing): _shares(own, thing)
        for kind, own in by_kind.items()
        for thing in {g.goal.object_type for g in own}
    }
    numbers: dict[str, list[int]] = defaultdict(list)
    found: dict[str, Counter[str]] = defaultdict(Counter)
    expected: dict[str, Counter[str]] = defaultdict(Counter)
    for game in games:
        goal = game.goal
        own = [place for thing, place in _placements(game) if thing == goal.object_type]
        usual = shares[room_kind(game.layout), goal.object_type]
        # in a task without treatment, nothing of the goal's type lies in the target
        banned = goal.receptacle_type if goal.state is None else None
        weights = {place: usual.get(place, 0) for place in set(game.receptacle_types()) if place != banned}
        numbers[game.task_type].append(len(own))
        found[game.task_type].update(own)
        total = sum(weights.values())
        for place, weight in weights.items():
            expected[game.task_type][place] += len(own) * weight / total  # type: ignore[assignment]  # a Counter of shares
    return {
        task: {
            "counts": _counts(numbers[task]),
            "lift": {
                place: round(found[task][place] / number, 2)
                for place, number in sorted(expected[task].items())
                if number >= 5
            },
        }
        for task in sorted(numbers)
    }


def _goals(games: list[Game]) -> dict[str, list[list[Any]]]:
    """[object, receptacle or lamp, games] for each task type."""
    pairs: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for game in games:
        target = game.goal.receptacle_type or game.goal.light
        assert target is not None
        pairs[game.task_type][game.goal.object_type, target] += 1
    return {task: [[*pair, number] for pair, number in sorted(own.items())] for task, own in sorted(pairs.items())}


def _wordings(games: list[Game]) -> dict[str, list[str]]:
    """Each task type's texts, with the object and the target as blanks."""
    texts: dict[str, set[str]] = defaultdict(set)
    for game in games:
        target = game.goal.receptacle_type or game.goal.light
        words = [
            {game.goal.object_type: "{object}", target: "{target}"}.get(w, w)
            for w in game.goal_text.rstrip(".").split()
        ]
        texts[game.task_type].add(" ".join(words))
    return {task: sorted(own) for task, own in sorted(texts.items())}


def _counts(numbers: list[int]) -> dict[str, float]:
    return {str(n): round(c / len(numbers), 3) for n, c in sorted(Counter(numbers).items())}


def _share_of_shared(game: Game) -> float:
    """Share of receptacles that stand where another one stands."""
    return 1 - len({r.location for r in game.receptacles}) / len(game.receptacles)


def _render(tables: dict[str, Any]) -> str:
    """JSON with one line for each entry of a table."""

    def block(value: object, depth: int) -> str:
        if depth == 0 or not isinstance(value, dict):
            return json.dumps(value)
        inner = ",\n".join(f"{'  ' * (4 - depth)}{json.dumps(k)}: {block(v, depth - 1)}" for k, v in value.items())
        return f"{{\n{inner}\n{'  ' * (3 - depth)}}}"

    top = [f"{json.dumps(key)}: {block(value, _DEPTH.get(key, 1))}" for key, value in tables.items()]
    return "{\n" + ",\n".join(top) + "\n}\n"


if __name__ == "__main__":
    sys.stdout.write(_render(summarise(load_games(Path(sys.argv[1]), {"train": 4000}))))
