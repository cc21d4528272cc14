"""How often is the true error of accepted answers above alpha? Six ways to choose a threshold, 500 times each.

Every run draws labelled decisions from a population whose true error at every threshold is known: a synthetic one, or
any (score, correct) pairs, resampled with replacement. Then months of traffic with voluntary feedback that is biased,
wrong answers reported five times as often, or a fifth as often: what the proof makes of them, which reads the audit
alone, and what trusting the feedback would have done. And the monitor's false alarms and delays.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from mapie.risk_control import BinaryClassificationController, precision

from benchmarks.results_file import Row, write_rows
from dualmind.calibration.monitor import log_wealth_paths
from dualmind.calibration.sample import Sample
from dualmind.calibration.threshold import start_of, walk
from dualmind.errors import DataError, NoValidThreshold
from dualmind.evaluation.intervals import Interval, bootstrap_mean, wilson

ALPHA, DELTA, LEVEL = 0.05, 0.1, 0.05
GRID = np.linspace(0, 0.99, 100)
RUNS, LABELS, POPULATION = 500, 1000, 200_000
MOST_SHARE = 0.85  # of requests that System 1 is to take: what a quantile rule is told
QUIET_LABELS = 12 * 500  # a year of 500 labels a month
WITHIN = 500  # labels in which a shift is to be seen
STREAMS = 1000
DECISIONS = 20_000  # of a month with feedback, of which LABELS / DECISIONS are audited
REPORTED = 0.02  # share of right answers on which a visitor says something
NOTHING = np.inf  # a threshold that accepts no answer: System 2 takes all

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Rule = Callable[[Floats, Bools], float]


@dataclass(frozen=True, slots=True)
class Population:
    """All decisions there are, sorted by score."""

    scores: Floats  # (N,) ascending
    correct: Bools  # (N,)
    errors_from: Floats  # (N,) mean error of this decision and all above it

    @classmethod
    def of(cls, scores: Floats, correct: Bools) -> "Population":
        """From pairs in any order."""
        order = np.argsort(scores, kind="stable")
        wrong = (~correct[order])[::-1]
        return cls(scores[order], correct[order], (np.cumsum(wrong) / np.arange(1, len(wrong) + 1))[::-1])

    def draw(self, rng: np.random.Generator, weights: Floats | None = None) -> tuple[Floats, Bools]:
        """Labelled decisions, independent; with weights: those that somebody chose to report."""
        rows = rng.choice(len(self.scores), LABELS, p=weights)
        return self.scores[rows], self.correct[rows]

    def at(self, threshold: float) -> tuple[float, float]:
        """True error of what a threshold accepts (0 for nothing) and the share that it accepts."""
        first = int(np.searchsorted(self.scores, threshold))
        error = float(self.errors_from[first]) if first < len(self.scores) else 0.0
        return error, 1 - first / len(self.scores)


def synthetic(rng: np.random.Generator) -> Population:
    """A System 1 that is wrong in 13 %, with scores that rank well but not perfectly and errors even at the top."""
    scores = rng.beta(3, 1.2, POPULATION)
    error = 0.01 + 0.6 * (1 - scores) ** 1.5 + 0.06 * (np.abs(scores - 0.8) < 0.04)  # confident loops around 0.8
    return Population.of(scores, rng.random(POPULATION) >= error)


def from_file(path: Path) -> Population:
    """Arrays ``score`` (numbers) and ``correct`` (0 or 1) of an ``.npz`` file.

    Raises:
        DataError: the file lacks one, they differ in length, or a score is not finite.
    """
    with np.load(path) as arrays:
        missing = {"score", "correct"} - set(arrays)
        if missing:
            raise DataError(f"{path} has no array {', '.join(sorted(missing))}; save both with numpy.savez")
        scores, correct = arrays["score"].astype(np.float64), arrays["correct"]
    if not len(scores):
        raise DataError(f"{path} has no decisions; save at least one")
    sample = Sample.of(scores, correct, GRID)
    return Population.of(sample.scores, sample.correct)


def ours(scores: Floats, correct: Bools) -> float:
    """The walk that dualmind proves its threshold by."""
    try:
        return walk(Sample.of(scores, correct, GRID), ALPHA, DELTA).value
    except NoValidThreshold:
        return NOTHING


def best_on_validation(scores: Floats, correct: Bools) -> float:
    """The loosest threshold whose error on the labelled decisions is at most alpha."""
    errors = Population.of(scores, correct)
    return min((float(level) for level in GRID if errors.at(level)[0] <= ALPHA), default=NOTHING)


def quantile(scores: Floats, _: Bools) -> float:
    """RouteLLM's rule (Ong et al. 2024, ``calibrate_threshold``): the share to keep is given, labels play no part."""
    return float(np.quantile(scores, 1 - MOST_SHARE))


def mapie(scores: Floats, correct: Bools, grid: Floats, method: str) -> float:
    """MAPIE's controller of precision, which tests by Hoeffding-Bentkus."""
    controller = BinaryClassificationController(
        lambda X: np.column_stack([1 - X[:, 0], X[:, 0]]),
        precision,
        target_level=1 - ALPHA,
        confidence_level=1 - DELTA,
        list_predict_params=grid,
        fwer_method=method,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where no threshold is valid, and that is an answer
        controller.calibrate(scores[:, None], correct.astype(int))
    return float(min(controller.valid_predict_params, default=NOTHING))


def mapie_default(scores: Floats, correct: Bools) -> float:
    """As it comes: Bonferroni-Holm over the whole grid."""
    return mapie(scores, correct, GRID, "bonferroni_holm")


def mapie_sequence(scores: Floats, correct: Bools) -> float:
    """With our walk's order and start: what is left of the difference is the test's."""
    sample = Sample.of(scores, correct, GRID)
    start = start_of(sample.accepted, ALPHA, DELTA)  # all are labelled, so these are the labelled ones
    return mapie(scores, correct, sample.grid[start:], "fixed_sequence") if start < len(GRID) else NOTHING


MAPIES = ("MAPIE 1.6 by default (Bonferroni-Holm)", "MAPIE 1.6, fixed sequence from our start")
RULES: dict[str, Rule] = {
    "ours": ours,
    "0.7 fixed": lambda scores, correct: 0.7,  # noqa: ARG005  # it looks at nothing
    "best on validation": best_on_validation,
    "RouteLLM's quantile for 85 %": quantile,
    MAPIES[0]: mapie_default,
    MAPIES[1]: mapie_sequence,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a rule did over all runs."""

    above: Interval  # share of runs whose true error is above alpha
    error: Interval  # true error
    share: Interval  # of requests that System 1 keeps
    shares: tuple[float, ...]  # the same, run by run

    @classmethod
    def of(cls, found: Sequence[tuple[float, float]], rng: np.random.Generator) -> "Outcome":
        """From the true error and the share of each run."""
        errors, shares = zip(*found, strict=True)
        above = sum(error > ALPHA for error in errors)
        return cls(wilson(above, len(found)), bootstrap_mean(errors, rng), bootstrap_mean(shares, rng), shares)

    def __str__(self) -> str:
        return f"true error {self.error.value:.4f}, System 1 share {self.share.value:.3f}"


def repeat(population: Population, rule: Rule, seed: int, weights: Floats | None = None) -> Outcome:
    """Run a rule RUNS times; the same seed gives all rules the same labels."""
    rng = np.random.default_rng(seed)
    return Outcome.of([population.at(rule(*population.draw(rng, weights))) for _ in range(RUNS)], rng)


def more_than_mapie(outcomes: Mapping[str, Outcome]) -> tuple[Interval, str]:
    """System 1's share by our walk minus that by MAPIE's best control, on the same labels; and which one was best."""
    ours, best = outcomes["ours"], max(MAPIES, key=lambda name: outcomes[name].share.value)
    gained = np.subtract(ours.shares, outcomes[best].shares)
    words = f"ours {ours.share.value:.4f}, {best} {outcomes[best].share.value:.4f}, its best control"
    return bootstrap_mean(gained.tolist(), np.random.default_rng(1)), words


def month(population: Population, times: float, rng: np.random.Generator) -> pa.Table:
    """A month of decisions with the audit's labels on a uniform sample, and biased feedback on others."""
    rows = rng.integers(len(population.scores), size=DECISIONS)
    correct, audited = population.correct[rows], rng.random(DECISIONS) < LABELS / DECISIONS
    told = rng.random(DECISIONS) < REPORTED * np.where(correct, 1.0, times)
    source = np.where(audited, "scorer", "feedback").astype(object)  # an audit's label goes before feedback
    source[~audited & ~told] = None
    return pa.table(
        {
            "score": population.scores[rows],
            "audited": audited,
            "correct": pa.array(correct, mask=~audited & ~told),
            "label_source": pa.array(source, pa.string()),
        }
    )


def on_months(population: Population, times: float, seed: int) -> Outcome:
    """Prove a threshold on RUNS months with feedback, as a calibration reads them."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(RUNS):
        sample = Sample.collect(month(population, times, rng).to_batches(), GRID)
        try:
            value = walk(sample, ALPHA, DELTA).value
        except NoValidThreshold:
            value = NOTHING
        found.append(population.at(value))
    return Outcome.of(found, rng)


def feedback_weights(population: Population, times: float) -> Floats:
    """Probabilities with which decisions are reported, if wrong ones are ``times`` as often as right ones."""
    weights = np.where(population.correct, 1.0, times)
    return np.asarray(weights / weights.sum())


def shift(rate: float, quiet_labels: int, seed: int) -> tuple[Interval, str]:
    """Share of monitors that see an error rate within WITHIN labels after a quiet time; and the delays in words."""
    rng = np.random.default_rng(seed)
    rates = np.concatenate([np.full(quiet_labels, 0.03), np.full(2 * WITHIN, rate)])
    alarms = log_wealth_paths(rng.random((STREAMS, len(rates))) < rates, ALPHA) >= np.log(1 / LEVEL)
    quiet = ~alarms[:, :quiet_labels].any(axis=1)  # a false alarm before is counted elsewhere
    after = alarms[quiet, quiet_labels:]
    delays = np.where(after.any(axis=1), after.argmax(axis=1) + 1, 2 * WITHIN)
    middle, late = np.median(delays), np.quantile(delays, 0.9)
    words = f"median delay {middle:.0f} labels, 90 % within {late:.0f}"
    return wilson(int((delays <= WITHIN).sum()), len(delays)), words


def false_alarms(rate: float, seed: int) -> Interval:
    """Share of monitors that ever alarm in a year in which the promise is kept, looked at after every label."""
    wrong = np.random.default_rng(seed).random((STREAMS, QUIET_LABELS)) < rate
    return wilson(int((log_wealth_paths(wrong, ALPHA).max(axis=1) >= np.log(1 / LEVEL)).sum()), STREAMS)


def threshold_rows(population: Population, kind: str, row: Callable[..., Row]) -> list[Row]:
    """All rules on audit labels, then ours on feedback."""
    outcomes = {name: repeat(population, rule, seed=1) for name, rule in RULES.items()}
    best = min((float(level) for level in GRID if population.at(level)[0] <= ALPHA), default=NOTHING)
    known = f"the loosest threshold that is truly valid keeps {population.at(best)[1]:.3f}"
    rows = [
        row(
            f"runs with a true error above {ALPHA}: {name}, {LABELS} audit labels, {kind}",
            "share",
            found.above,
            DELTA if name == "ours" else None,
            f"{found}; {known}",
        )
        for name, found in outcomes.items()
    ]
    share, words = more_than_mapie(outcomes)
    rows.append(
        row(f"System 1's share at equal guarantee, runs of ours minus MAPIE's best, {kind}", "share", share, 0.0, words,
            at_most=False)
    )  # fmt: skip
    for times in (5.0, 0.2):
        found = on_months(population, times, seed=5)
        claim = (
            f"runs with a true error above {ALPHA}: ours, wrong answers are reported {times:g} times as often, {kind}"
        )
        about = f"{found}; months of {DECISIONS:,} decisions, {LABELS} of them audited at random; feedback is not read"
        rows.append(row(claim, "share", found.above, DELTA, about))
        found = repeat(population, ours, seed=2, weights=feedback_weights(population, times))
        words = f"{found}; the same from audit labels: {outcomes['ours'].above.value:.3f}, {outcomes['ours']}"
        claim = (
            f"runs with a true error above {ALPHA}: trusting feedback, wrong answers {times:g} times as often, {kind}"
        )
        rows.append(row(claim, "share", found.above, None, words))
    return rows


def monitor_rows(row: Callable[..., Row]) -> list[Row]:
    """False alarms over a quiet year, and shifts seen in time."""
    rows = [
        row(
            f"monitors with a false alarm in a quiet year, true error {rate}",
            "share",
            false_alarms(rate, seed=3),
            LEVEL,
            f"level {LEVEL}, looked at after each of {QUIET_LABELS} labels",
        )
        for rate in (0.03, 0.045)
    ]
    for quiet_labels, when in ((0, "from the start"), (QUIET_LABELS, "after a quiet year at 0.03")):
        for rate in (0.10, 0.125, 0.15):
            found, words = shift(rate, quiet_labels, seed=4)
            claim = f"monitors that see an error of {rate} within {WITHIN} labels, {when}"
            rows.append(row(claim, "share", found, 0.5, words, at_most=False))
    return rows


def main() -> None:
    """Run all rules and the monitor and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decisions", type=Path, help="an .npz file with arrays score and correct; default: synthetic")
    path: Path | None = parser.parse_args().decisions
    begun = time.monotonic()
    population = from_file(path) if path else synthetic(np.random.default_rng(0))

    def row(
        claim: str, unit: str, found: Interval, target: float | None, baseline: str, *, at_most: bool = True
    ) -> Row:
        words: dict[str, Any] = {
            "claim": claim,
            "unit": unit,
            "baseline": baseline,
            "seeds": RUNS if "runs" in claim else STREAMS,
            "command": f"python -m benchmarks.calibration_validity{' --decisions FILE' if path else ''}",
        }
        return Row.of(found, target=target, at_most=at_most, begun=begun, **words)

    rows = threshold_rows(population, "given decisions" if path else "synthetic decisions", row) + monitor_rows(row)
    print(write_rows("calibration_validity", rows).read_text())


if __name__ == "__main__":
    main()
