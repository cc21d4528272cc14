"""Counts environment steps: each one once, wherever it is spent."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, PositiveInt

from dualmind.domains.household.rollout import Turn

Purpose = Literal["demonstration", "rollout", "look_ahead", "evaluation"]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
Choose = Callable[[list[Turn]], Sequence[str]]


class StepCounter:
    """Environment steps by purpose. ``total`` is what learning cost: evaluation is counted too, but apart."""

    def __init__(self, spent: Mapping[Purpose, int] | None = None) -> None:
        self._spent: dict[Purpose, int] = {purpose: (spent or {}).get(purpose, 0) for purpose in PURPOSES}

    def add(self, purpose: Purpose, number: int) -> None:
        """Count ``number`` steps, >= 0."""
        assert number >= 0, number
        self._spent[purpose] += number

    def counting(self, choose: Choose, purpose: Purpose) -> Choose:
        """A chooser for :func:`dualmind.domains.household.rollout.roll` that counts what it makes the games do.

        Every command that is chosen is one step of one game, so nothing is missed where play is cut short by an error
        in a later turn, and nothing is counted again from the outcomes.
        """

        def counted(turns: list[Turn]) -> Sequence[str]:
            chosen = choose(turns)
            self.add(purpose, len(chosen))
            return chosen

        return counted

    @property
    def total(self) -> int:
        """Steps that learning cost: all but evaluation."""
        return sum(number for purpose, number in self._spent.items() if purpose != "evaluation")

    def to_dict(self) -> dict[Purpose, int]:
        """Steps by purpose."""
        return dict(self._spent)


class ClockParams(BaseModel):
    """How often each part learns, in environment steps. In brackets: the articles' values."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    system1: PositiveInt  # policy and System 1 (100)
    system2: PositiveInt  # base model and System 2 (1000)
    reward: PositiveInt  # reward model (5000)


class Clock:
    """Ticks once in every ``every`` environment steps."""

    def __init__(self, every: int, ticks: int = 0) -> None:
        self.every, self.ticks = every, ticks

    def advance(self, total: int) -> int:
        """Ticks since the last call, now that ``total`` steps have been spent; many games at once may bring several."""
        new = total // self.every - self.ticks
        assert new >= 0, "environment steps ran backwards"
        self.ticks += new
        return new
