"""Broken programs: seeded mutants that fail at least one test of their program, in splits that share no program."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dualmind.domains.base import SPLITS, Split
from dualmind.domains.debugging.edits import Edit, edits
from dualmind.domains.debugging.program import Program, Test, draw_arguments, draw_program
from dualmind.domains.debugging.sandbox import Call, Job, Limits, Outcome, run
from dualmind.domains.drawing import check_numbers
from dualmind.errors import DebuggingError

NUM_TESTS = 6  # of the functions that no other calls
NUM_CHECKS = 3  # of each function by itself
_MAX_ATTEMPTS = 40
_MAX_MUTANTS = 6  # of a program that are tried
_MAX_VALUE = 10**6
_BATCH = 50  # programs in one process
LIMITS = Limits(call_s=0.02)  # a call takes microseconds, or goes on for ever


@dataclass(frozen=True, slots=True)
class Bug:
    """A broken program, its tests, and the one-place edits that may repair it."""

    id: str
    split: Split
    program: Program  # as it stands, broken
    tests: tuple[Test, ...]
    checks: Mapping[str, tuple[Test, ...]]  # of each function by itself
    repairs: tuple[Edit, ...]  # of all functions, in their order
    broken_by: Edit  # the truth; no agent sees it
    original: Program  # the truth as well


@dataclass(frozen=True, slots=True)
class Results:
    """What each test run of a bug gives. Programs are pure: a run gives the same however often it is made."""

    tests: tuple[Outcome, ...]
    checks: Mapping[str, tuple[Outcome, ...]]
    repaired: tuple[tuple[Outcome, ...], ...]  # of each repair, all tests


@dataclass(frozen=True, slots=True)
class _Draft:
    program: Program
    calls: tuple[Call, ...]  # the tests', then the checks'
    mutants: tuple[tuple[Program, Edit], ...]


def generate_bugs(num: Mapping[Split, int], seed: int) -> list[Bug]:
    """Draw bugs, one a program.

    A bug depends on the seed, its split and its number alone: held-out ones stay the same when more training ones are
    drawn.

    Args:
        num: bugs of each split, >= 0.
        seed: of everything, >= 0.

    Raises:
        DebuggingError: a number or the seed is negative, a split is unknown, or nothing is asked for.
    """
    check_numbers(num, seed, "debugging", "num", DebuggingError)
    seen: set[str] = set()
    drawn: dict[Split, list[Bug]] = {split: [] for split in SPLITS}
    for split in reversed(SPLITS):  # train, the first, comes last
        for start in range(0, num.get(split, 0), _BATCH):
            drawn[split] += _batch(split, range(start, min(start + _BATCH, num[split])), seed, seen)
    return [bug for split in SPLITS for bug in drawn[split]]


def rehearse(bugs: Sequence[Bug]) -> list[Results]:
    """Make every test run that an agent can ask for, many in one process.

    An episode looks its runs up here, and counts each as one.
    """
    results: list[Results] = []
    for start in range(0, len(bugs), _BATCH):
        some = bugs[start : start + _BATCH]
        jobs = [job for bug in some for job in _jobs(bug)]
        outcomes = iter(run(jobs, LIMITS))
        results += [_results(bug, outcomes) for bug in some]
    return results


def _jobs(bug: Bug) -> Iterator[Job]:
    tests = tuple(test.call for test in bug.tests)
    yield Job(bug.program.source, (*tests, *(test.call for own in bug.checks.values() for test in own)))
    for repair in bug.repairs:
        yield Job(bug.program.replaced(repair.function, repair.source).source, tests)


def _results(bug: Bug, outcomes: Iterator[list[Outcome]]) -> Results:
    first = iter(next(outcomes))
    tests = tuple(next(first) for _ in bug.tests)
    checks = {name: tuple(next(first) for _ in own) for name, own in bug.checks.items()}
    return Results(tests, checks, tuple(tuple(next(outcomes)) for _ in bug.repairs))


def _batch(split: Split, numbers: range, seed: int, seen: set[str]) -> list[Bug]:
    """Bugs of these numbers; a program that will not do is drawn again."""
    found: dict[int, Bug] = {}
    for attempt in range(_MAX_ATTEMPTS):
        missing = [number for number in numbers if number not in found]
        if not missing:
            break
        drafts = [_draft(np.random.default_rng([seed, SPLITS.index(split), n, attempt])) for n in missing]
        for number, draft, values, mutated in zip(missing, drafts, *_run(drafts), strict=True):
            bug = _bug(f"{split}-{seed}-{number}", split, draft, values, mutated)
            if bug is not None and bug.original.source not in seen:
                seen.add(bug.original.source)
                found[number] = bug
    if len(found) < len(numbers):
        raise DebuggingError(f"no sound program was drawn in {_MAX_ATTEMPTS} tries of seed {seed}; use another seed")
    return [found[number] for number in numbers]


def _draft(rng: np.random.Generator) -> _Draft:
    """A program, calls for its tests and checks, and some of its mutants, in a drawn order."""
    program = draw_program(rng)
    called = {name for own in program.callees().values() for name in own}
    tops = [function for function in program.functions if function.name not in called]
    under_test = [tops[number % len(tops)] for number in range(NUM_TESTS)]
    tested = [*under_test, *(function for function in program.functions for _ in range(NUM_CHECKS))]
    calls = tuple(Call(function.name, draw_arguments(function.kind, rng)) for function in tested)
    every = [edit for function in program.functions for edit in edits(program, function.name)]
    chosen = [every[int(i)] for i in rng.permutation(len(every))[:_MAX_MUTANTS]]
    mutants = tuple((program.replaced(edit.function, edit.source), edit) for edit in chosen)
    return _Draft(program, calls, mutants)


def _run(drafts: Sequence[_Draft]) -> tuple[list[list[Outcome]], list[list[list[Outcome]]]]:
    """What the true programs give for all calls, and each of their mutants for the tests."""
    true = [Job(draft.program.source, draft.calls) for draft in drafts]
    mutated = [Job(broken.source, draft.calls[:NUM_TESTS]) for draft in drafts for broken, _ in draft.mutants]
    outcomes = run([*true, *mutated], LIMITS)
    rest = iter(outcomes[len(true) :])
    return outcomes[: len(true)], [[next(rest) for _ in draft.mutants] for draft in drafts]


def _bug(
    name: str, split: Split, draft: _Draft, values: Sequence[Outcome], mutated: Sequence[Sequence[Outcome]]
) -> Bug | None:
    """The first mutant that fails a test, as a bug; None where the program or all its mutants will not do."""
    if not all(outcome.kind == "returned" and _is_small(outcome.value) for outcome in values):
        return None
    tests = [Test(call, outcome.value) for call, outcome in zip(draft.calls, values, strict=True)]
    own, rest = tuple(tests[:NUM_TESTS]), iter(tests[NUM_TESTS:])
    for (broken, edit), outcomes in zip(draft.mutants, mutated, strict=True):
        if not all(outcome.gives(test.expected) for outcome, test in zip(outcomes, own, strict=True)):
            checks = {f.name: tuple(next(rest) for _ in range(NUM_CHECKS)) for f in broken.functions}
            repairs = tuple(repair for function in broken.functions for repair in edits(broken, function.name))
            return Bug(name, split, broken, own, checks, repairs, edit, draft.program)
    return None


def _is_small(value: object) -> bool:
    numbers = value if isinstance(value, list) else [value]
    return all(isinstance(number, int) and abs(number) <= _MAX_VALUE for number in numbers)
