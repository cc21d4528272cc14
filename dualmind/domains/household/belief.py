"""What an agent has seen so far, kept from observation text alone, and the prompt that says it to a model.

A belief is made of the texts that an agent reads and of nothing else: it holds no reference to the game, so a prompt
cannot leak what is hidden. The words are those of the game, in lower case and separated by single blanks.

    goal : clean some fork and put it in drawer . | hold : * fork 1 plain | here : sinkbasin 1 seen |
    last : go : you arrive at sinkbasin 1 . on the sinkbasin 1 , you see a potato 1 . | known : * fork 2 in @ drawer 3

``*`` marks an object and ``@`` a receptacle whose word also stands in the goal: without marks, 200 demonstrations gave
half the success. There are two of them because a model may read a command as a bag of words, in which
``take potato 1 from * drawer 3`` and ``take * fork 2 from drawer 3`` are much alike.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from dualmind.domains.household.game import TREATMENT_OF_VERB
from dualmind.errors import GameError

NEW, CLOSED, SEEN = "new", "closed", "seen"  # not visited; visited but never seen open; contents have been seen
OBJECT_MARK, RECEPTACLE_MARK = "*", "@"

_TOKEN = re.compile(r"[a-z]+|\d+|[^\sa-z\d]")
_THING = re.compile(r"\ba ([a-z]+ \d+)")
_INTRO_LIST = re.compile(r"you see (.*?)\.\n", re.DOTALL)
_TASK = re.compile(r"Your task is to: (.*)", re.DOTALL)
_CONTENTS = re.compile(r"(?:On|In) (?:the ([a-z]+ \d+)|it), you see (.*?)\.?$", re.DOTALL)
_TAKE = re.compile(r"take (?:\* )?([a-z]+) ")
_IS_CLOSED = re.compile(r"The ([a-z]+ \d+) is closed\.")


class Belief:
    """What has been seen of one game.

    Attributes:
        goal: the task in words, tokenised.
        receptacles: each receptacle's status (new, closed or seen), in the order of the first observation.
        contents: what was last seen in each receptacle; a receptacle not seen has no entry.
        held: the object in hand, or ``None``.
        here: the receptacle that the agent stands at, or ``None`` in mid-room.
        states: the last treatment of each object ("clean", "hot" or "cool").
        tried: the commands given so far, in order.
    """

    def __init__(self, intro: str) -> None:
        """Read the first observation of a game.

        Raises:
            GameError: the text has no list of receptacles or no task.
        """
        listed, task = _INTRO_LIST.search(intro), _TASK.search(intro)
        if listed is None or task is None:
            raise GameError(
                f"the first observation {intro[:120]!r} names no receptacles or no task; is it a household game?"
            )
        self.goal = " ".join(tokenize(task[1]))
        self.receptacles = dict.fromkeys(_THING.findall(listed[1]), NEW)
        self.contents: dict[str, list[str]] = {}
        self.held: str | None = None
        self.here: str | None = None
        self.states: dict[str, str] = {}
        self.tried: list[str] = []
        self._goal_words = frozenset(self.goal.split())
        self._last = "start : nothing"

    def update(self, command: str, observation: str) -> None:
        """Take in the observation that followed a command."""
        self.tried.append(command)
        verb, _, rest = command.partition(" ")
        self._last = f"{verb} : {self._mark(tokenize(observation))}"
        if observation == "Nothing happens.":
            return
        match verb:
            case "go":
                self.here = rest.removeprefix("to ")
                self._look(self.here, observation)
            case "open" | "examine":
                self._look(rest, observation)
            case "take":
                thing, place = rest.split(" from ")
                self.held = thing
                self._forget(thing, place)
            case "move":
                thing, place = rest.split(" to ")
                self.held = None
                self.contents.setdefault(place, []).append(thing)
            case "clean" | "heat" | "cool":
                thing = rest.split(" with ")[0]
                self.states[thing] = TREATMENT_OF_VERB[verb].state

    def prompt(self) -> str:
        """The belief in words, as the model reads it."""
        hold = "nothing"
        if self.held is not None:
            hold = f"{self._mark(self.held.split())} {self.states.get(self.held, 'plain')}"
        here = f"{self._mark(self.here.split())} {self.receptacles[self.here]}" if self.here else "middle"
        known = [
            f"{self._mark(thing.split())}{self._state(thing)} in {self._mark(place.split())}"
            for place, things in self.contents.items()
            for thing in things
            if thing.split()[0] in self._goal_words
        ]
        return (
            f"goal : {self.goal} | hold : {hold} | here : {here} | last : {self._last} "
            f"| known : {' , '.join(known) if known else 'nothing'}"
        )

    def candidates(self, commands: Sequence[str]) -> tuple[str, ...]:
        """Commands as the model reads them: things of the goal marked, the last receptacle's status appended."""
        return tuple(self._candidate(command) for command in commands)

    def _candidate(self, command: str) -> str:
        words = command.split()
        status = self.receptacles.get(" ".join(words[-2:]))
        text = self._mark(words)
        return f"{text} {status}" if status else text

    def _look(self, place: str, observation: str) -> None:
        """Note the contents of ``place``, or that it is closed."""
        if place not in self.receptacles:  # `examine` of an object in hand tells nothing of places
            return
        if _IS_CLOSED.search(observation):
            if self.receptacles[place] == NEW:
                self.receptacles[place] = CLOSED
        elif listed := _CONTENTS.search(observation):
            self.receptacles[place] = SEEN
            self.contents[place] = _THING.findall(listed[2])

    def _forget(self, thing: str, place: str) -> None:
        if thing in self.contents.get(place, ()):
            self.contents[place].remove(thing)

    def _state(self, thing: str) -> str:
        state = self.states.get(thing)
        return f" {state}" if state else ""

    def _mark(self, words: Sequence[str]) -> str:
        """Join words, with a mark before each numbered thing whose word stands in the goal."""
        out = []
        for word, following in zip(words, [*words[1:], ""], strict=True):
            if following.isdigit() and word in self._goal_words:
                out.append(RECEPTACLE_MARK if f"{word} {following}" in self.receptacles else OBJECT_MARK)
            out.append(word)
        return " ".join(out)


def object_words(candidates: Iterable[str]) -> set[str]:
    """Words of things that can be taken, from the text of commands."""
    return {match[1] for candidate in candidates if (match := _TAKE.match(candidate))}


@lru_cache(maxsize=65536)
def tokenize(text: str) -> tuple[str, ...]:
    """Lower-case words, numbers and punctuation marks of a text."""
    return tuple(_TOKEN.findall(text.lower()))
