"""The debugging domain: which function to check, what to run, look deeper or move on, and which repair to try.

    run test 3              1 test run
    inspect larch           the next of larch's own checks, 1 test run
    deeper / move on        the same for a function that the last one calls, or for one that it does not reach
    patch larch 12          tries a repair: failing tests first, then the others, until one fails; each is a test run

An episode is solved when a repaired program passes all tests, and over when its test runs are used up.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np

from dualmind.domains.base import Decision, Problem, Split
from dualmind.domains.debugging.bugs import NUM_CHECKS, Bug, Results, rehearse
from dualmind.domains.debugging.evidence import CHANGED, CURED, FAILED, PASSED, SAME, UNKNOWN, UNTRIED, Evidence
from dualmind.domains.debugging.program import Test
from dualmind.domains.debugging.sandbox import Outcome
from dualmind.errors import DebuggingError

BUDGET = 24  # test runs of an episode; on training programs the expert repairs three of four, chance one of four
Info = dict[str, Any]


class DebuggingEpisode(gymnasium.Env[str, str]):
    """One bug as an environment over text.

    ``info`` holds ``admissible_commands``, what a model reads (``prompt`` and ``candidates``), the ``runs`` used, and
    the ``progress`` that the last command made: see :class:`~dualmind.domains.debugging.evidence.Evidence`. The reward
    is 1 when the bug is repaired and 0 before.
    """

    def __init__(self, bug: Bug, results: Results, budget: int = BUDGET) -> None:
        """Args are the bug, what its test runs give, and how many of them there are, at least 1."""
        if budget < 1:
            raise DebuggingError(f"a budget of {budget} test runs; give at least 1")
        self.bug, self.budget = bug, budget
        self.results = results
        self.action_space = gymnasium.spaces.Text(max_length=100)
        self.observation_space = gymnasium.spaces.Text(max_length=20_000)
        counts: dict[str, int] = {}
        self._patches: list[str] = []
        for repair in bug.repairs:
            counts[repair.function] = counts.get(repair.function, -1) + 1
            self._patches.append(f"patch {repair.function} {counts[repair.function]}")
        self.commands = (
            *(f"run test {number}" for number in range(len(bug.tests))),
            *(f"inspect {function.name}" for function in bug.program.functions),
            "deeper",
            "move on",
            *self._patches,
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, Info]:
        """Start again; programs hold no chance, so ``seed`` changes nothing."""
        super().reset(seed=seed, options=options)
        self.evidence = Evidence(self.bug)
        self.runs, self.solved = 0, False
        self._last = "nothing"
        return self.bug.program.source, self._info(0.0)

    @property
    def left(self) -> float:
        """Share of the test runs that is left."""
        return 1 - self.runs / self.budget

    def admissible(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which of ``commands`` can be given (commands,)."""
        own = self.evidence
        looks = [own.deeper() >= 0, own.move_on() >= 0]
        return np.concatenate(
            [own.tests == UNKNOWN, own.checks.sum(1) < NUM_CHECKS, looks, own.effects == UNTRIED]
        ).astype(np.bool_)

    def step(self, action: str) -> tuple[str, float, bool, bool, Info]:
        """Give a command.

        Raises:
            DebuggingError: the command is not admissible.
        """
        number = self.commands.index(action) if action in self.commands else -1
        if number < 0 or not self.admissible()[number] or self.solved or self.runs >= self.budget:
            raise DebuggingError(
                f"bug {self.bug.id}: {action!r} cannot be done now; take one of the admissible commands"
            )
        num_tests = len(self.bug.tests)
        kind, _, rest = action.partition(" ")
        match kind:
            case "run":
                progress = self._run_test(number)
            case "inspect":
                progress = self._inspect(number - num_tests)
            case "deeper":
                progress = self._inspect(self.evidence.deeper())
            case "move":
                progress = self._inspect(self.evidence.move_on())
            case _:
                progress = self._patch(number - (len(self.commands) - len(self._patches)), rest)
        ended = not self.solved and (self.runs >= self.budget or not self.admissible().any())
        return self._last, float(self.solved), self.solved, ended, self._info(progress)

    def _run_test(self, number: int) -> float:
        self.runs += 1
        test, outcome = self.bug.tests[number], self.results.tests[number]
        self._last = f"test {number} : {test.call} : {verdict(test, outcome)}"
        return self.evidence.saw_test(number, outcome.gives(test.expected))

    def _inspect(self, function: int) -> float:
        self.runs += 1
        name = self.evidence.names[function]
        check = int(self.evidence.checks[function].sum())
        test, outcome = self.bug.checks[name][check], self.results.checks[name][check]
        self._last = f"check : {test.call} : {verdict(test, outcome)}"
        return self.evidence.saw_check(function, outcome.gives(test.expected))

    def _patch(self, number: int, words: str) -> float:
        """Run the tests of a repaired program, those known to fail first, until one fails."""
        outcomes = self.results.repaired[number]
        known = self.evidence.tests == FAILED
        order = [int(i) for i in np.argsort(~known, kind="stable")]
        before, passed, effect = self.runs, 0, SAME
        for test in order[: self.budget - self.runs]:
            self.runs += 1
            self._last = f"patch {words} : test {test} : {verdict(self.bug.tests[test], outcomes[test])}"
            if not outcomes[test].gives(self.bug.tests[test].expected):
                if known[test] and outcomes[test] != self.results.tests[test]:
                    effect = CHANGED
                break
            passed += 1
        if passed and known[order[0]]:
            effect = CURED
        self.solved = passed == len(order)
        return self.evidence.saw_repair(number, effect, self.runs - before)

    def _info(self, progress: float) -> Info:
        commands = [self.commands[i] for i in np.flatnonzero(self.admissible())]
        return {
            "admissible_commands": commands,
            "prompt": self.prompt(),
            "candidates": tuple(commands),
            "runs": self.runs,
            "progress": progress,
        }

    def prompt(self) -> str:
        """What has been seen, as a model reads it: the program's calls, results so far, and the last one in full."""
        own = self.evidence
        results = {PASSED: "passed", FAILED: "failed"}
        tests = [f"{i} {results[state]}" for i, state in enumerate(own.tests) if state != UNKNOWN]
        lines = [
            f"{name}{' calls ' + ' '.join(np.array(own.names)[own.calls[i]]) if own.calls[i].any() else ''}"
            f" : {own.checks[i, 0]} passed {own.checks[i, 1]} failed"
            f"{' suspect' if own.suspects[i] else ''}{' focus' if own.focus == i else ''}"
            for i, name in enumerate(own.names)
        ]
        words = {SAME: "no effect", CHANGED: "another value", CURED: "failing test passes"}
        tried = [
            f"{patch.removeprefix('patch ')} ( {repair.words} ) {words[effect]}"
            for patch, repair, effect in zip(self._patches, self.bug.repairs, own.effects, strict=True)
            if effect != UNTRIED
        ]
        return (
            f"debug : {self.budget - self.runs} runs left | tests : {_listed(tests)} | functions : {_listed(lines)} "
            f"| tried : {_listed(tried)} | last : {self._last}"
        )


class Debugging:
    """Bugs as a domain (see :class:`dualmind.domains.base.Domain`)."""

    name = "debugging"

    def __init__(self, bugs: Sequence[Bug], budget: int = BUDGET) -> None:
        """Args are the bugs and the test runs of an episode."""
        self._bugs: dict[Split, list[Bug]] = {}
        for bug in bugs:
            self._bugs.setdefault(bug.split, []).append(bug)
        self._results: dict[str, Results] = {}
        self._budget = budget

    def problems(self, split: Split) -> Sequence[Problem]:
        """All bugs of a split, in the order of their source."""
        return [as_problem(bug) for bug in self._bugs.get(split, [])]

    def episode(self, problem: Problem) -> DebuggingEpisode:
        """The bug as an environment over text."""
        bug: Bug = problem.payload
        if bug.id not in self._results:
            (self._results[bug.id],) = rehearse([bug])
        return DebuggingEpisode(bug, self._results[bug.id], self._budget)

    def expert(self, problem: Problem) -> Iterator[Decision]:
        """Decisions of a debugger that knows only what it has seen; it may run out of test runs."""
        episode = self.episode(problem)
        _, info = episode.reset()
        ended = False
        while not ended:
            command, why = choose(episode)
            yield Decision(info["prompt"], info["candidates"], command, why)
            _, _, solved, truncated, info = episode.step(command)
            ended = solved or truncated

    def check_step(self, problem: Problem, steps: Sequence[str]) -> bool:
        """Is the last command admissible after those before it?"""
        return not steps or self._played(problem, steps) is not None

    def score(self, problem: Problem, steps: Sequence[str]) -> float:
        """1 if the commands repair the program, else 0."""
        episode = self._played(problem, steps)
        return float(episode is not None and episode.solved)

    def _played(self, problem: Problem, steps: Sequence[str]) -> DebuggingEpisode | None:
        """The episode after these commands; None where one of them could not be given."""
        episode = self.episode(problem)
        episode.reset()
        try:
            for command in steps:
                episode.step(command)
        except DebuggingError:
            return None
        return episode


def choose(episode: DebuggingEpisode) -> tuple[str, str]:
    """A careful debugger's next command and why: find a failing test, descend to what fails by itself, try repairs."""
    own, commands = episode.evidence, [episode.commands[i] for i in np.flatnonzero(episode.admissible())]
    if FAILED not in own.tests:
        for command in commands:
            if command.startswith("run test"):
                return command, "find a failing test"
    failing = [i for i in np.flatnonzero(own.suspects) if own.checks[i, 1] > 0]
    doubtful = [i for i in np.flatnonzero(own.suspects) if own.checks[i].sum() < 2 and not own.checks[i, 1]]
    if doubtful and (not failing or min(doubtful) < min(failing)) and len(doubtful) > 1:
        return f"inspect {own.names[doubtful[len(doubtful) // 2]]}", "halve the suspects"
    best = min(failing) if failing else max(np.flatnonzero(own.suspects))
    order = sorted(np.flatnonzero(own.effects == UNTRIED), key=lambda r: _hopeless(own, int(r), int(best)))
    if order:
        return episode.commands[len(episode.commands) - len(own.effects) + int(order[0])], f"repair {own.names[best]}"
    return commands[0], "nothing else is left"


def _hopeless(own: Evidence, repair: int, best: int) -> tuple[bool, bool, bool, bool]:
    """Orders repairs: of the best function, at sites where none cured nor did nothing, those that mattered first."""
    beside = own.effects[own.repair_site == own.repair_site[repair]]
    function = own.repair_function[repair]
    return bool(function != best), not own.suspects[function], SAME in beside, CHANGED not in beside


def verdict(test: Test, outcome: Outcome) -> str:
    """A test's result in words."""
    if outcome.gives(test.expected):
        return "passed"
    if outcome.kind == "returned":
        return f"failed : got {outcome.value} , expected {test.expected}"
    return f"{'failed' if outcome.kind == 'raised' else outcome.kind} : {outcome.message}"


def as_problem(bug: Bug) -> Problem:
    """A bug as a problem of this domain; its hops are the functions that may be at fault."""
    return Problem(
        id=bug.id,
        domain=Debugging.name,
        text=bug.program.source,
        hops=len(bug.program.functions),
        split=bug.split,
        payload=bug,
    )


def _listed(words: Sequence[str]) -> str:
    return " , ".join(words) if words else "nothing"
