import ast
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmind.domains.base import Split
from dualmind.domains.debugging.bugs import NUM_CHECKS, NUM_TESTS, Bug, generate_bugs, rehearse
from dualmind.domains.debugging.edits import EDIT_KINDS, edits
from dualmind.domains.debugging.program import NUM_FUNCTIONS, Program, Test, draw_arguments, draw_program, reach
from dualmind.errors import DebuggingError

NUM: dict[Split, int] = {"train": 12, "valid_unseen": 12}
BUGS = generate_bugs(NUM, seed=1)
programs = st.integers(0, 2**32).map(lambda seed: draw_program(np.random.default_rng(seed)))


def here(program: Program, test: Test) -> object:
    """What a call gives in this very process: the programs are our own, and the true ones end."""
    space: dict[str, object] = {}
    exec(program.source, space)
    function = space[test.call.function]
    assert callable(function)
    return function(*test.call.arguments)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_the_original_passes_all_tests_and_checks(bug: Bug) -> None:
    for test in (*bug.tests, *(test for own in bug.checks.values() for test in own)):
        assert here(bug.original, test) == test.expected


def test_every_mutant_differs_from_the_original_in_one_function_and_fails_a_test() -> None:
    for bug, results in zip(BUGS, rehearse(BUGS), strict=True):
        pairs = zip(bug.program.functions, bug.original.functions, strict=True)
        assert [own.name for own, true in pairs if own != true] == [bug.broken_by.function]
        assert not all(outcome.gives(test.expected) for outcome, test in zip(results.tests, bug.tests, strict=True))


def test_the_true_repair_is_among_the_repairs_and_passes() -> None:
    for bug, results in zip(BUGS, rehearse(BUGS), strict=True):
        whole = [bug.program.replaced(repair.function, repair.source) for repair in bug.repairs]
        outcomes = results.repaired[whole.index(bug.original)]
        assert all(outcome.gives(test.expected) for outcome, test in zip(outcomes, bug.tests, strict=True))


def test_sandbox_gives_what_this_process_gives() -> None:
    for bug, results in zip(BUGS, rehearse(BUGS), strict=True):
        for name, checks in bug.checks.items():
            for test, outcome in zip(checks, results.checks[name], strict=True):
                if outcome.kind == "returned":
                    assert outcome.value == here(bug.program, test)


def test_bugs_have_their_numbers_and_share_no_program() -> None:
    assert Counter(bug.split for bug in BUGS) == NUM
    assert len({bug.original.source for bug in BUGS}) == len({bug.id for bug in BUGS}) == len(BUGS)
    for bug in BUGS:
        assert len(bug.tests) == NUM_TESTS
        assert all(len(own) == NUM_CHECKS for own in bug.checks.values())
        assert len(bug.program.functions) == len(bug.checks) == NUM_FUNCTIONS


def test_the_same_seed_gives_the_same_bugs_and_another_seed_gives_others() -> None:
    assert generate_bugs(NUM, seed=1) == BUGS
    assert not {b.original.source for b in generate_bugs(NUM, seed=2)} & {b.original.source for b in BUGS}


def test_held_out_bugs_do_not_change_with_the_number_of_training_bugs() -> None:
    more = generate_bugs({**NUM, "train": 15}, seed=1)
    assert [b for b in more if b.split != "train"] == [b for b in BUGS if b.split != "train"]
    assert more[:12] == BUGS[:12]


@pytest.mark.parametrize(
    ("num", "seed", "message"),
    [
        ({"train": -1}, 0, "above 0"),
        ({"train": 0}, 0, "above 0"),
        ({}, 0, "above 0"),
        ({"train": 1}, -1, "seed = -1"),
        ({"test": 1}, 0, "'test'"),
    ],
)
def test_bad_arguments_are_clear_errors(num: dict[str, int], seed: int, message: str) -> None:
    with pytest.raises(DebuggingError, match=message):
        generate_bugs(num, seed)  # type: ignore[arg-type]  # the point of the test


@settings(max_examples=60, deadline=None)
@given(program=programs, choice=st.integers(0, 10**6))
def test_every_edit_can_be_undone_by_an_edit(program: Program, choice: int) -> None:
    every = [edit for function in program.functions for edit in edits(program, function.name)]
    edit = every[choice % len(every)]
    broken = program.replaced(edit.function, edit.source)
    assert broken != program
    back = [broken.replaced(own.function, own.source) for own in edits(broken, edit.function)]
    assert program in back
    assert len(set(back)) == len(back)
    assert broken not in back


@settings(max_examples=60, deadline=None)
@given(program=programs)
def test_programs_are_plain_text_that_parses_to_itself_and_calls_only_what_stands_before(program: Program) -> None:
    assert ast.unparse(ast.parse(program.source)).split() == program.source.split()
    names = [function.name for function in program.functions]
    for number, (name, own) in enumerate(program.callees().items()):
        assert name == names[number]
        assert set(own) <= set(names[:number])
    kinds = {edit.kind for name in names for edit in edits(program, name)}
    assert kinds <= set(EDIT_KINDS)


@settings(max_examples=60, deadline=None)
@given(program=programs)
def test_reach_is_the_closure_of_calls(program: Program) -> None:
    callees = program.callees()
    names = list(callees)
    matrix = np.eye(len(names), dtype=int)
    for name, own in callees.items():
        matrix[names.index(name), [names.index(other) for other in own]] = 1
    closed = np.linalg.matrix_power(matrix, len(names)) > 0
    for name, found in reach(callees).items():
        assert {names[j] for j in np.flatnonzero(closed[names.index(name)])} == found


@given(seed=st.integers(0, 2**32))
def test_arguments_fit_the_kind(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = draw_arguments("pair", rng)
    xs, n = draw_arguments("map", rng)
    assert 0 <= a <= 12
    assert 0 <= b <= 12
    assert 3 <= len(xs) <= 6
    assert 1 <= n <= 9
