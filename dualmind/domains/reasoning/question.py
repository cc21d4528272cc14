"""A question: a text with one answer, reached in a known number of steps. Pure data; the families draw and check it."""

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from dualmind.domains.base import SPLITS, Split
from dualmind.errors import QuestionError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question:
    """One question; every text is lower-case words parted by single blanks.

    Attributes:
        text: what is asked.
        answer: one word, or a few.
        steps: one for each hop, checkable from the text and the steps before it. A step spells what it takes and then
            what it makes of it, so that each of its words is one look-up or one operation away from words that stand
            already (Nye et al. 2021, scratchpads); what it makes is its last word, or its last words.
        family: name of the family that drew it.
        hops: number of steps, >= 1.
        phrasing: which wording of the family; "bbh" and "bbh_..." follow BIG-Bench Hard.
        split: which split it belongs to.
    """

    text: str
    answer: str
    steps: tuple[str, ...]
    family: str
    hops: int
    phrasing: str
    split: Split = "train"

    def __post_init__(self) -> None:
        """Check what the domain relies on.

        Raises:
            QuestionError: the split is unknown, or there is not one step per hop.
        """
        if self.split not in SPLITS:
            raise QuestionError(f"question {self.text[:60]!r}: split {self.split!r} is not one of {', '.join(SPLITS)}")
        if self.hops < 1 or len(self.steps) != self.hops:
            raise QuestionError(
                f"question {self.text[:60]!r}: {len(self.steps)} steps for {self.hops} hops; give one step per hop"
            )

    @property
    def id(self) -> str:
        """A name made of the content: questions with one text have one id."""
        digest = hashlib.md5(self.text.encode(), usedforsecurity=False).hexdigest()
        return f"{self.family}-{self.hops}-{digest[:16]}"

    @property
    def rationale(self) -> str:
        """Numbered steps and the answer: ``#1 v1 #2 v2 = answer``."""
        return write_output(self.steps, self.answer)

    def to_json(self) -> str:
        """Compact JSON, the same for equal questions."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Question":
        """Read what :meth:`to_json` wrote.

        Raises:
            QuestionError: the text is not such JSON.
        """
        try:
            data: dict[str, Any] = json.loads(text)
            words = [data[key] for key in ("text", "answer", "family", "phrasing")] + list(data["steps"])
            if not all(isinstance(word, str) for word in words):
                raise TypeError("a text that is no string")  # noqa: TRY301 - one message for all that can be wrong
            return cls(**{**data, "steps": tuple(data["steps"])})
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            message = f"{text[:80]!r} is not a question ({error}); run `dvc repro prepare@reasoning` again"
            raise QuestionError(message) from error


class Family(Protocol):
    """A kind of question that can be drawn with any number of hops."""

    @property
    def name(self) -> str:
        """Unique among the families."""
        ...

    def draw(self, hops: int, rng: np.random.Generator) -> Question:
        """A question of that many hops, >= 1."""
        ...

    def check(self, question: Question, steps: Sequence[str]) -> bool:
        """Is the last of ``steps`` valid after those before it? No step at all is valid."""
        ...

    def score(self, question: Question, answer: str) -> float:
        """1 for the right answer, else 0."""
        ...


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text alone says of the way to its answer.

    Attributes:
        hops: number of steps.
        follow: the step after those before it.
    """

    hops: int
    follow: "Follow"


class TextFamily(ABC):
    """A family whose questions are understood from their text alone: one reading of it draws, checks and reads.

    Attributes:
        name: unique among the families.
        form: of a whole text. Readings take what they know from a text and pass over the rest, so it must cover all.
    """

    name: ClassVar[str]
    form: ClassVar[re.Pattern[str]]

    @abstractmethod
    def draw(self, hops: int, rng: np.random.Generator) -> Question:
        """See :class:`Family`."""

    @abstractmethod
    def reading(self, text: str) -> Reading:
        """The way to the answer of a text that has the form; a lookup or conversion error where it makes no sense."""

    def ask(
        self,
        text: str,
        hops: int,
        phrasing: str,
        answer: Callable[[tuple[str, ...]], str] = lambda steps: value(steps[-1]),
    ) -> Question:
        """The question of a text; ``answer`` says it from the steps."""
        steps = rollout(hops, self.reading(text).follow)
        return Question(text, answer(steps), steps, self.name, hops, phrasing)

    def check(self, question: Question, steps: Sequence[str]) -> bool:
        """See :class:`Family`."""
        return is_next(question.hops, self.reading(question.text).follow, steps)

    def read(self, text: str) -> Reading | None:
        """The way to the answer, or None where the text is no question of this family, or makes no sense."""
        if not self.form.fullmatch(text):
            return None
        try:
            reading = self.reading(text)
            rollout(reading.hops, reading.follow)
        except (KeyError, IndexError, ValueError, StopIteration):  # it has the form, but makes no sense
            return None
        return reading if reading.hops >= 1 else None

    def score(self, question: Question, answer: str) -> float:
        """See :class:`Family`."""
        return exact(question, answer)


def value(step: str) -> str:
    """What a step makes: its last word."""
    return step.rsplit(maxsplit=1)[-1]


def number_steps(steps: Sequence[str]) -> list[str]:
    """Steps as they are written: ``#1 v1``, ``#2 v2``."""
    return [f"#{number} {step}" for number, step in enumerate(steps, start=1)]


def write_output(steps: Sequence[str], answer: str) -> str:
    """What an agent says: ``#1 v1 #2 v2 = answer``; without steps the answer alone."""
    return " ".join([*number_steps(steps), "=", answer]) if steps else answer


def parse_output(text: str) -> tuple[tuple[str, ...], str]:
    """Steps and answer of any text.

    The answer is what stands after the last ``=``, or the whole text where no step is marked; steps count as long as
    their numbers go 1, 2, 3.
    """
    words = text.split()
    cut = len(words) - 1 - words[::-1].index("=") if "=" in words else None
    body = words if cut is None else words[:cut]
    steps: list[list[str]] = []
    for word in body:
        if word == f"#{len(steps) + 1}":
            steps.append([])
        elif word.startswith("#") or not steps:
            break
        else:
            steps[-1].append(word)
    if cut is not None:
        answer = " ".join(words[cut + 1 :])
    else:
        answer = "" if any(word.startswith("#") for word in words) else " ".join(words)
    return tuple(" ".join(step) for step in steps), answer


def exact(question: Question, answer: str) -> float:
    """1 if the answer is the question's, blanks aside."""
    return float(answer.split() == question.answer.split())


Follow = Callable[[Sequence[str]], str]  # the step after those before it


def rollout(hops: int, follow: Follow) -> tuple[str, ...]:
    """All steps, each from those before it."""
    steps: list[str] = []
    for _ in range(hops):
        steps.append(follow(steps))
    return tuple(steps)


def is_next(hops: int, follow: Follow, steps: Sequence[str]) -> bool:
    """Is the last of ``steps`` what follows from those before it? Steps that make no sense lead nowhere."""
    if not steps:
        return True
    if len(steps) > hops:
        return False
    try:
        return follow(steps[:-1]).split() == steps[-1].split()
    except (KeyError, IndexError, ValueError):  # a step before it names what the problem does not have
        return False


def pick(rng: np.random.Generator, pool: Sequence[T]) -> T:
    """One of a pool, each as likely."""
    return pool[int(rng.integers(len(pool)))]


def sample(rng: np.random.Generator, pool: Sequence[T], number: int) -> list[T]:
    """Different members of a pool, in random order."""
    assert number <= len(pool), f"{number} of a pool of {len(pool)}"
    return [pool[index] for index in rng.permutation(len(pool))[:number]]


def between(rng: np.random.Generator, low: int, high: int) -> int:
    """A number of low..high, both included."""
    return int(rng.integers(low, high + 1))


def enumerate_words(items: Sequence[str]) -> str:
    """``x , y , and z`` as BIG-Bench Hard writes it; two items are parted by ``and`` alone."""
    if len(items) < 3:
        return " and ".join(items)
    return " , ".join(items[:-1]) + f" , and {items[-1]}"


def with_article(noun: str) -> str:
    """``a drum`` or ``an oven``."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def check_hops(hops: int) -> None:
    """Raise QuestionError for a number of hops that cannot be drawn."""
    if not 1 <= hops <= MAX_HOPS:
        raise QuestionError(f"hops = {hops}: a question has 1..{MAX_HOPS} hops")


MAX_HOPS = 12
