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
from dualmind.domains.household.sources import load_games

_ROOM_KINDS = ((100, "kitchen"), (300, "living_room"), (400, "bedroom"), (500, "bathroom"))  # AI2-THOR's numbering
_RARE = 0.005  # things in fewer of a room kind's games are left out


def room_kind(layout: str) -> str:
    """Kind of room by AI2-THOR's number: kitchens from 1, living rooms from 201, bedrooms from 301, bathrooms 401."""
    return next(kind for limit, kind in _ROOM_KINDS if int(layout) < limit)


def summarise(games: Iterable[Game]) -> dict[str, Any]:
    """Tables over games: rooms by kind, goals by room kind and task type, flags of things, what fits where."""
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
        "wordings": _wordings(everything),
        "flags": dict(sorted(flags.items())),
        "fits": {place: sorted(things & flags.keys()) for place, things in sorted(fits.items())},
    }


def _room(games: list[Game]) -> dict[str, Any]:
    """Receptacles by layout, things by game."""
    layouts = {game.layout: game for game in games}.values()
    openable = {r.type: r.openable for game in layouts for r in game.receptacles}
    shared = [_share_of_shared(game) for game in layouts]
    return {
        "receptacles": {
            kind: {"openable": openable[kind], "counts": _counts([g.receptacle_types().count(kind) for g in layouts])}
            for kind in sorted(openable)
        },
        "shared_location": round(sum(shared) / len(shared), 3),
        "things": _things(games),
    }


def _things(games: list[Game]) -> dict[str, Any]:
    """For each type: how many a game has, and in what they lie."""
    numbers: dict[str, Counter[int]] = defaultdict(Counter)
    places: dict[str, Counter[str]] = defaultdict(Counter)
    for game in games:
        placed = game.placements()
        for thing, number in Counter(thing for thing, _ in placed).items():
            numbers[thing][number] += 1
        for thing, place in placed:
            places[thing][place] += 1
    return {
        thing: {
            "counts": {str(n): round(c / len(games), 3) for n, c in sorted(own.items()) if c / len(games) >= _RARE / 2},
            "places": {place: c for place, c in places[thing].most_common() if c >= 0.01 * places[thing].total()},
        }
        for thing, own in sorted(numbers.items())
        if own.total() / len(games) >= _RARE
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

    def block(value: Any, depth: int) -> str:
        if depth == 0 or not isinstance(value, dict):
            return json.dumps(value)
        inner = ",\n".join(f"{'  ' * (4 - depth)}{json.dumps(k)}: {block(v, depth - 1)}" for k, v in value.items())
        return f"{{\n{inner}\n{'  ' * (3 - depth)}}}"

    top = [
        f"{json.dumps(key)}: {block(value, 3 if key == 'rooms' else 2 if key == 'goals' else 1)}"
        for key, value in tables.items()
    ]
    return "{\n" + ",\n".join(top) + "\n}\n"


if __name__ == "__main__":
    sys.stdout.write(_render(summarise(load_games(Path(sys.argv[1]), {"train": 4000}))))
