"""The calibration flow: last month's traffic proves a threshold, which is promoted; or the old one stays, and why.

    python -m flows.calibration            # the last month that is over
    python -m flows.calibration 2026-11    # another one; "current" for this month so far
    python -m flows.calibration --rollback "why"   # let the threshold before this one serve again

What is promoted: a threshold that is valid and differs from the one that serves, in its value or in what it promises.
What is kept, with the reason: the old one, where none is valid, where it is confirmed, or where there is no traffic of
the release that serves or too little of it is labelled. Drift is told and decides nothing: the proof is made from the
month itself. Whatever fails before the promotion leaves the old threshold serving; the promotion is one atomic step of
the store. A run that was killed is healed by running again.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import flows.settings  # noqa: F401  # before Prefect

# isort: split
from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact, create_table_artifact

from dualmind.calibration.drift import DriftReport
from dualmind.calibration.month import Frozen
from dualmind.calibration.production import Production, Store
from dualmind.calibration.threshold import Threshold
from dualmind.errors import DualmindError
from dualmind.evaluation.plots import risk_plot
from stages.params import load_params
from stages.recalibrate import DATA, OUT, Outcome
from tasks.calibration import (
    CalibrationParams,
    Period,
    alone,
    check_production,
    collect_month,
    drift_test,
    notify,
    open_store,
    validate_month,
    version_month,
)
from tasks.programs import ProcessGroups
from tasks.stage import FlowParams, run_stage

WHO = "flows.calibration"
_NO_SERVER = "Failed to reach API"  # how Prefect's error begins; it has no class of its own
_SHOWN_POINTS = 20  # of the risk curve in the artifact's table


@dataclass(frozen=True, slots=True)
class Decision:
    """What a calibration came to."""

    period: str
    action: Literal["promote", "keep"]
    reason: str
    before: Threshold  # that served
    serves: Threshold  # from now on
    frozen: Frozen | None  # None: the traffic could not be calibrated on
    drift: DriftReport | None  # None: there was nothing to compare with


@flow(name="calibration", validate_parameters=False)
def calibration(root: Path | str, month: str | None = None) -> Decision:
    """Calibrate on a month of traffic, and promote the threshold or keep the old one.

    Args:
        root: the project's folder; a deployment gives it as text.
        month: as in ``2026-11``, or ``current`` for this month so far; None: the last one that is over.

    Returns:
        What was decided.

    Raises:
        DualmindError: something failed, or another calibration is running; the old threshold serves.
    """
    root = Path(root).resolve()
    params = load_params(CalibrationParams, "calibration", root / "params.yaml")
    how = load_params(FlowParams, "flow", root / "params.yaml")
    period = Period.of(month, datetime.now(UTC))
    groups = ProcessGroups(1)
    try:
        with alone(root):
            decision = _calibrate(root, params, how, period, groups, open_store(root))
    except DualmindError as error:
        notify(params.webhook, f"calibration on {period.name} failed, the old threshold serves: {error}")
        raise
    except BaseException:  # Ctrl-C, SIGTERM, or Prefect cancels the run: no program may outlive it
        groups.stop()
        raise
    get_run_logger().info("%s: %s", decision.action, decision.reason)
    _show(decision)
    notify(params.webhook, f"calibration on {period.name}: {decision.action}: {decision.reason}")
    return decision


def _calibrate(
    root: Path, params: CalibrationParams, how: FlowParams, period: Period, groups: ProcessGroups, store: Store
) -> Decision:
    folder = root / params.production
    now = store.read(folder)
    check_production(now)
    frozen = collect_month(root, params, period, now)
    if isinstance(frozen, str):
        return _keep(store, folder, period, now, frozen, None, None)
    validate_month(root, period.name)
    drift = drift_test(root, params, period, now.labels)
    version_month(root, period.name, groups=groups, limit_s=60 * how.stage_limit_minutes)
    stage = run_stage.with_options(name=f"recalibrate@{period.name}")
    stage(f"recalibrate@{period.name}", root / DATA.parent, [], groups=groups, params=how)
    outcome = Outcome.read(root / OUT / period.name)
    _show_curve(json.loads((root / OUT / period.name / "risk_curve.json").read_bytes()), now.threshold)
    action, reason = decide(outcome, now.threshold, period.name)
    if action == "keep" or outcome.threshold is None:
        return _keep(store, folder, period, now, reason, frozen, drift)
    store.promote(folder, outcome.threshold, who=WHO, why=reason, time=datetime.now(UTC))
    return Decision(period.name, "promote", reason, now.threshold, outcome.threshold, frozen, drift)


def decide(outcome: Outcome, serves: Threshold, period: str) -> tuple[Literal["promote", "keep"], str]:
    """Promote or keep, and why."""
    new = outcome.threshold
    if new is None:
        return "keep", outcome.reason
    proof = f"{new.errors} of {new.n} audited answers of {period} wrong, bound {new.upper_bound:.4f} <= {new.alpha}"
    if (new.value, new.alpha, new.delta) == (serves.value, serves.alpha, serves.delta):
        return "keep", f"{serves.value} is confirmed: {proof}"
    return "promote", f"{serves.value} -> {new.value}: {proof}"


def _keep(
    store: Store,
    folder: Path,
    period: Period,
    now: Production,
    reason: str,
    frozen: Frozen | None,
    drift: DriftReport | None,
) -> Decision:
    store.keep(folder, who=WHO, why=f"{period.name}: {reason}", time=datetime.now(UTC))
    return Decision(period.name, "keep", reason, now.threshold, now.threshold, frozen, drift)


def _show(decision: Decision) -> None:
    """The decision as a table."""
    rows: list[dict[str, Any]] = [
        {"what": "decision", "value": decision.action},
        {"what": "reason", "value": decision.reason},
        {"what": "period", "value": decision.period},
        {"what": "threshold before", "value": decision.before.value},
        {"what": "threshold now", "value": decision.serves.value},
        {"what": "System 1's share now", "value": decision.serves.system1_share},
    ]
    if (frozen := decision.frozen) is not None:
        rows += [
            {"what": f"decisions of release {frozen.release}", "value": frozen.decisions},
            {"what": "decisions of other weights or gates, left out", "value": sum(frozen.others.values())},
            {"what": "drawn for the audit", "value": frozen.drawn},
            {"what": "labelled by the audit", "value": frozen.labelled},
            {"what": "answers given, by either system, that it judged", "value": frozen.judged},
            {"what": "wrong ones among them", "value": frozen.judged_wrong},
        ]
    drift = decision.drift
    rows.append({"what": "drift", "value": "not compared" if drift is None else _words(drift)})
    create_table_artifact(table=rows, key="calibration-decision", description=f"Calibration on {decision.period}")


def _words(drift: DriftReport) -> str:
    found = [f"{test.name} by {test.effect:.3f} (p {test.adjusted_p:.2g})" for test in drift.tests if test.drifted]
    return ", ".join(found) if found else "none"


def _show_curve(curve: dict[str, Any], serves: Threshold) -> None:
    """The risk curve as a picture and a table."""
    points = [point for point in curve["points"] if point["n"]]
    step = max(1, len(points) // _SHOWN_POINTS)
    lines = [
        f"| {p['threshold']:.4g} | {p['share']:.1%} | {p['n']} | {p['errors']} | {p['upper_bound']:.4f} |"
        for p in points[::step]
    ]
    head = ["| threshold | System 1's share | labelled | wrong | upper bound |", "|---|---|---|---|---|"]
    picture = risk_plot(points, curve["alpha"]) if points else ""
    title = f"## Risk of {curve['period']}: alpha {curve['alpha']}, delta {curve['delta']}, {serves.value} served"
    create_markdown_artifact("\n".join([title, "", picture, "", *head, *lines]), key="risk-curve")


def rollback(root: Path, why: str) -> Threshold:
    """Let the threshold before this one serve again; returns it.

    Raises:
        DualmindError: there is none, or a calibration is running.
    """
    folder = root / load_params(CalibrationParams, "calibration", root / "params.yaml").production
    with alone(root):
        store = open_store(root)
        store.rollback(folder, who=WHO, why=why, time=datetime.now(UTC))
        return store.read(folder).threshold


def main(arguments: list[str] | None = None) -> int:
    """Command line; 0 if a threshold was promoted or kept for a reason, 1 if something failed."""
    parser = argparse.ArgumentParser(prog="python -m flows.calibration", description="Calibrate on a month of traffic.")
    parser.add_argument("month", nargs="?", help='as in 2026-11, or "current"; default: the last month that is over')
    parser.add_argument("--rollback", metavar="WHY", help="let the threshold before this one serve again")
    given = parser.parse_args(arguments)
    try:
        if given.rollback is not None:
            print(f"threshold {rollback(Path.cwd(), given.rollback).value} serves again")
            return 0
        decision = calibration(Path.cwd(), given.month)
    except DualmindError as error:
        print(f"no calibration: {error}", file=sys.stderr)
        return 1
    except RuntimeError as error:
        if _NO_SERVER not in str(error):
            raise
        print(
            f"no calibration, the old threshold serves: {error}; start the Prefect server, or unset PREFECT_API_URL",
            file=sys.stderr,
        )
        return 1
    print(f"{decision.action}: {decision.reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
