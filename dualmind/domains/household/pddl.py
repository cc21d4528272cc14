"""ALFWorld's PDDL problems: read into a :class:`Game`, and written from one for the stock engine."""

import re
from collections.abc import Iterator
from typing import Any

from dualmind.domains.base import Split
from dualmind.domains.household.game import FLAGS, TREATMENT_OF_STATE, TREATMENTS, Game, Goal, Receptacle, Thing
from dualmind.errors import GameError

_TOKEN = re.compile(r"[()]|[^\s()]+")
_TREATMENT_OF_FACT = {treatment.fact.lower(): treatment for treatment in TREATMENTS}

_Tree = list[Any]  # nested lists of strings


def parse_problem(text: str, *, name: str, split: Split, layout: str, goal_text: str) -> Game:
    """Read a PDDL problem of the ``alfred`` domain.

    Args:
        text: the problem.
        name: the game's id, also named in errors.
        split: the split it belongs to.
        layout: the room's id.
        goal_text: the task in words.

    Raises:
        GameError: the text is not balanced, lacks a section, or holds a goal or fact that ALFWorld does not know.
    """
    sections = _sections(text.lower(), name)
    facts = _facts(sections["init"], name)
    location = _pairs(facts["receptacleatlocation"])
    types = _pairs(facts["receptacletype"])
    openable = {r for (r,) in facts["openable"]}
    if opened := facts["opened"]:
        raise GameError(f"game {name}: {opened[0][0]} is open at the start, which no official game has")
    return Game(
        id=name,
        split=split,
        layout=layout,
        goal_text=goal_text,
        goal=_goal(sections["goal"], name),
        agent_location=_only(facts["atlocation"], "atLocation", name)[1],
        receptacles=tuple(
            Receptacle(r, _type(types, r, name), place, r in openable) for r, place in sorted(location.items())
        ),
        things=_things(facts, set(location)),
        can_contain=_can_contain(facts["cancontain"]),
    )


def to_pddl(game: Game) -> str:
    """Write a game as a PDDL problem that the stock engine plays."""
    objects = [("agent1", "agent")]
    objects += [(r.id, "receptacle") for r in game.receptacles] + [(t.id, "object") for t in game.things]
    places = {game.agent_location, *(r.location for r in game.receptacles)}
    places |= {t.location for t in game.things if t.location is not None}
    objects += [(place, "location") for place in sorted(places)]
    object_types = {t.type for t in game.things if t.type} | {kind for _, kinds in game.can_contain for kind in kinds}
    # a treatment's effect or a knife is typed by the domain itself, so these constants must always exist
    object_types |= {"knife", "butterknife", game.goal.object_type}
    receptacle_types = set(game.receptacle_types()) | {treatment.appliance for treatment in TREATMENTS}
    objects += [(f"{kind}type", "otype") for kind in sorted(object_types)]
    objects += [(f"{kind}type", "rtype") for kind in sorted(receptacle_types)]
    declared = "\n".join(f"{entity} - {kind}" for entity, kind in objects)
    facts = "\n".join(f"({fact})" for fact in _init_facts(game))
    return (
        f"(define (problem plan_{game.id})\n(:domain alfred)\n(:objects\n{declared}\n)\n"
        f"(:init\n{facts}\n)\n(:goal\n{_goal_pddl(game.goal)}\n)\n)\n"
    )


def _init_facts(game: Game) -> Iterator[str]:
    yield f"atLocation agent1 {game.agent_location}"
    for r in game.receptacles:
        yield f"receptacleType {r.id} {r.type}type"
        yield f"receptacleAtLocation {r.id} {r.location}"
        if r.openable:
            yield f"openable {r.id}"
    for t in game.things:
        if t.type:
            yield f"objectType {t.id} {t.type}type"
        if t.location is not None:
            yield f"objectAtLocation {t.id} {t.location}"
        yield from (f"inReceptacle {t.id} {place}" for place in t.inside)
        yield from (f"inReceptacleObject {t.id} {outer}" for outer in t.within or ())
        yield from (f"{flag} {t.id}" for flag in t.flags)
    for kind, contained in game.can_contain:
        yield from (f"canContain {kind}type {thing}type" for thing in contained)


def _goal_pddl(goal: Goal) -> str:
    if goal.light is not None:
        return (
            "(and (exists (?ot - object ?r - receptacle ?a - agent ?l - location)"
            f" (and (objectType ?ot {goal.light}type) (toggleable ?ot) (isToggled ?ot)"
            " (receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?ot ?r)))"
            f" (exists (?o - object ?a - agent) (and (objectType ?o {goal.object_type}type) (holds ?a ?o))))"
        )
    place = f"(receptacleType ?r {goal.receptacle_type}type)"
    first = f"(objectType ?o1 {goal.object_type}type) {place} (inReceptacle ?o1 ?r)"
    if goal.count == 2:
        second = f"(not (= ?o1 ?o2)) (objectType ?o2 {goal.object_type}type) {place} (inReceptacle ?o2 ?r)"
        first += f" (exists (?o2 - object) (and {second}))"
    if goal.state is not None:
        treatment = TREATMENT_OF_STATE[goal.state]
        first = f"({treatment.flag} ?o1) ({treatment.fact} ?o1) {first}"
    return f"(and (exists (?r - receptacle) (exists (?o1 - object) (and {first}))))"


def _sections(text: str, name: str) -> dict[str, _Tree]:
    """The problem's sections by name, as nested lists."""
    tree = _parse(text, name)
    parts = [part for part in tree if isinstance(part, list) and part and str(part[0]).startswith(":")]
    sections = {part[0][1:]: part[1:] for part in parts}
    for wanted in ("init", "goal"):
        if not sections.get(wanted):
            raise GameError(f"game {name}: the PDDL problem has no (:{wanted} ...) section; fetch the game file again")
    return sections


def _parse(text: str, name: str) -> _Tree:
    stack: list[_Tree] = [[]]
    for token in _TOKEN.findall(text):
        if token == "(":  # noqa: S105 - a bracket, not a secret
            stack.append([])
        elif token != ")":  # noqa: S105
            stack[-1].append(token)
        elif len(stack) > 1:
            done = stack.pop()
            stack[-1].append(done)
        else:
            raise GameError(f"game {name}: the PDDL problem closes a bracket too many; fetch the game file again")
    if len(stack) > 1:
        depth = len(stack) - 1
        raise GameError(f"game {name}: the PDDL problem ends inside {depth} open brackets; fetch the game file again")
    if len(stack[0]) != 1 or not isinstance(stack[0][0], list):
        raise GameError(f"game {name}: the text is not one PDDL problem, (define (problem ...) ...)")
    return stack[0][0]


_ARITY: dict[str, int] = {
    "receptacletype": 2, "receptacleatlocation": 2, "objecttype": 2, "objectatlocation": 2, "inreceptacle": 2,
    "inreceptacleobject": 2, "cancontain": 2, "atlocation": 2, "openable": 1, "opened": 1, **dict.fromkeys(FLAGS, 1),
}  # fmt: skip


def _facts(section: _Tree, name: str) -> dict[str, list[tuple[str, ...]]]:
    """Start facts by predicate, without repeats, in their order."""
    facts: dict[str, dict[tuple[str, ...], None]] = {predicate: {} for predicate in _ARITY}
    for fact in section:
        if not isinstance(fact, list) or not fact:
            raise GameError(f"game {name}: {fact!r} in (:init ...) is not a fact")
        predicate, *arguments = fact
        if predicate == "=":  # costs of distances: never shown, never needed
            continue
        if _ARITY.get(predicate) != len(arguments) or not all(isinstance(a, str) for a in arguments):
            words = " ".join(map(str, fact))
            raise GameError(f"game {name}: the start fact ({words}) is not one that ALFWorld's games have")
        facts[predicate][tuple(arguments)] = None
    return {predicate: list(rows) for predicate, rows in facts.items()}


def _things(facts: dict[str, list[tuple[str, ...]]], places: set[str]) -> tuple[Thing, ...]:
    location = _pairs(facts["objectatlocation"])
    types = _pairs(facts["objecttype"])
    inside: dict[str, list[str]] = {}
    within: dict[str, list[str]] = {}
    for thing, place in facts["inreceptacle"]:
        if place in places:
            inside.setdefault(thing, []).append(place)
    for thing, outer in facts["inreceptacleobject"]:
        within.setdefault(thing, []).append(outer)
    flagged = {flag: {thing for (thing,) in facts[flag]} for flag in FLAGS}
    # a thing without a type counts too: the numbers in the names go by all things of the start facts
    named: set[str] = set().union(types, location, inside, within, *flagged.values())
    return tuple(
        Thing(
            id=thing,
            type=types.get(thing, "").removesuffix("type"),
            location=location.get(thing),
            inside=tuple(sorted(inside.get(thing, ()))),
            within=tuple(sorted(within[thing])) if thing in within else None,
            flags=tuple(flag for flag in FLAGS if thing in flagged[flag]),
        )
        for thing in sorted(named)
    )


def _pairs(rows: list[tuple[str, ...]]) -> dict[str, str]:
    """Facts of two arguments as a mapping; the last one counts where the first argument repeats."""
    return {first: second for first, second in rows}  # noqa: C416  # rows are tuples of any length to a type checker


def _can_contain(pairs: list[tuple[str, ...]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    contained: dict[str, set[str]] = {}
    for place, thing in pairs:
        contained.setdefault(place.removesuffix("type"), set()).add(thing.removesuffix("type"))
    return tuple((place, tuple(sorted(things))) for place, things in sorted(contained.items()))


def _type(types: dict[str, str], receptacle: str, name: str) -> str:
    if receptacle not in types:
        raise GameError(f"game {name}: {receptacle} has a location but no receptacleType")
    return types[receptacle].removesuffix("type")


def _only(rows: list[tuple[str, ...]], predicate: str, name: str) -> tuple[str, ...]:
    if len(rows) != 1:
        raise GameError(f"game {name}: expected one {predicate} fact, found {len(rows)}")
    return rows[0]


def _goal(section: _Tree, name: str) -> Goal:
    """Read one of ALFWorld's six forms of goal."""
    atoms = list(_atoms(section))
    things = [a[2].removesuffix("type") for a in atoms if a[0] == "objecttype" and len(a) == 3]
    places = sorted({a[2].removesuffix("type") for a in atoms if a[0] == "receptacletype" and len(a) == 3})
    treatments = [_TREATMENT_OF_FACT[a[0]] for a in atoms if a[0] in _TREATMENT_OF_FACT]
    lit = any(a[0] == "istoggled" for a in atoms)
    match (things, places, treatments, lit):
        case ([light, thing], [], [], True):
            return Goal("look_at_obj_in_light", thing, None, None, 1, light)
        case ([thing], [place], [treatment], False):
            return Goal(treatment.task_type, thing, place, treatment.state, 1, None)
        case ([thing], [place], [], False):
            return Goal("pick_and_place_simple", thing, place, None, 1, None)
        case ([thing, other], [place], [], False) if thing == other:
            return Goal("pick_two_obj_and_place", thing, place, None, 2, None)
    found = f"objects {things} and receptacles {places}"
    raise GameError(f"game {name}: the goal over {found} is none of the six task types")


def _atoms(tree: _Tree) -> Iterator[list[str]]:
    if tree and all(isinstance(part, str) for part in tree):
        yield tree
    else:
        for part in tree:
            if isinstance(part, list):
                yield from _atoms(part)
