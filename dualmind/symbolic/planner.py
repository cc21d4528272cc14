"""A planner for households that knows only what an agent has seen: its belief, and the goal in words."""

import re
from collections.abc import Sequence

from dualmind.domains.household.belief import Belief
from dualmind.domains.household.expert import Choice, LocationPrior, Searcher
from dualmind.domains.household.game import TREATMENT_OF_STATE, TREATMENT_OF_VERB, Goal, State
from dualmind.errors import SymbolicError

# all wordings of ALFWorld (Shridhar et al. 2021), two for each of its six task types; it writes "in" or "on", whatever
# the receptacle
_PLACE = r"(?:in|on|in / on) (?P<place>[a-z]+)"
_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"put (?P<number>two) (?P<thing>[a-z]+) {_PLACE}",
        rf"find (?P<number>two) (?P<thing>[a-z]+) and put them {_PLACE}",
        rf"put an? (?P<state>clean|hot|cool) (?P<thing>[a-z]+) {_PLACE}",
        rf"(?P<verb>clean|heat|cool) some (?P<thing>[a-z]+) and put it {_PLACE}",
        rf"put (?:an?|some) (?P<thing>[a-z]+) {_PLACE}",
        r"(?:look at|examine) (?:an? |the |some )?(?P<thing>[a-z]+) (?:under|with) the (?P<light>[a-z]+)",
    )
)


def parse_goal(text: str) -> Goal:
    """The goal that a game's words state.

    Args:
        text: the task, as a game words it or as a belief keeps it ("clean some fork and put it in drawer .").

    Raises:
        SymbolicError: it is in none of ALFWorld's wordings.
    """
    words = " ".join(text.lower().replace("/", " / ").removesuffix(".").split())
    for form in _FORMS:
        if match := form.fullmatch(words):
            return _goal(match.groupdict())
    raise SymbolicError(
        f"goal {text[:120]!r} is in none of the wordings of ALFWorld's six task types; "
        "word it such as 'clean some fork and put it in drawer'"
    )


class Planner:
    """Says what to do next, from a belief alone: it has no reference to the game, so it cannot use what is hidden."""

    def __init__(self, prior: LocationPrior) -> None:
        """``prior`` is where things tend to be, as learnt from training games."""
        self._prior = prior

    def choose(self, belief: Belief, admissible: Sequence[str]) -> Choice:
        """The next command, one of ``admissible``, and the plan behind it in words ("search mug").

        Raises:
            SymbolicError: the belief's goal is in none of ALFWorld's wordings.
        """
        return Searcher(parse_goal(belief.goal), self._prior).choose(belief, admissible)


def _goal(found: dict[str, str | None]) -> Goal:
    thing, place, light, verb = str(found["thing"]), found.get("place"), found.get("light"), found.get("verb")
    if light is not None:
        return Goal("look_at_obj_in_light", thing, None, None, 1, light)
    if found.get("number"):
        return Goal("pick_two_obj_and_place", thing, place, None, 2, None)
    state = TREATMENT_OF_VERB[verb].state if verb else _state(found.get("state"))
    task = TREATMENT_OF_STATE[state].task_type if state else "pick_and_place_simple"
    return Goal(task, thing, place, state, 1, None)


def _state(word: str | None) -> State | None:
    return next((state for state in TREATMENT_OF_STATE if state == word), None)
