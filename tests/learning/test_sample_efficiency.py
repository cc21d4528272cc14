"""How the benchmark reports runs that never got there."""

import time

from benchmarks.sample_efficiency import Run, rows_of


def test_a_run_that_never_gets_there_is_more_than_its_budget_and_a_ratio_to_it_a_lower_bound() -> None:
    ours = [Run(500, True, 0.85), Run(400, True, 0.9)]
    ppo = [Run(60_000, True, 0.81), Run(100_000, False, 0.08)]
    rows = rows_of({"ours": ours, "ppo": ppo}, "134 unseen real games", "GAMES", time.monotonic())
    first, second, ratio, *foreign = rows
    assert (first.value, first.baseline) == (450.0, "by seed: 500, 400")
    assert (second.value, second.baseline) == (None, "by seed: 60,000, more than 100,000 (8%)")
    assert ratio.value == (60_000 / 500 + 100_000 / 400) / 2
    assert ratio.unit.endswith("at least")
    assert ratio.reached
    assert all(row.value is None and row.baseline.startswith("not measured: ") for row in foreign)


def test_without_ours_there_is_no_ratio() -> None:
    never = [Run(1000, False, 0.1)]
    for runs in ({"ours": never, "ppo": never}, {"ppo": never}):
        rows = rows_of(runs, "134 unseen real games", "GAMES", time.monotonic())  # type: ignore[arg-type]  # keys of the literal are str
        assert [row for row in rows if row.unit.startswith("times")] == []
