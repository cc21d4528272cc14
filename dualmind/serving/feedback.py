"""Verdicts on answers: of persons who review the drawn sample, and voluntary ones, which no proof uses."""

import asyncio
from collections import OrderedDict
from pathlib import Path
from typing import Literal

from dualmind.errors import TrafficError
from dualmind.serving.clock import Clock, utc_now
from dualmind.serving.ids import Names
from dualmind.serving.metrics import Metrics
from dualmind.traffic.layout import month_folder
from dualmind.traffic.log import DecisionLog
from dualmind.traffic.schema import Label

Source = Literal["feedback", "person"]
Outcome = Literal["recorded", "repeated", "contradicts", "unknown", "not drawn"]
_REMEMBERED = 100_000  # verdicts of late; the log's reader sorts out repeats of older ones


class Feedback:
    """Takes each verdict once. What it has forgotten is written again, and the log's reader keeps the first."""

    def __init__(self, log: DecisionLog, traffic: Path, names: Names, metrics: Metrics, clock: Clock = utc_now) -> None:
        """Args are the log and its folder, what reads names, what counts, and the time in UTC."""
        self._clock = clock
        self._log, self._traffic, self._names, self._metrics = log, traffic, names, metrics
        self._given: OrderedDict[tuple[str, Source], tuple[bool, bool | None]] = OrderedDict()

    async def give(self, name: str, *, correct: bool, source: Source, answer_correct: bool | None = None) -> Outcome:
        """Record a verdict and wait until the disk has it.

        Raises:
            StorageError: the disk is full; the verdict is not there.
        """
        origin = self._names.read(name)
        if origin is None or not self._has_traffic(origin.month):
            return "unknown"
        if source == "person" and not origin.audited:
            return "not drawn"
        key, verdict = (name, source), (correct, answer_correct)
        if key in self._given:
            return "repeated" if self._given[key] == verdict else "contradicts"
        self._given[key] = verdict  # before waiting: the same verdict may come twice at once
        try:
            label = Label(
                time=self._clock(), request_id=name, correct=correct, answer_correct=answer_correct, source=source
            )
            await asyncio.wrap_future(self._log.label(label, origin.month))
        except BaseException:
            self._given.pop(key, None)
            raise
        if len(self._given) > _REMEMBERED:
            self._given.popitem(last=False)
        self._metrics.labels.labels(source).inc()
        return "recorded"

    def _has_traffic(self, month: str) -> bool:
        try:
            month_folder(self._traffic, month)
        except TrafficError:
            return False
        return True
