"""Metrics as ``evaluate.Metric`` classes of this package: nothing is fetched from a hub.

Importing this takes 7 s, which is ``evaluate``'s; only the stage that judges pays for it.
"""

import tempfile
from typing import Any

import datasets
import evaluate
import numpy as np

from dualmind.evaluation.intervals import bootstrap_mean, wilson

_CITATION = "Shridhar et al. 2021, ALFWorld: Aligning Text and Embodied Environments for Interactive Learning"


class SuccessRate(evaluate.Metric):  # type: ignore[misc]  # evaluate ships no types
    """Share of games won, with its 95 % Wilson interval (Wilson 1927).

    ``compute(predictions=[1, 0, ...])`` gives ``success_rate``, ``low``, ``high`` (shares) and ``num_games``.
    """

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description="Share of games won, with its 95 % Wilson interval.",
            citation=_CITATION,
            inputs_description="predictions: 1 for a game that was won, 0 for one that was lost.",
            features=datasets.Features({"predictions": datasets.Value("int64")}),
        )

    def _compute(self, predictions: list[int]) -> dict[str, Any]:
        share = wilson(sum(predictions), len(predictions))
        return {"success_rate": share.value, "low": share.low, "high": share.high, "num_games": len(predictions)}


class CommandAccuracy(evaluate.Metric):  # type: ignore[misc]  # evaluate ships no types
    """Share of decisions in which the model's best command is the expert's, with its 95 % Wilson interval.

    ``compute(predictions=[...], references=[...])`` over command texts gives ``accuracy``, ``low``, ``high`` (shares)
    and ``num_decisions``.
    """

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description="Share of decisions in which the model's best command is the expert's.",
            citation=_CITATION,
            inputs_description="predictions and references: one command a decision.",
            features=datasets.Features({"predictions": text, "references": text}),
        )

    def _compute(self, predictions: list[str], references: list[str]) -> dict[str, Any]:
        share = wilson(sum(p == r for p, r in zip(predictions, references, strict=True)), len(predictions))
        return {"accuracy": share.value, "low": share.low, "high": share.high, "num_decisions": len(predictions)}


class MeanSteps(evaluate.Metric):  # type: ignore[misc]  # evaluate ships no types
    """Mean number of commands a game, with its 95 % bootstrap interval over games.

    ``compute(predictions=[12, 50, ...], rng=numpy.random.default_rng(seed))`` gives ``mean_steps``, ``low``, ``high``
    (commands) and ``num_games``. A lost game counts with the commands that were given.
    """

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description="Mean number of commands a game, with its 95 % bootstrap interval.",
            citation=_CITATION,
            inputs_description="predictions: commands given in each game; rng: source of the resamples.",
            features=datasets.Features({"predictions": datasets.Value("int64")}),
        )

    def _compute(self, predictions: list[int], rng: np.random.Generator) -> dict[str, Any]:
        mean = bootstrap_mean(predictions, rng)
        return {"mean_steps": mean.value, "low": mean.low, "high": mean.high, "num_games": len(predictions)}


def success(won: list[bool]) -> dict[str, Any]:
    """:class:`SuccessRate` over games, computed in memory."""
    return measure(SuccessRate, predictions=[int(w) for w in won])


def measure(metric: type[evaluate.Metric], **inputs: object) -> dict[str, Any]:
    """Compute a metric in memory, without a cache in the user's home and without a look at the global random state."""
    with tempfile.TemporaryDirectory() as cache:
        result: dict[str, Any] = metric(keep_in_memory=True, cache_dir=cache, seed=0).compute(**inputs)
    return result
