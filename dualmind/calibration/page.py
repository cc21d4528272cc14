"""What happened in a few months of calibrations, as one self-contained page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from dualmind.calibration.monitor import Monitor
from dualmind.calibration.production import Change
from dualmind.evaluation.plots import lines, risk_plot
from dualmind.html import page, table, tiles

_POINTS = 200  # of a line in a plot


@dataclass(frozen=True, slots=True)
class Month:
    """One month and what was found."""

    name: str
    served: float  # the threshold
    curve: Mapping[str, Any]  # contents of risk_curve.json
    verdicts: Sequence[bool]  # of the audit on accepted answers, in the order of time: was the answer right?


def render_history(
    months: Sequence[Month], changes: Sequence[Change], runs: Sequence[tuple[str, str]], level: float
) -> str:
    """The page.

    Args:
        months: in order.
        changes: what happened to thresholds, oldest first; at least one.
        runs: (what was run, how it ended).
        level: probability of a false alarm of the monitor.
    """
    shares = [(f"threshold in {month.name}", f"{month.served:.3f}") for month in months]
    history = [
        [f"{change.time:%Y-%m-%d %H:%M:%S}", change.kind, change.who, change.why, f"{change.threshold.value:.3f}"]
        for change in changes
    ]
    return page(
        "Calibration: what happened",
        "Each month's traffic proves the threshold from which System 1 may answer alone, or the old one stays.",
        [
            "<h2>At a glance</h2>" + tiles([*shares, ("threshold now", f"{changes[-1].threshold.value:.3f}")]),
            "<h2>What served, and why</h2>"
            + table(["time (UTC)", "what", "who", "why", "threshold"], history, numbers=1),
            *(_month(month, level) for month in months),
            "<h2>What was run</h2>" + table(["run", "state"], [list(run) for run in runs]),
        ],
    )


def _month(month: Month, level: float) -> str:
    points = [point for point in month.curve["points"] if point["n"]]
    alpha = float(month.curve["alpha"])
    wrong = sum(not right for right in month.verdicts)
    monitor = Monitor.start(alpha, level)
    path = []
    for at, right in enumerate(month.verdicts, start=1):
        monitor = monitor.after([right])
        path.append((float(at), max(0.0, monitor.log_wealth)))
    step = max(1, len(path) // _POINTS)
    alarm = f"alarm after {monitor.alarm_at} labels" if monitor.alarm else "no alarm"
    text = (
        f"{month.served:.3f} served. The audit labelled {len(month.verdicts)} of System 1's answers; {wrong} were "
        "wrong. "
        f"The monitor, which may be looked at after each label: {alarm}."
    )
    return (
        f"<h2>{escape(month.name)}</h2><p>{escape(text)}</p>"
        + (risk_plot(points, alpha) if points else "")
        + (lines([("evidence", path[::step])], "labels", "log of the evidence against error <= alpha") if path else "")
    )
