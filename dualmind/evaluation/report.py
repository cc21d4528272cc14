"""The report of one evaluation as one self-contained page."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from dualmind.evaluation.plots import bars, lines
from dualmind.html import page, table, tiles

_TASKS = {
    "pick_and_place_simple": "pick and place",
    "look_at_obj_in_light": "look in light",
    "pick_clean_then_place_in_recep": "clean and place",
    "pick_heat_then_place_in_recep": "heat and place",
    "pick_cool_then_place_in_recep": "cool and place",
    "pick_two_obj_and_place": "pick two and place",
}


@dataclass(frozen=True, slots=True)
class Timing:
    """Wall times of this machine; kept apart from the metrics, which must be reproducible."""

    p50_ms: float
    p99_ms: float
    throughput_per_s: float
    threads: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One game as it was played, for people to read."""

    title: str
    lines: Sequence[str]


def render_report(
    metrics: dict[str, Any], timing: Timing, training: dict[str, Any], data: dict[str, Any], samples: Sequence[Sample]
) -> str:
    """The page.

    Args:
        metrics: what ``stages.evaluate`` writes to metrics.json.
        timing: latency and throughput.
        training: metrics of the pretrain stage.
        data: summary of the prepare stage.
        samples: games to show.
    """
    return page(
        "Household agent: evaluation of System 1",
        "Games that were not used in training or in any choice. Intervals are 95 % Wilson intervals over games.",
        [
            _headline(metrics, timing),
            _by_split(metrics),
            *(_split_details(split, results) for split, results in metrics["splits"].items()),
            _training(training, data),
            _samples(samples),
        ],
    )


def _headline(metrics: dict[str, Any], timing: Timing) -> str:
    size = metrics["size"]
    values = [
        (f"{split.replace('_', ' ')}, greedy", f"{results['greedy']['success_rate']:.1%}")
        for split, results in metrics["splits"].items()
    ]
    values += [
        ("parameters", f"{size['num_parameters']:,}"),
        ("size in memory", f"{size['bytes'] / 1e6:.2f} MB"),
        (f"latency p50 / p99, batch 1, {timing.threads} thread(s)", f"{timing.p50_ms:.1f} / {timing.p99_ms:.1f} ms"),
        ("decisions a second, batch 64", f"{timing.throughput_per_s:,.0f}"),
    ]
    return "<h2>At a glance</h2>" + tiles(values)


def _by_split(metrics: dict[str, Any]) -> str:
    rows = [
        (f"{split.replace('_', ' ')}, {mode}", r["success_rate"], r["low"], r["high"])
        for split, results in metrics["splits"].items()
        for mode, r in results.items()
    ]
    counts = ", ".join(f"{split}: {results['greedy']['num_games']} games" for split, results in metrics["splits"].items())
    note = (
        "<p class='soft'>valid seen: new games in rooms of training; valid unseen: games in other rooms. "
        f"Greedy takes the best command, sampled draws from the distribution. {escape(counts)}.</p>"
    )
    return "<h2>Success</h2>" + bars(rows) + note


def _split_details(split: str, results: dict[str, Any]) -> str:
    greedy = results["greedy"]
    tasks = [
        (f"{_TASKS[task]} ({r['num_games']})", r["success_rate"], r["low"], r["high"])
        for task, r in sorted(greedy["by_task_type"].items())
    ]
    hops = [
        [f"{hops} sub-goals", str(r["num_games"]), f"{r['success_rate']:.1%}", f"{r['low']:.1%} – {r['high']:.1%}"]
        for hops, r in sorted(greedy["by_hops"].items())
    ]
    budget = [(mode, [(float(s), share) for s, share in r["within_steps"]]) for mode, r in results.items()]
    return (
        f"<h2>{escape(split.replace('_', ' '))}</h2><h3>By task type, greedy</h3>{bars(tasks)}"
        f"<h3>By sub-goals, greedy</h3>{table(['task', 'games', 'success', '95 % interval'], hops, numbers=3)}"
        f"<h3>Won within so many commands</h3>{lines(budget, 'commands', 'share of games')}"
    )


def _training(training: dict[str, Any], data: dict[str, Any]) -> str:
    curve = [(float(p["step"]), p["loss"]) for p in training["curve"]]
    facts = [
        ["training games", f"{data['problems']['train']:,}"],
        ["environment steps in demonstrations", f"{data['environment_steps']:,}"],
        ["expert's success", f"{data['expert_success']:.1%}"],
        ["accuracy on validation decisions", f"{training['valid_accuracy']:.1%}"],
    ]
    return (
        "<h2>Training</h2>" + table(["", ""], facts, numbers=1) + lines([("loss", curve)], "optimiser steps", "loss, nats")
    )


def _samples(samples: Sequence[Sample]) -> str:
    shown = "".join(f"<h3>{escape(s.title)}</h3><pre>{escape(chr(10).join(s.lines))}</pre>" for s in samples)
    return f"<h2>Games as they were played</h2>{shown}"
