"""Draws household games that look like ALFWorld's, so that the product works without any download.

Rooms, things, places and goals are drawn from tables that summarise ALFWorld's training games (rooms.json, made by
``summarise.py``; MIT licence). A layout is a fixed set of receptacles; games of the unseen split have layouts of their
own. Every game is proven solvable: a plan with full knowledge is played in the engine, and it must win. What no command
can reach (windows, chairs, things on the floor) is left out.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any, cast

import numpy as np

from dualmind.domains.base import SPLITS, Split
from dualmind.domains.drawing import check_numbers
from dualmind.domains.household.engine import HouseholdEngine
from dualmind.domains.household.game import (
    FLAGS,
    TASK_TYPES,
    TREATMENT_OF_STATE,
    TREATMENTS,
    Flag,
    Game,
    Goal,
    Receptacle,
    TaskType,
    Thing,
)
from dualmind.errors import GameError

# first layout number of each kind of room, and how many layouts; the last ones are kept for valid_unseen (AI2-THOR: 30)
FIRST_LAYOUT = {"kitchen": 1, "living_room": 201, "bedroom": 301, "bathroom": 401}
_NUM_LAYOUTS, _NUM_UNSEEN = 30, 4
_MAX_DRAWS = 200  # tries for one game; where a room cannot hold the goal, another is drawn
_STATE_OF_TASK = {treatment.task_type: treatment.state for treatment in TREATMENTS}


def generate_games(num_games: Mapping[Split, int], seed: int) -> list[Game]:
    """Draw games; the same arguments give the same games.

    Task types take turns, so that every split has all of them.

    Args:
        num_games: games of each split, >= 0.
        seed: of everything, >= 0.

    Returns:
        Games in the order of SPLITS.

    Raises:
        GameError: a number or the seed is negative, there is nothing to draw, or no solvable game can be drawn.
    """
    check_numbers(num_games, seed, "household", "num_games", GameError)
    games: list[Game] = []
    contents: set[str] = set()
    for split in SPLITS:
        for index in range(num_games.get(split, 0)):
            rng = np.random.default_rng([seed, SPLITS.index(split), index])
            task = TASK_TYPES[index % len(TASK_TYPES)]
            games.append(_draw_until_new(rng, split, task, f"{split}_{index:05d}", seed=seed, contents=contents))
    return games


def _draw_until_new(
    rng: np.random.Generator, split: Split, task: TaskType, name: str, *, seed: int, contents: set[str]
) -> Game:
    for _ in range(_MAX_DRAWS):
        game = _draw(rng, split, task, name, seed)
        if game is not None and (key := game.content_key()) not in contents and _is_solvable(game):
            contents.add(key)
            return game
    raise GameError(f"{name}: no solvable {task} game in {_MAX_DRAWS} draws from household.seed = {seed}; try another")


@lru_cache(maxsize=1)
def _tables() -> dict[str, Any]:
    text = resources.files("dualmind.domains.household").joinpath("rooms.json").read_text(encoding="utf-8")
    tables: dict[str, Any] = json.loads(text)
    return tables


def _draw(rng: np.random.Generator, split: Split, task: TaskType, name: str, seed: int) -> Game | None:
    """One game, or None where the room cannot hold the goal."""
    goals = _tables()["goals"]
    kinds = [kind for kind in FIRST_LAYOUT if task in goals[kind]]
    kind = kinds[_pick(rng, [sum(row[2] for row in goals[k][task]) for k in kinds])]
    layout = FIRST_LAYOUT[kind] + _layout_offset(rng, split)
    receptacles = _receptacles(kind, layout, seed)
    places = {r.type for r in receptacles}
    rows = [row for row in goals[kind][task] if task == "look_at_obj_in_light" or row[1] in places]
    if not rows:
        return None
    thing, target, _ = rows[_pick(rng, [row[2] for row in rows])]
    goal = _goal(task, thing, target)
    things = _things(rng, kind, receptacles, goal)
    if things is None:
        return None
    wordings = _tables()["wordings"][task]
    text = wordings[int(rng.integers(len(wordings)))].format(object=thing, target=target)
    fits, known = _tables()["fits"], {t.type for t in things}
    return Game(
        id=f"generated_{seed}_{name}",
        split=split,
        layout=str(layout),
        goal_text=f"{text}.",
        goal=goal,
        agent_location="loc_bar_0_bar_0_bar_0_bar_30",
        receptacles=receptacles,
        things=things,
        can_contain=tuple(
            (place, own) for place in sorted(places) if (own := tuple(t for t in fits.get(place, ()) if t in known))
        ),
    )


def _layout_offset(rng: np.random.Generator, split: Split) -> int:
    seen = _NUM_LAYOUTS - _NUM_UNSEEN
    return seen + int(rng.integers(_NUM_UNSEEN)) if split == "valid_unseen" else int(rng.integers(seen))


def _goal(task: TaskType, thing: str, target: str) -> Goal:
    if task == "look_at_obj_in_light":
        return Goal(task, thing, None, None, 1, target)
    return Goal(task, thing, target, _STATE_OF_TASK.get(task), 2 if task == "pick_two_obj_and_place" else 1, None)


@lru_cache(maxsize=256)
def _receptacles(kind: str, layout: int, seed: int) -> tuple[Receptacle, ...]:
    """The room of a layout: the same for all its games."""
    rng = np.random.default_rng([seed, 1_000_003, layout])
    room = _tables()["rooms"][kind]
    drawn: list[Receptacle] = []
    for place, row in room["receptacles"].items():
        for _ in range(_draw_number(rng, row["counts"])):
            alone = not drawn or rng.random() >= room["shared_location"]
            location = f"loc_bar_{len(drawn) + 1}_bar_{layout}_bar_1_bar_45" if alone else drawn[-1].location
            drawn.append(Receptacle(_identifier(rng, place), place, location, bool(rng.random() < row["openable"])))
    return tuple(sorted(drawn, key=lambda r: r.id))


def _things(
    rng: np.random.Generator, kind: str, receptacles: tuple[Receptacle, ...], goal: Goal
) -> tuple[Thing, ...] | None:
    """What lies in the room, enough for the goal and not yet fulfilling it; None where that cannot be."""
    of_goal = _tables()["goal_things"][goal.task_type]
    things: list[Thing] = []
    for thing, row in _tables()["rooms"][kind]["things"].items():
        counts, weights = row["counts"], row["places"]
        if thing == goal.object_type:
            counts = of_goal["counts"]
            weights = {place: weight * of_goal["lift"].get(place, 1) for place, weight in weights.items()}
            if goal.state is None:
                weights.pop(goal.receptacle_type, None)  # only a treatment lets a thing lie in its target at the start
        number = max(_draw_number(rng, counts), int(thing == goal.light))
        for _ in range(number):
            inside = _draw_places(rng, weights, row["also_in"], receptacles)
            if inside:
                things.append(_thing(rng, thing, inside, thing == goal.object_type))
    have = [t.type for t in things]
    enough = have.count(goal.object_type) >= goal.count and (goal.light is None or goal.light in have)
    return tuple(sorted(things, key=lambda t: t.id)) if enough else None


def _thing(rng: np.random.Generator, kind: str, inside: list[Receptacle], of_goal: bool) -> Thing:
    flags = set(cast("list[Flag]", _tables()["flags"][kind]))
    if of_goal and "coolable" in flags and inside[0].type == "fridge":
        flags.add("iscool")  # ALFWorld marks what the task is about, and only that
    ids = tuple(sorted(place.id for place in inside))
    return Thing(_identifier(rng, kind), kind, inside[0].location, ids, None, tuple(f for f in FLAGS if f in flags))


def _draw_places(
    rng: np.random.Generator,
    weights: dict[str, float],
    also_in: dict[str, dict[str, float]],
    receptacles: tuple[Receptacle, ...],
) -> list[Receptacle]:
    """Where a thing lies: first the kind of receptacle by the table, then one of that kind; none where none is fit.

    What stands on another receptacle shares its contents: a mug in a coffee machine is on the countertop too.
    """
    kinds = sorted({r.type for r in receptacles if weights.get(r.type, 0) > 0})
    if not kinds:
        return []
    kind = kinds[_pick(rng, [weights[k] for k in kinds])]
    own = [r for r in receptacles if r.type == kind]
    index = int(rng.integers(len(own)))
    chance = rng.random()
    for second, share in also_in.get(kind, {}).items():
        others = [r for r in receptacles if r.type == second and r is not own[index]]
        if chance < share and others:
            return [own[index], others[index % len(others)]]  # the same in every game of the layout
        chance -= share
    return [own[index]]


def _draw_number(rng: np.random.Generator, counts: dict[str, float]) -> int:
    """A number by its table of shares; what the shares lack to 1 is the share of 0."""
    numbers = [*map(int, counts), 0]
    shares = [*counts.values(), max(0.0, 1 - sum(counts.values()))]
    return numbers[_pick(rng, shares)]


def _pick(rng: np.random.Generator, weights: list[float] | list[int]) -> int:
    """An index drawn by weight."""
    cumulative = np.cumsum(weights)
    return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))


def _identifier(rng: np.random.Generator, kind: str) -> str:
    """An id in AI2-THOR's shape: the type and a position. Basins are parts of a sink or a bathtub."""
    signs = np.where(rng.random(3) < 0.5, "minus", "plus")
    position = "".join(
        f"_bar__{sign}_{whole:02d}_dot_{part:02d}"
        for sign, whole, part in zip(signs, rng.integers(0, 5, 3), rng.integers(0, 100, 3), strict=True)
    )
    stem = kind.removesuffix("basin")
    return f"{stem}{position}" if stem == kind else f"{stem}{position}_bar_{kind}"


def _is_solvable(game: Game) -> bool:
    """Play a plan with full knowledge: does it win, and was the game not won from the start?"""
    engine = HouseholdEngine(game)
    engine.reset()
    if engine.step("look")[2]:
        return False
    name, goal = game.names(), game.goal
    inside = {t.id: t.inside[0] for t in game.things}
    openable = {r.id for r in game.receptacles if r.openable}

    def reach(place: str) -> list[str]:
        return [f"go to {name[place]}", *([f"open {name[place]}"] if place in openable else [])]

    if goal.light is not None:
        own = next(t.id for t in game.things if t.type == goal.object_type)
        lamp = next(t.id for t in game.things if t.type == goal.light)
        plan = [*reach(inside[own]), f"take {name[own]} from {name[inside[own]]}"]
        plan += [*reach(inside[lamp]), f"use {name[lamp]}"]
        return any(engine.step(command)[2] for command in plan)
    target = next(r.id for r in game.receptacles if r.type == goal.receptacle_type)
    plan = []
    for own in [t.id for t in game.things if t.type == goal.object_type][: goal.count]:
        plan += [*reach(inside[own]), f"take {name[own]} from {name[inside[own]]}"]
        if goal.state is not None:
            treatment = TREATMENT_OF_STATE[goal.state]
            at = next((r.id for r in game.receptacles if r.type == treatment.appliance), None)
            if at is None:
                return False
            plan += [f"go to {name[at]}", f"{treatment.verb} {name[own]} with {name[at]}"]
        plan += [*reach(target), f"move {name[own]} to {name[target]}"]
    return any(engine.step(command)[2] for command in plan)
