"""Plays a household game exactly as ALFWorld's text engine does, several thousand times faster.

The rules are those of ALFWorld's ``alfred.pddl`` and the texts those of its ``alfred.twl2``; where the stock engine has
quirks, so has this one, because agents are compared on it:

* ``look`` in mid-room lists nothing, and only a held object can be examined;
* going to the place where one stands is not admissible, nor to a receptacle that shares that location;
* an object that a game puts into several receptacles can be taken from each of them;
* ``look`` shows as "next to" a receptacle what was once taken from it and lies at the same location;
* the reward is 1 in every state that fulfils the goal and 0 in every other.
"""

from collections.abc import Iterator

from dualmind.domains.household.game import TREATMENT_OF_STATE, TREATMENT_OF_VERB, TREATMENTS, Game

_HELP = (
    "Available commands:\n"
    "  look:                             look around your current location\n"
    "  inventory:                        check your current inventory\n"
    "  go to (receptacle):               move to a receptacle\n"
    "  open (receptacle):                open a receptacle\n"
    "  close (receptacle):               close a receptacle\n"
    "  take (object) from (receptacle):  take an object from a receptacle\n"
    "  move (object) to (receptacle):  place an object in or on a receptacle\n"
    "  examine (something):              examine a receptacle or an object\n"
    "  use (object):                     use an object\n"
    "  heat (object) with (receptacle):  heat an object using a receptacle\n"
    "  clean (object) with (receptacle): clean an object using a receptacle\n"
    "  cool (object) with (receptacle):  cool an object using a receptacle\n"
    "  slice (object) with (object):     slice an object using a sharp object\n"
)
_NOTHING = "Nothing happens."
_ALWAYS = ("help", "inventory", "look")
_KNIVES = {"knife", "butterknife"}


class HouseholdEngine:
    """One game in play. States are sets of ids, texts are made from names once per game.

    The state is what the stock engine keeps as facts: contents of receptacles, open doors, the hand, treatments, and
    the pairs (thing, place) that a ``take`` has separated.
    """

    def __init__(self, game: Game) -> None:
        """Make the texts of ``game`` and put everything in its place."""
        self.game = game
        self._name = game.names()
        self._id_of = {name: entity for entity, name in self._name.items()}
        self._receptacle = {r.id: r for r in game.receptacles}
        self._thing = {t.id: t for t in game.things}
        self._flags = {t.id: frozenset(t.flags) for t in game.things}
        self._at: dict[str, list[str]] = {}  # location -> receptacles, sorted by id
        for r in game.receptacles:
            self._at.setdefault(r.location, []).append(r.id)
        self._fits = {kind: frozenset(things) for kind, things in game.can_contain}
        go = {r.id: f"go to {self._name[r.id]}" for r in game.receptacles}
        locations = [*self._at, game.agent_location]
        self._go = {
            here: sorted([*_ALWAYS, *(go[r.id] for r in game.receptacles if r.location != here)]) for here in locations
        }
        self.reset()

    def reset(self) -> str:
        """Put everything back and return the first observation: the room and the task."""
        game = self.game
        self._here = game.agent_location
        self._held: str | None = None
        self._opened: set[str] = set()
        self._contents: dict[str, set[str]] = {r.id: set() for r in game.receptacles}
        for thing in game.things:
            for place in thing.inside:
                self._contents[place].add(thing.id)
        self._lies_at: dict[str, set[str]] = {t.id: {t.location} if t.location else set() for t in game.things}
        self._taken_from: set[tuple[str, str]] = set()
        self._states: dict[str, set[str]] = {t.id: {"cool"} if "iscool" in t.flags else set() for t in game.things}
        self._toggled: set[str] = set()
        self._sliced: set[str] = set()
        self._commands: dict[str, tuple[str, ...]] | None = None
        room = _listing([f"a {self._name[r.id]}" for r in game.receptacles])
        return (
            "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, "
            f"you see {room}.\n\nYour task is to: {game.goal_text}"
        )

    def copy(self) -> "HouseholdEngine":
        """An engine in the same state that can be played on alone."""
        twin = object.__new__(HouseholdEngine)
        twin.__dict__.update(self.__dict__)
        twin._opened, twin._taken_from = set(self._opened), set(self._taken_from)
        twin._toggled, twin._sliced = set(self._toggled), set(self._sliced)
        twin._contents = {place: set(things) for place, things in self._contents.items()}
        twin._lies_at = {thing: set(places) for thing, places in self._lies_at.items()}
        twin._states = {thing: set(states) for thing, states in self._states.items()}
        return twin

    def admissible_commands(self) -> list[str]:
        """What can be done now, sorted."""
        return sorted([*self._go[self._here], *self._actions()])

    def step(self, command: str) -> tuple[str, float, bool]:
        """Give a command.

        Returns:
            The observation, the reward (1 where the goal holds), and whether the game is won.
        """
        command = command.strip()
        observation = self._do(command)
        won = self._goal_holds()
        return observation, float(won), won

    def _do(self, command: str) -> str:
        if command in self._go[self._here]:
            if command.startswith("go to "):
                return self._go_to(self._id_of[command[6:]])
            return self._look() if command == "look" else _HELP if command == "help" else self._inventory()
        action = self._actions().get(command)
        if action is None:
            return _NOTHING
        self._commands = None
        return self._apply(*action)

    def _actions(self) -> dict[str, tuple[str, ...]]:
        """Commands that need a place or a hand, each with its verb and ids."""
        if self._commands is None:
            self._commands = dict(self._find_actions())
        return self._commands

    def _find_actions(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        name, held = self._name, self._held
        if held is not None:
            yield f"examine {name[held]}", ("examine", held)
        for place in self._at.get(self._here, ()):
            where = name[place]
            yield f"examine {where}", ("examine", place)
            accessible = True
            if self._receptacle[place].openable:
                accessible = place in self._opened
                verb = "close" if accessible else "open"
                yield f"{verb} {where}", (verb, place)
            for thing in self._contents[place]:
                flags = self._flags[thing]
                if "toggleable" in flags:
                    yield f"use {name[thing]}", ("use", thing)
                if accessible and held is None and "pickupable" in flags:
                    yield f"take {name[thing]} from {where}", ("take", thing, place)
            if held is not None:
                yield from self._uses_of_hand(held, place, accessible)
        if held is not None and self._thing[held].type in _KNIVES:
            yield from self._cuts(held)

    def _cuts(self, knife: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        for thing, places in self._lies_at.items():
            if self._here in places and "sliceable" in self._flags[thing]:
                yield f"slice {self._name[thing]} with {self._name[knife]}", ("slice", thing, knife)

    def _uses_of_hand(self, held: str, place: str, accessible: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
        what, where, kind = self._name[held], self._name[place], self._receptacle[place].type
        if accessible and self._thing[held].type in self._fits.get(kind, ()):
            yield f"move {what} to {where}", ("move", held, place)
        for treatment in TREATMENTS:
            if kind == treatment.appliance and treatment.flag in self._flags[held]:
                yield f"{treatment.verb} {what} with {where}", (treatment.verb, held, place)

    def _apply(self, verb: str, subject: str, place: str = "") -> str:
        """Carry out an action that is known to be admissible."""
        what, where = self._name[subject], self._name.get(place, "")
        match verb:
            case "examine":
                text = self._describe(subject) if subject in self._thing else self._contents_text(subject)
            case "open":
                self._opened.add(subject)
                text = f"You open the {what}. {self._contents_text(subject)}"
            case "close":
                self._opened.discard(subject)
                text = f"You close the {what}."
            case "take":
                self._contents[place].discard(subject)
                self._taken_from.add((subject, place))
                self._lies_at[subject].discard(self._here)
                self._held = subject
                text = f"You pick up the {what} from the {where}."
            case "move":
                self._contents[place].add(subject)
                self._taken_from.discard((subject, place))
                self._lies_at[subject].add(self._here)
                self._held = None
                text = f"You move the {what} to the {where}."
            case "use":
                self._toggled.add(subject)
                text = f"You turn on the {what}."
            case "slice":
                self._sliced.add(subject)
                text = f"You sliced the {what} with the {where}."
            case _:
                self._treat(verb, subject)
                text = f"You {verb} the {what} using the {where}."
        return text

    def _treat(self, verb: str, subject: str) -> None:
        states = self._states[subject]
        if verb != "clean":  # hot and cool exclude each other
            states -= {"hot", "cool"}
        states.add(TREATMENT_OF_VERB[verb].state)

    def _go_to(self, place: str) -> str:
        self._here = self._receptacle[place].location
        self._commands = None
        return f"You arrive at {self._name[place]}. {self._contents_text(place)}"

    def _contents_text(self, place: str) -> str:
        name = self._name[place]
        if self._receptacle[place].openable and place not in self._opened:
            return f"The {name} is closed."
        things = _listing([f"a {self._name[thing]}" for thing in sorted(self._contents[place])])
        if self._receptacle[place].openable:
            return f"The {name} is open. In it, you see {things}."
        return f"On the {name}, you see {things}."

    def _look(self) -> str:
        places = self._at.get(self._here)
        if not places:
            return "You are in the middle of a room. Looking quickly around you, you see nothing."
        floor = [
            f"a {self._name[thing]}"
            for thing in sorted(self._lies_at)
            if self._here in self._lies_at[thing]
            for place in places
            if (thing, place) in self._taken_from
        ]
        facing = _listing([self._name[place] for place in places])
        return f"You are facing the {facing}. Next to it, you see {_listing(floor)}."

    def _inventory(self) -> str:
        if self._held is None:
            return "You are not carrying anything."
        return f"You are carrying: a {self._name[self._held]}."

    def _describe(self, thing: str) -> str:
        """What ``examine`` says of an object in hand."""
        name, states = self._name[thing], self._states[thing]
        if "isreceptacleobject" in self._flags[thing]:
            # some games put a thing into itself; it is not shown
            others = [t for t in self.game.things if t.id != thing]
            within = _listing([f"a {self._name[t.id]}" for t in others if thing in (t.within or ())])
            return f"This is a normal {name}. In it, you see {within}."
        sliced = "sliced " if thing in self._sliced else ""
        heat = next((state for state in ("hot", "cool") if state in states), "")
        if heat == "cool" and not sliced and "clean" not in states:
            heat = "cold"
        if treated := " and ".join(word for word in (heat, "clean" if "clean" in states else "") if word):
            return f"This is a {treated} {sliced}{name}."
        if "toggleable" in self._flags[thing] and thing in self._toggled:
            return f"This {name} is on."
        return f"This is a {sliced}{name}." if sliced else f"There's nothing special about {name}."

    def _goal_holds(self) -> bool:
        goal = self.game.goal
        if goal.light is not None:
            held = self._held is not None and self._thing[self._held].type == goal.object_type
            return held and any(
                self._thing[thing].type == goal.light and thing in self._contents[place]
                for thing in self._toggled
                for place in self._at.get(self._here, ())
            )
        for receptacle in self.game.receptacles:
            if receptacle.type == goal.receptacle_type:
                done = [t for t in self._contents[receptacle.id] if self._thing[t].type == goal.object_type]
                if goal.state is not None:
                    able = TREATMENT_OF_STATE[goal.state].flag
                    done = [t for t in done if goal.state in self._states[t] and able in self._flags[t]]
                if len(done) >= goal.count:
                    return True
        return False


def _listing(items: list[str]) -> str:
    """Items as ALFWorld lists them: "nothing", "a", "a, and b", "a, b, and c"."""
    if not items:
        return "nothing"
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])}, and {items[-1]}"
