import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmind.domains.household.engine import HouseholdEngine
from dualmind.domains.household.rollout import Turn, roll
from dualmind.learning.steps import PURPOSES, Clock, Purpose, StepCounter
from tests.learning.play import GAMES


def drawn(turns: list[Turn], rng: np.random.Generator) -> list[str]:
    return [turn.candidates[int(rng.integers(len(turn.candidates)))] for turn in turns]


def test_the_counter_counts_exactly_the_steps_that_engines_take(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0
    step = HouseholdEngine.step

    def counted(self: HouseholdEngine, command: str) -> tuple[str, float, bool]:
        nonlocal taken
        taken += 1
        return step(self, command)

    monkeypatch.setattr(HouseholdEngine, "step", counted)
    counter, rng = StepCounter(), np.random.default_rng(0)
    outcomes = roll(GAMES[:6], 7, counter.counting(lambda turns: drawn(turns, rng), "rollout"))
    assert counter.total == taken == sum(outcome.steps for outcome in outcomes)


def test_steps_before_an_error_are_counted_and_the_one_that_was_not_taken_is_not() -> None:
    counter, rng, calls = StepCounter(), np.random.default_rng(0), 0

    def fails_third_time(turns: list[Turn]) -> list[str]:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise RuntimeError("out of memory")
        return drawn(turns, rng)

    with pytest.raises(RuntimeError, match="out of memory"):
        roll(GAMES[:4], 20, counter.counting(fails_third_time, "look_ahead"))
    assert counter.to_dict() == {"demonstration": 0, "rollout": 0, "look_ahead": 8, "evaluation": 0}


@given(st.lists(st.tuples(st.sampled_from(PURPOSES), st.integers(0, 1000))))
def test_the_total_is_all_but_evaluation_and_survives_being_stored(spent: list[tuple[Purpose, int]]) -> None:
    counter = StepCounter()
    for purpose, number in spent:
        counter.add(purpose, number)
    assert counter.total == sum(number for purpose, number in spent if purpose != "evaluation")
    assert StepCounter(counter.to_dict()).to_dict() == counter.to_dict()


@given(st.integers(1, 50), st.lists(st.integers(0, 200)))
def test_a_clock_ticks_once_a_period_however_the_steps_come(every: int, increments: list[int]) -> None:
    clock, total, ticks = Clock(every), 0, 0
    for increment in increments:
        total += increment
        ticks += clock.advance(total)
    assert ticks == clock.ticks == total // every
