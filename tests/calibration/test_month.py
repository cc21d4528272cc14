from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import fisher_exact

from dualmind.calibration.month import Collected, collect, draw
from dualmind.calibration.sample import AUDIT_SOURCES, Sample
from dualmind.data import traffic
from dualmind.errors import CalibrationError
from dualmind.traffic.read import MonthReader
from dualmind.traffic.schema import SCHEMA
from tests.calibration.traffic import decisions, log_traffic

MONTH = "2026-10"
GRID = np.linspace(0, 1, 21)


def test_frozen_columns_are_those_of_traffic() -> None:
    for field in traffic.SCHEMA:
        assert SCHEMA.field(field.name).type == field.type
    assert list(AUDIT_SOURCES) == traffic._AUDIT_SOURCES


def test_counts_are_those_of_the_sample_that_traffic_itself_gives(tmp_path: Path) -> None:
    log_traffic(tmp_path, MONTH, decisions(MONTH, 500, np.random.default_rng(0)), labelled=300)
    with MonthReader(tmp_path, MONTH) as reader:
        found = collect(reader.batches(), {"r1#1"}, GRID)
        expected = Sample.collect(reader.batches(), GRID)
    assert found.accepted.tolist() == expected.accepted.tolist()
    assert (found.decisions, found.drawn - len(found.rows)) == (expected.decisions, expected.unlabelled)
    assert found.rows["score"].to_pylist() == expected.scores.tolist()


def test_feedback_and_rows_that_were_not_drawn_are_left_out(tmp_path: Path) -> None:
    pairs = decisions(MONTH, 40, np.random.default_rng(0))
    pairs = [(own, label.model_copy(update={"source": "feedback"})) for own, label in pairs[:10]] + [
        (own.model_copy(update={"audited": i % 2 == 0}), label) for i, (own, label) in enumerate(pairs[10:])
    ]
    log_traffic(tmp_path, MONTH, pairs)
    with MonthReader(tmp_path, MONTH) as reader:
        found = collect(reader.batches(), {"r1#1"}, GRID)
    assert (found.decisions, found.drawn, len(found.rows)) == (40, 25, 15)


def test_decisions_of_other_weights_or_gates_are_counted_and_left_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pairs = [(own.model_copy(update={"release": f"r1#{i % 3}"}), label) for i, (own, label) in
             enumerate(decisions(MONTH, 30, rng))]  # fmt: skip
    log_traffic(tmp_path, MONTH, pairs)
    with MonthReader(tmp_path, MONTH) as reader:
        found = collect(reader.batches(), {"r1#1", "r1#2", "r1#9"}, GRID)
    assert (found.decisions, found.others) == (20, {"r1#0": 10})
    assert set(found.rows["release"].to_pylist()) == {"r1#1", "r1#2"}


@given(st.integers(1, 60), st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
def test_a_draw_is_uniform_unless_an_exact_test_says_no(one: int, two: int, drawn_one: int, drawn_two: int) -> None:
    drawn_one, drawn_two = min(drawn_one, one), min(drawn_two, two)
    found = Collected(
        SCHEMA.empty_table(), one + two, {}, drawn_one + drawn_two, one, drawn_one, 0, 0, np.zeros(1, np.int64)
    )
    table = np.array([[drawn_one, one - drawn_one], [drawn_two, two - drawn_two]])
    fewer, more = (float(fisher_exact(table, alternative=side).pvalue) for side in ("less", "greater"))
    assert found.is_uniform == (2 * min(fewer, more) >= 1e-6)


@pytest.mark.parametrize(("rate", "uniform"), [((1.0, 0.0), False), ((0.0, 1.0), False), ((0.3, 0.3), True)])
def test_a_sample_of_one_systems_answers_alone_is_found_out(
    tmp_path: Path, rate: tuple[float, float], uniform: bool
) -> None:
    rng = np.random.default_rng(0)
    pairs = [
        (own.model_copy(update={"audited": bool(rng.random() < rate[own.tier != "system1"])}), label)
        for own, label in decisions(MONTH, 400, rng)
    ]
    log_traffic(tmp_path, MONTH, pairs)
    with MonthReader(tmp_path, MONTH) as reader:
        assert collect(reader.batches(), {"r1#1"}, GRID).is_uniform == uniform


def test_the_audits_verdicts_on_what_was_given_are_counted_apart(tmp_path: Path) -> None:
    pairs = decisions(MONTH, 60, np.random.default_rng(0))
    pairs = [
        (own, label.model_copy(update={"correct": i % 2 == 0, "answer_correct": (None, True, False)[i % 3]}))
        for i, (own, label) in enumerate(pairs)
    ]
    log_traffic(tmp_path, MONTH, pairs)
    with MonthReader(tmp_path, MONTH) as reader:
        found = collect(reader.batches(), {"r1#1"}, GRID)
    assert (found.judged, found.judged_wrong) == (40, 20)
    assert sum(found.rows["correct"].to_pylist()) == 30


def test_a_score_that_is_no_number_is_refused(tmp_path: Path) -> None:
    log_traffic(tmp_path, MONTH, decisions(MONTH, 3, np.random.default_rng(0)))
    with MonthReader(tmp_path, MONTH) as reader:
        table = reader.batches().read_all()
    spoiled = table.set_column(table.column_names.index("score"), "score", pa.array([0.1, float("nan"), 0.3]))
    with pytest.raises(CalibrationError, match="the score of row 1 is nan"):
        collect(spoiled.to_batches(), {"r1#1"}, GRID)


def test_a_share_is_drawn_for_comparing_months(tmp_path: Path) -> None:
    log_traffic(tmp_path, MONTH, decisions(MONTH, 2000, np.random.default_rng(0)))
    with MonthReader(tmp_path, MONTH) as reader:
        numbers, domains = draw(reader.batches(), {"r1#1"}, 0.25, np.random.default_rng(1))
    assert len(numbers["score"]) == len(numbers["confidence"]) == len(domains)
    assert 400 < len(domains) < 600
