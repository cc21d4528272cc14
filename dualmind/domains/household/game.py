"""A household game: what stands where at the start, and the goal. Pure data; ``engine.py`` plays it."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from dualmind.domains.base import SPLITS, Split
from dualmind.errors import GameError

TaskType = Literal[
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
]
TASK_TYPES: tuple[TaskType, ...] = get_args(TaskType)
State = Literal["clean", "hot", "cool"]
Flag = Literal[
    "pickupable", "cleanable", "heatable", "coolable", "toggleable", "sliceable", "isreceptacleobject", "iscool"
]
FLAGS: tuple[Flag, ...] = get_args(Flag)


@dataclass(frozen=True, slots=True)
class Treatment:
    """One of the three ways to treat an object, in all the words that it goes by."""

    state: State  # what the object is afterwards
    verb: str  # of the command
    appliance: str  # receptacle type at which it is done
    flag: Flag  # what an object needs to be treated so
    task_type: TaskType
    fact: str  # PDDL predicate of the state


TREATMENTS = (
    Treatment("clean", "clean", "sinkbasin", "cleanable", "pick_clean_then_place_in_recep", "isClean"),
    Treatment("hot", "heat", "microwave", "heatable", "pick_heat_then_place_in_recep", "isHot"),
    Treatment("cool", "cool", "fridge", "coolable", "pick_cool_then_place_in_recep", "isCool"),
)
TREATMENT_OF_STATE: dict[State, Treatment] = {treatment.state: treatment for treatment in TREATMENTS}
TREATMENT_OF_VERB = {treatment.verb: treatment for treatment in TREATMENTS}


@dataclass(frozen=True, slots=True)
class Goal:
    """What must hold at the end, with types as they stand in the text ("fork", "drawer")."""

    task_type: TaskType
    object_type: str
    receptacle_type: str | None  # None for look_at_obj_in_light
    state: State | None  # the treatment that the object needs
    count: int  # 1 or 2 objects, in one receptacle
    light: str | None  # the lamp's type, for look_at_obj_in_light


@dataclass(frozen=True, slots=True)
class Receptacle:
    """A place that things can be in or on."""

    id: str  # lower-case PDDL id; its sorted position gives the number in the text
    type: str
    location: str  # several receptacles may share one
    openable: bool


@dataclass(frozen=True, slots=True)
class Thing:
    """An object."""

    id: str
    type: str  # "" where a game states none, as for a cracked egg: it fits in no receptacle and fulfils no goal
    location: str | None
    inside: tuple[str, ...]  # ids of the receptacles that hold it; ALFWorld has objects in several at once
    within: tuple[str, ...] | None  # ids of the objects that it lies in, such as bowls; None where it lies in none
    flags: tuple[Flag, ...]  # in the order of FLAGS


@dataclass(frozen=True, slots=True)
class Game:
    """One game, ready to be played.

    Attributes:
        id: unique name ("trial_T2019...").
        split: which split it belongs to.
        layout: the room's id; games of one layout share their receptacles.
        goal_text: the task in words, with its final dot.
        goal: the same, as data.
        agent_location: where the agent starts; no receptacle is there.
        receptacles: sorted by id.
        things: sorted by id.
        can_contain: sorted (receptacle type, sorted object types) pairs.
    """

    id: str
    split: Split
    layout: str
    goal_text: str
    goal: Goal
    agent_location: str
    receptacles: tuple[Receptacle, ...]
    things: tuple[Thing, ...]
    can_contain: tuple[tuple[str, tuple[str, ...]], ...]

    def __post_init__(self) -> None:
        """Check what the engine relies on.

        Raises:
            GameError: a split, place or type is unknown, an id occurs twice, or the goal names what is not there.
        """
        if self.split not in SPLITS:
            raise GameError(f"game {self.id}: split {self.split!r} is not one of {', '.join(SPLITS)}")
        _check_references(self)
        _check_goal(self)

    @property
    def task_type(self) -> TaskType:
        """One of the six task types."""
        return self.goal.task_type

    def receptacle_types(self) -> list[str]:
        """Type of each receptacle, in the order of their ids."""
        return [receptacle.type for receptacle in self.receptacles]

    def placements(self) -> list[tuple[str, str]]:
        """(object type, receptacle type) of each thing in a receptacle at the start, by id."""
        kind = {receptacle.id: receptacle.type for receptacle in self.receptacles}
        return [(thing.type, kind[thing.inside[0]]) for thing in self.things if thing.inside]

    def names(self) -> dict[str, str]:
        """Names in the text by id: types numbered as ALFWorld does, the first sorted id with the highest number."""
        ids = sorted([r.id for r in self.receptacles] + [t.id for t in self.things])
        left = Counter(map(_name_stem, ids))
        names = {}
        for entity in ids:
            stem = _name_stem(entity)
            names[entity] = f"{stem} {left[stem]}"
            left[stem] -= 1
        return names

    def content_key(self) -> str:
        """Digest of goal and start state, without name and split: equal for games that are the same to a player."""
        content = {k: v for k, v in asdict(self).items() if k not in {"id", "split", "layout", "goal_text"}}
        return hashlib.md5(json.dumps(content, sort_keys=True).encode(), usedforsecurity=False).hexdigest()

    def to_json(self) -> str:
        """Compact JSON, the same for equal games."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Game":
        """Read what :meth:`to_json` wrote.

        Raises:
            GameError: the text is not such JSON.
        """
        try:
            data: dict[str, Any] = json.loads(text)
            data["goal"] = Goal(**data["goal"])
            data["receptacles"] = tuple(Receptacle(**r) for r in data["receptacles"])
            data["things"] = tuple(map(_thing, data["things"]))
            data["can_contain"] = tuple((kind, tuple(types)) for kind, types in data["can_contain"])
            return cls(**data)
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            message = f"{text[:80]!r} is not a game ({error}); run `dvc repro prepare@household` again"
            raise GameError(message) from error


def _thing(data: dict[str, Any]) -> Thing:
    within = None if data["within"] is None else tuple(data["within"])
    return Thing(**{**data, "inside": tuple(data["inside"]), "within": within, "flags": tuple(data["flags"])})


def _name_stem(entity: str) -> str:
    """Word of an id in the text; sinks' and bathtubs' basins carry the part in the rest of their id."""
    stem = entity.split("_bar_", 1)[0]
    return f"{stem}basin" if "basin" in entity and not stem.endswith("basin") else stem


def _check_references(game: Game) -> None:
    ids = [r.id for r in game.receptacles] + [t.id for t in game.things]
    if duplicates := [name for name, number in Counter(ids).items() if number > 1]:
        raise GameError(f"game {game.id}: id {duplicates[0]!r} occurs twice; every entity needs an id of its own")
    if not game.receptacles:
        raise GameError(f"game {game.id} has no receptacle; there is nothing to go to")
    places, things = {r.id for r in game.receptacles}, {t.id for t in game.things}
    for thing in game.things:
        if unknown := sorted(set(thing.inside) - places):
            raise GameError(f"game {game.id}: {thing.id} is in {unknown[0]!r}, which is no receptacle of the game")
        if unknown := sorted(set(thing.within or ()) - things):
            raise GameError(f"game {game.id}: {thing.id} lies in {unknown[0]!r}, which is no object of the game")
    if any(r.location == game.agent_location for r in game.receptacles):
        raise GameError(f"game {game.id}: the agent starts at {game.agent_location!r}, where a receptacle stands")


def _check_goal(game: Game) -> None:
    goal = game.goal
    if goal.task_type not in TASK_TYPES:
        raise GameError(f"game {game.id}: task type {goal.task_type!r} is not one of {', '.join(TASK_TYPES)}")
    _check_known(game, "object", goal.object_type, (t.type for t in game.things))
    if goal.light is not None:
        _check_known(game, "lamp", goal.light, (t.type for t in game.things if "toggleable" in t.flags))
    if goal.receptacle_type is not None:
        _check_known(game, "receptacle", goal.receptacle_type, game.receptacle_types())
    if (goal.receptacle_type is None) == (goal.light is None):
        raise GameError(f"game {game.id}: the goal needs either a receptacle or a lamp, found {goal}")


def _check_known(game: Game, what: str, name: str, known: Iterable[str]) -> None:
    kinds = sorted(set(known))
    if name not in kinds:
        raise GameError(f"game {game.id}: the goal names the {what} {name!r}, but the game has only {', '.join(kinds)}")
