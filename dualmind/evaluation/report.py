"""The report of one evaluation as one self-contained page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from dualmind.data.validation import Receipt
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
    metrics: Mapping[str, Any],
    timing: Timing,
    training: Mapping[str, Any],
    data: Mapping[str, Any],
    samples: Sequence[Sample],
    *,
    receipts: Sequence[Receipt] = (),
) -> str:
    """The page: no script and nothing from elsewhere.

    Args:
        metrics: what ``stages.evaluate`` writes to metrics.json.
        timing: latency and throughput.
        training: metrics of the pretrain stage.
        data: summary of the prepare stage.
        samples: games to show.
        receipts: of the data sets that it was trained and judged on.
    """
    return page(
        "Fast and slow agent: evaluation",
        "Games and questions that were not used in training or in any choice. Intervals are 95 % Wilson intervals.",
        [
            _headline(metrics, timing),
            _pair(metrics["pair"]),
            _calibration(metrics["calibration"]),
            _success(metrics["splits"]),
            *(_split_details(split, results) for split, results in metrics["splits"].items()),
            _training(training, data),
            *([_receipts(receipts)] if receipts else []),
            _samples(samples),
        ],
    )


def _headline(metrics: Mapping[str, Any], timing: Timing) -> str:
    size = metrics["size"]
    threads = "1 thread" if timing.threads == 1 else f"{timing.threads} threads"
    won = [(f"{_words(split)}, greedy", f"{r['greedy']['success_rate']:.1%}") for split, r in metrics["splits"].items()]
    return "<h2>At a glance</h2>" + tiles(
        [
            *won,
            (f"latency p50 / p99, batch 1, {threads}", f"{timing.p50_ms:.1f} / {timing.p99_ms:.1f} ms"),
            (f"decisions a second, batch 64, {threads}", f"{timing.throughput_per_s:,.0f}"),
            ("parameters", f"{size['num_parameters']:,}"),
            ("weights in memory", f"{size['bytes'] / 1e6:.2f} MB"),
        ]
    )


def _success(splits: Mapping[str, Any]) -> str:
    rows = [
        _bar(f"{_words(split)}, {mode}", result) for split, modes in splits.items() for mode, result in modes.items()
    ]
    note = (
        "<p class='soft'>Valid seen: new games in rooms of training. Valid unseen: games in other rooms. Greedy takes "
        "the best command, sampled draws from the distribution. In brackets: the number of games.</p>"
    )
    return "<h2>System 1 alone: success in games</h2>" + _columns(bars(rows), note)


def _pair(pair: Mapping[str, Any]) -> str:
    """Each system alone, the pair and the planner, with their price."""
    sections = []
    for domain, rows in pair.items():
        shown = [
            [
                name,
                f"{row['success_rate']:.1%}",
                f"{row['low']:.1%} to {row['high']:.1%}",
                f"{row['system2_share']:.1%}" if "system2_share" in row else "-",
                f"{row['mean_flops'] / 1e6:,.1f}" if "mean_flops" in row else "-",
            ]
            for name, row in rows.items()
        ]
        header = ["who answers", "right", "95 % interval", "by System 2", "mean MFLOP a decision"]
        sections.append(f"<h3>{escape(domain)}, unseen</h3>{table(header, shown, numbers=4)}")
    curves = [
        (
            name.removesuffix(" alone"),
            [(float(hops), own["right"]) for hops, own in sorted(row["by_hops"].items(), key=_number)],
        )
        for name, row in pair["reasoning"].items()
    ]
    sections.append(f"<h3>Right by number of steps that a question needs</h3>{lines(curves, 'steps', 'share right')}")
    return "<h2>The pair</h2>" + _columns(*sections)


def _calibration(found: Mapping[str, Any]) -> str:
    """What the threshold promises, and how far the stated probabilities can be believed."""
    errors = found["expected_calibration_error"]
    facts = [
        ["threshold of the gate's score", f"{found['threshold']:.3f}"],
        ["error of what System 1 answers, proven to be at most", f"{found['upper_bound']:.1%}"],
        ["share that System 1 answers", f"{found['system1_share']:.1%}"],
        *[[f"the same, {name}", f"{share:.1%}"] for name, share in found["share_by_domain"].items()],
        ["expected calibration error of System 1's probability", f"{errors['raw']:.3f}"],
        ["the same at the domain's temperature", f"{errors['temperature']:.3f}"],
        ["the same of the gate's score", f"{errors['score']:.3f}"],
    ]
    curves = [
        (name, [(row["stated"], row["right"]) for row in found["reliability"][key]])
        for name, key in (("probability", "raw"), ("gate's score", "score"))
    ]
    return "<h2>The gate and its threshold</h2>" + _columns(
        f"<h3>Proof</h3>{table(['measure', 'value'], facts, numbers=1)}",
        f"<h3>Reliability</h3>{lines(curves, 'stated probability', 'share right')}",
    )


def _split_details(split: str, results: Mapping[str, Any]) -> str:
    """Greedy success by kind of game, and all modes over the number of commands."""
    greedy = results["greedy"]
    tasks = [_bar(_TASKS.get(task, task), result) for task, result in sorted(greedy["by_task_type"].items())]
    hops = [_bar(f"{hops} sub-goals", result) for hops, result in sorted(greedy["by_hops"].items(), key=_number)]
    within = [(mode, [(float(limit), share) for limit, share in r["within_steps"]]) for mode, r in results.items()]
    steps = [
        [mode, f"{own['mean_steps']:.1f}", f"{own['low']:.1f} to {own['high']:.1f}"]
        for mode, own in ((mode, result["steps"]) for mode, result in results.items())
    ]
    return f"<h2>{escape(_words(split))}, in detail</h2>" + _columns(
        f"<h3>By task type, greedy</h3>{bars(tasks)}",
        f"<h3>By number of sub-goals, greedy</h3>{bars(hops)}",
        f"<h3>Won within so many commands</h3>{lines(within, 'commands', 'share of games')}",
        f"<h3>Commands a game</h3>{table(['choice', 'mean', '95 % interval'], steps, numbers=2)}",
    )


def _training(training: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    names = [name for name in ("score", "write") if name in training["curve"][-1]]
    curves = [(name, [(float(point["step"]), point[name]) for point in training["curve"]]) for name in names]
    facts = [
        ["games demonstrated for training", f"{data['problems']['train']:,}"],
        ["environment steps in them", f"{data['environment_steps']:,}"],
        ["games that the expert won", f"{data['expert_success']:.1%}"],
        ["accuracy on decisions of valid train", f"{training['valid_accuracy']:.1%}"],
        ["loss on them, nats", f"{training['valid_loss']:.4f}"],
    ]
    return "<h2>Training</h2>" + _columns(
        f"<h3>Loss</h3>{lines(curves, 'optimiser steps', 'training loss, nats')}",
        f"<h3>Data and fit</h3>{table(['measure', 'value'], facts, numbers=1)}",
    )


def _receipts(receipts: Sequence[Receipt]) -> str:
    rows = [
        [Path(receipt.dataset).name, receipt.md5, f"{receipt.rows:,}", f"{len(receipt.expectations)}, all met"]
        for receipt in receipts
    ]
    return "<h2>Validated data</h2>" + table(["data set", "MD5", "rows", "expectations"], rows, numbers=2)


def _samples(samples: Sequence[Sample]) -> str:
    shown = "".join(
        f"<details><summary>{escape(sample.title)}</summary><pre>{escape(chr(10).join(sample.lines))}</pre></details>"
        for sample in samples
    )
    return f"<h2>Games as they were played</h2>{shown}"


def _bar(label: str, result: Mapping[str, Any]) -> tuple[str, float, float, float]:
    return f"{label} ({result['num_games']})", result["success_rate"], result["low"], result["high"]


def _columns(*blocks: str) -> str:
    """Side by side where there is room, else below each other."""
    style = "display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,20rem),1fr));gap:1.5rem 2.5rem"
    return f'<div style="{style}">{"".join(f"<div>{block}</div>" for block in blocks)}</div>'


def _words(split: str) -> str:
    return split.replace("_", " ")


def _number(item: tuple[str, Any]) -> int:
    return int(item[0])
