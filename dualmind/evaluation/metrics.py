"""Metrics as ``evaluate.Metric`` classes of this package: nothing is fetched from a hub."""

from typing import Any

import datasets
import evaluate
import numpy as np
from scipy.stats import binomtest

_CITATION = "Shridhar et al. 2021, ALFWorld: Aligning Text and Embodied Environments for Interactive Learning"


class SuccessRate(evaluate.Metric):
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
        interval = binomtest(int(np.sum(predictions)), len(predictions)).proportion_ci(method="wilson")
        return {
            "success_rate": float(np.mean(predictions)),
            "low": float(interval.low),
            "high": float(interval.high),
            "num_games": len(predictions),
        }


class CommandAccuracy(evaluate.Metric):
    """Share of decisions in which the model's best command is the expert's.

    ``compute(predictions=[...], references=[...])`` over command texts gives ``accuracy``.
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
        return {"accuracy": float(np.mean([p == r for p, r in zip(predictions, references, strict=True)]))}


def success(won: list[bool]) -> dict[str, Any]:
    """:class:`SuccessRate` over games, computed in memory."""
    result: dict[str, Any] = SuccessRate(keep_in_memory=True).compute(predictions=[int(w) for w in won])
    return result
