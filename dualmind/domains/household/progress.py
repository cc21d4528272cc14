"""What has been reached in a household game, in numbers that a person can read: the features of a dense reward."""

import numpy as np
from numpy.typing import NDArray

from dualmind.domains.household.belief import NEW, Belief
from dualmind.domains.household.game import Goal

FEATURES = ("fetched", "treated", "placed", "lit", "places_seen", "repeats", "commands")


def features(goal: Goal, belief: Belief) -> NDArray[np.float64]:
    """Progress as far as the agent has seen it (7,), in the order of FEATURES.

    ``fetched``: goal objects in hand or put where they belong. ``treated``: of those, the ones in the wanted state; all
    where none is wanted. ``placed``: those put where they belong. ``lit``: commands that used the wanted lamp.
    ``places_seen``: receptacles that were visited. ``repeats``: commands that had been given before. ``commands``: all.
    """
    placed = [
        thing
        for place, things in belief.contents.items()
        if goal.receptacle_type is not None and _kind(place) == goal.receptacle_type
        for thing in things
        if _kind(thing) == goal.object_type and _moved(thing, belief)
    ]
    fetched = [*placed, belief.held] if belief.held and _kind(belief.held) == goal.object_type else placed
    treated = [thing for thing in fetched if goal.state is None or belief.states.get(thing) == goal.state]
    used = goal.light is not None and any(command.startswith(f"use {goal.light} ") for command in belief.tried)
    seen = sum(status != NEW for status in belief.receptacles.values())
    repeats = len(belief.tried) - len(set(belief.tried))
    return np.array([len(fetched), len(treated), len(placed), used, seen, repeats, len(belief.tried)], dtype=np.float64)


def _moved(thing: str, belief: Belief) -> bool:
    """Did the agent put it there? What lay there from the start is nobody's success."""
    return any(command.startswith(f"move {thing} ") for command in belief.tried)


def _kind(thing: str) -> str:
    return thing.split(maxsplit=1)[0]
