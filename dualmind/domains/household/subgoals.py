"""The subgoals of a household task: what there is to do next, and whether it has been done, from the belief alone."""

from typing import Literal

from dualmind.domains.household.belief import Belief
from dualmind.domains.household.game import TREATMENT_OF_STATE, Goal
from dualmind.domains.household.progress import features

Subgoal = Literal["find", "take", "clean", "heat", "cool", "light", "place"]
_LOOKS = frozenset({"go", "look", "inventory"})
_EXAMINES = frozenset({"open", "examine"})


def next_subgoal(goal: Goal, belief: Belief) -> Subgoal:
    """What there is to do next."""
    if belief.held is None or belief.held.split()[0] != goal.object_type:
        return "take" if _known(goal, belief) else "find"
    if goal.light is not None:
        return "light"
    if goal.state is not None and belief.states.get(belief.held) != goal.state:
        return _VERBS[TREATMENT_OF_STATE[goal.state].verb]
    return "place"


def reached(subgoal: Subgoal, goal: Goal, before: Belief, after: Belief) -> bool:
    """Has the subgoal been reached between two beliefs of one game?"""
    if subgoal == "find":
        return _known(goal, after) and not _known(goal, before)
    gain = features(goal, after) - features(goal, before)
    fetched, treated, placed, lit = gain[:4]
    if subgoal in _VERBS:
        return bool(treated > 0)
    return bool({"take": fetched, "place": placed, "light": lit}[subgoal] > 0)


def role(command: str) -> Literal["look", "examine", "act"]:
    """What kind of command it is, in words that hold for every domain."""
    verb = command.split(maxsplit=1)[0]
    if verb in _LOOKS:
        return "look"
    return "examine" if verb in _EXAMINES else "act"


_VERBS: dict[str, Subgoal] = {"clean": "clean", "heat": "heat", "cool": "cool"}


def _known(goal: Goal, belief: Belief) -> bool:
    """Is it known where a goal object lies that still has to be fetched? What is done already does not count."""

    def done(place: str, thing: str) -> bool:
        there = goal.receptacle_type is not None and place.split(maxsplit=1)[0] == goal.receptacle_type
        return there and (goal.state is None or belief.states.get(thing) == goal.state)

    return any(
        thing.split()[0] == goal.object_type and not done(place, thing)
        for place, things in belief.contents.items()
        for thing in things
    )
