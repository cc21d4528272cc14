"""What a debugger has seen of a bug: its program's structure, and what its own test runs gave. Nothing hidden.

A failing call shows that the broken function is among those that the called one reaches (there is one bug); a passing
call proves nothing, as a test may miss it.
"""

import numpy as np
from numpy.typing import NDArray

from dualmind.domains.debugging.bugs import NUM_CHECKS, Bug
from dualmind.domains.debugging.edits import EDIT_KINDS
from dualmind.domains.debugging.program import reach

Array = NDArray[np.float64]
UNKNOWN, PASSED, FAILED = 0, 1, -1
UNTRIED, SAME, CHANGED, CURED = 0, 1, 2, 3  # what a repair did to the failing test: nothing, another value, it passes
FUNCTION_FEATURES = 12
WIDTH = 6 + FUNCTION_FEATURES + 15  # of a command's features

_RUN_REWARD, _FIRST_FAILURE, _CHANGE, _CURE = -0.02, 0.5, 0.02, 0.5


class Evidence:
    """Kept by an episode, and read by its policies.

    Attributes:
        names: functions, callees first; all indices of functions are into it.
        suspects: which functions may be the broken one (functions,).
        tests: UNKNOWN, PASSED or FAILED for each test.
        checks: how many checks of each function have passed and failed (functions, 2).
        effects: UNTRIED, SAME, CHANGED or CURED for each repair.
        focus: the function that was last looked at, -1 at the start.
    """

    def __init__(self, bug: Bug) -> None:
        callees = bug.program.callees()
        self.names = tuple(callees)
        number = len(self.names)
        index = {name: i for i, name in enumerate(self.names)}
        below = reach(callees)
        self.reaches = np.array([[other in below[name] for other in self.names] for name in self.names])
        self.calls = np.array([[other in callees[name] for other in self.names] for name in self.names])
        self.test_function = np.array([index[test.call.function] for test in bug.tests])
        self.repair_function = np.array([index[repair.function] for repair in bug.repairs])
        self.repair_site = np.array([1000 * index[r.function] + r.site for r in bug.repairs])
        self._repair_kind = np.array([[r.kind == kind for kind in EDIT_KINDS] for r in bug.repairs], dtype=np.float64)
        self._same_site = (self.repair_site[:, None] == self.repair_site).astype(np.float64)  # (repairs, repairs)
        self._same_kind = self._repair_kind @ self._repair_kind.T  # (repairs, repairs)
        self.suspects = np.ones(number, dtype=bool)
        self.tests = np.full(len(bug.tests), UNKNOWN)
        self.checks = np.zeros((number, 2), dtype=np.int64)
        self.effects = np.full(len(bug.repairs), UNTRIED)
        self.focus = -1

    def saw_test(self, number: int, passed: bool) -> float:
        """Take in a test's result; returns the reward of it, see :meth:`_narrowed`."""
        first = FAILED not in self.tests and not passed
        self.tests[number] = PASSED if passed else FAILED
        return _FIRST_FAILURE * first + self._narrowed(int(self.test_function[number]), passed)

    def saw_check(self, function: int, passed: bool) -> float:
        """Take in the result of one of a function's checks; returns the reward."""
        self.checks[function, int(not passed)] += 1
        self.focus = function
        return self._narrowed(function, passed)

    def saw_repair(self, number: int, effect: int, runs: int) -> float:
        """Take in what a repair did, short of passing all tests; returns the reward."""
        self.effects[number] = effect
        self.focus = int(self.repair_function[number])
        return _RUN_REWARD * runs + {CHANGED: _CHANGE, CURED: _CURE}.get(effect, 0.0)

    def _narrowed(self, function: int, passed: bool) -> float:
        """What a run is worth: the suspects that it cleared, in nats, less its cost."""
        before = int(self.suspects.sum())
        if not passed:
            self.suspects &= self.reaches[function]
        return float(np.log(before / max(1, self.suspects.sum()))) + _RUN_REWARD

    def deeper(self) -> int:
        """The callee of the focus that was checked least, the one called last first; -1 where none can be checked."""
        return self._least(self.calls[self.focus]) if self.focus >= 0 else -1

    def move_on(self) -> int:
        """Of what the focus does not reach, the function that was checked least; -1 where none can be checked."""
        return self._least(~self.reaches[self.focus]) if self.focus >= 0 else self._least(np.ones_like(self.suspects))

    def _least(self, among: NDArray[np.bool_]) -> int:
        done = self.checks.sum(1)
        open_ones = np.flatnonzero(among & (done < NUM_CHECKS))[::-1]
        return int(open_ones[done[open_ones].argmin()]) if len(open_ones) else -1

    def function_features(self) -> Array:
        """What is known of each function (functions, FUNCTION_FEATURES), all about 0 to 1."""
        passed, failed = self.checks[:, 0] / NUM_CHECKS, self.checks[:, 1] / NUM_CHECKS
        calls = self.calls.astype(np.float64)
        cleared = (self.checks[:, 0] > 0) & (self.checks[:, 1] == 0)
        failing = np.bincount(self.test_function, self.tests == FAILED, len(self.names)) + self.checks[:, 1]
        passing = np.bincount(self.test_function, self.tests == PASSED, len(self.names)) + self.checks[:, 0]
        tries = [np.bincount(self.repair_function, self.effects == e, len(self.names)) for e in (SAME, CHANGED, CURED)]
        size = np.bincount(self.repair_function, minlength=len(self.names))
        focus = np.arange(len(self.names)) == self.focus
        return np.stack(
            [
                self.suspects,
                passed,
                failed,
                (calls * ~cleared).sum(1) == 0,  # all callees look sound
                (calls * (failed > 0)).sum(1) > 0,  # a callee fails
                failing @ self.reaches / max(1, failing.sum()),
                passing @ self.reaches / max(1, passing.sum()),
                size / 20,
                tries[0] / np.maximum(size, 1),
                tries[1] / np.maximum(size, 1),
                tries[2] > 0,
                focus,
            ],
            axis=1,
        ).astype(np.float64)

    def situation(self, left: float) -> Array:
        """What is known as a whole (6,); ``left`` is the share of the test runs that is left."""
        tried = (self.effects != UNTRIED).mean()
        known = FAILED in self.tests
        looked = self.checks.sum() / self.checks.size
        suspects = np.log(max(1, self.suspects.sum())) / np.log(len(self.suspects))
        return np.array([left, known, (self.tests != UNKNOWN).mean(), suspects, looked, tried], dtype=np.float64)

    def features(self, left: float) -> Array:
        """Features of every command, admissible or not, in the order of the episode's commands (commands, WIDTH)."""
        functions, tests = len(self.names), len(self.tests)
        deeper, on = self.deeper(), self.move_on()
        of = np.concatenate([self.test_function, np.arange(functions), [deeper, on], self.repair_function])
        own = np.zeros((len(of), 15))
        own[:tests, 0] = 1
        reached = self.reaches[self.test_function]
        own[:tests, 1] = (reached & self.suspects).sum(1) / max(1, self.suspects.sum())
        own[tests : tests + functions, 2] = 1
        own[tests + functions, 3] = own[tests + functions + 1, 4] = 1
        repairs = own[tests + functions + 2 :]
        repairs[:, 5] = 1
        repairs[:, 6:11] = self._repair_kind
        effects = self.effects[:, None] == (SAME, CHANGED, CURED)  # (repairs, 3)
        repairs[:, 11:14] = self._same_site @ effects > 0
        repairs[:, 14] = self._same_kind @ effects[:, 0] / len(self.effects)
        whole = np.broadcast_to(self.situation(left), (len(of), 6))
        return np.concatenate([whole, self.function_features()[of], own], axis=1)
