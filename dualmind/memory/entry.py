"""What a memory holds: an answer under the exact prompt, who stands behind it, and how often it helped."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dualmind.errors import GatewayError

Author = Literal["system1", "system2"]
Judge = Literal["system2", "checker", "person"]
Depth = Literal["shallow", "full"]  # of System 2's thinking behind the answer, as the agent's tiers
Reading = NDArray[np.float32]

PRIOR_TRIALS, PRIOR_GAIN = 2, 1.0  # a new entry is worth 1/2: it has a chance before it is judged


@dataclass(frozen=True, slots=True)
class Key:
    """The exact question: equal keys are the same words with the same commands in the same order."""

    domain: str
    digest: str  # SHA-256 in hex

    @classmethod
    def of(cls, domain: str, prompt: str, candidates: Sequence[str] = ()) -> "Key":
        """The key of a prompt; the commands are a part of it, for among others another one may be the best."""
        text = json.dumps([prompt, *candidates], ensure_ascii=False)
        return cls(domain, hashlib.sha256(text.encode()).hexdigest())


@dataclass(frozen=True, slots=True)
class Entry:
    """One remembered answer.

    Attributes:
        key: of the question.
        reading: System 1's embedding of the prompt (D,).
        reader: digest of the System 1 that made the reading; readings of two System 1s do not compare.
        answer: a command or a text.
        steps: of the thinking that led to it.
        depth: how long was thought.
        author: whose answer it is.
        writer: digest of the author's weights.
        checked_by: whose verdict the answer has; None: nobody's, and then it never reaches the core.
        trials: times that the question was answered with it and without it.
        gain: sum over those of right with it minus right without it, each in -1..1.
    """

    key: Key
    reading: Reading = field(compare=False)  # an array is not equal to another in one word
    reader: str
    answer: str
    steps: tuple[str, ...]
    depth: Depth
    author: Author
    writer: str
    checked_by: Judge | None
    trials: int = 0
    gain: float = 0.0

    def __post_init__(self) -> None:
        """Check what every level relies on.

        Raises:
            GatewayError: the answer is empty, the reading is no vector of numbers, or a word is none of those allowed.
        """
        where = f"the entry {self.key.digest[:12]} of {self.key.domain!r}"
        if not self.answer.split():
            raise GatewayError(f"{where} has an empty answer; keep only what answers the question")
        if self.reading.ndim != 1 or not self.reading.size or not np.isfinite(self.reading).all():
            raise GatewayError(f"{where} has no finite vector as its reading; give System 1's FirstAnswer.reading")
        for name, allowed in (("depth", Depth), ("author", Author), ("checked_by", Judge)):
            own = getattr(self, name)
            if own not in get_args(allowed) and not (name == "checked_by" and own is None):
                raise GatewayError(f"{where}: {name} = {own!r} is not one of {', '.join(get_args(allowed))}")

    @property
    def usefulness(self) -> float:
        """Mean gain over the trials, drawn to 1/2 while they are few; in -1..1."""
        return (self.gain + PRIOR_GAIN) / (self.trials + PRIOR_TRIALS)

    def tried(self, gain: float) -> "Entry":
        """The entry after one more trial.

        Raises:
            GatewayError: the gain is not in -1..1.
        """
        if not -1 <= gain <= 1:  # NaN too
            raise GatewayError(
                f"a trial of the entry {self.key.digest[:12]} has the gain {gain}; give right with it minus right "
                "without it, -1 to 1"
            )
        return replace(self, trials=self.trials + 1, gain=self.gain + gain)

    def checked(self, by: Judge) -> "Entry":
        """The entry with somebody's verdict that it is right."""
        return replace(self, checked_by=by)

    def same_answer(self, other: "Entry") -> bool:
        """Do both say the same, blanks aside?"""
        return self.answer.split() == other.answer.split()

    def supersedes(self, former: "Entry") -> bool:
        """May it take the place of a former entry under the same key?

        What nobody checked never replaces what somebody did, and a short thought never a long one of the same weights.
        """
        if self.checked_by is None and former.checked_by is not None:
            return False
        return not (self.writer == former.writer and (self.depth, former.depth) == ("shallow", "full"))
