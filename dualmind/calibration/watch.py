"""The monitor on traffic: each labelled decision is bet on once, in the order of time, whenever somebody looks."""

import hashlib
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from dualmind.calibration.monitor import Monitor
from dualmind.calibration.month import of_labels
from dualmind.calibration.sample import proof_rows
from dualmind.calibration.threshold import Threshold
from dualmind.errors import CalibrationError
from dualmind.storage import write_text
from dualmind.traffic.schema import month_after, month_of

COLUMNS = ["time", "request_id", "score", "audited", "correct", "label_source", "release"]


class Watch(BaseModel):
    """State of the monitor of one threshold; kept as JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    threshold: str  # digest of the one that is watched
    until: AwareDatetime  # decisions up to here were bet on
    monitor: Monitor
    told: bool  # whether the alarm was passed on

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The state; None where there is none yet.

        Raises:
            CalibrationError: it is damaged.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise CalibrationError(f"{path} is no state of a monitor ({error}); delete it to start anew") from error

    def write(self, path: Path) -> None:
        """Keep it, atomically.

        Raises:
            StorageError: the disk is full.
        """
        write_text(path, self.model_dump_json(indent=2) + "\n")

    @classmethod
    def of(cls, before: "Watch | None", threshold: Threshold, level: float, now: datetime) -> "Watch":
        """The state to go on from; a new threshold starts anew, as labels that it was proven on tell nothing new."""
        digest = digest_of(threshold)
        if before is not None and before.threshold == digest:
            return before
        return cls(threshold=digest, until=now, monitor=Monitor.start(threshold.alpha, level), told=False)

    def months(self, until: datetime) -> list[str]:
        """The months that may hold decisions between here and ``until``, with the one after for a clock set back."""
        month, last = month_of(self.until), month_after(month_of(until))
        found = [month]
        while found[-1] < last:
            found.append(month_after(found[-1]))
        return found

    def after(
        self,
        batches: Iterable[pa.RecordBatch],
        labels: Collection[str],
        threshold: Threshold,
        *,
        now: datetime,
        wait: timedelta,
    ) -> Self:
        """Bet on what was accepted, audited and labelled since, up to ``now - wait``.

        Args:
            batches: traffic with COLUMNS.
            labels: what the log calls the decisions that count.
            threshold: the one that is watched.
            now: the time.
            wait: how long the audit has to label a decision; what is labelled later is not bet on.
        """
        until = (now - wait).astimezone(UTC)
        if until <= self.until:
            return self
        kept = []
        for batch in batches:
            table = pa.Table.from_batches([batch])
            time = table["time"]
            inside = pc.and_(pc.greater(time, pa.scalar(self.until)), pc.less_equal(time, pa.scalar(until)))
            accepted = pc.greater_equal(table["score"], threshold.value)
            kept.append(proof_rows(of_labels(table.filter(pc.and_(inside, accepted)), labels)))
        verdicts: list[bool] = []
        if kept:
            rows = pa.concat_tables(kept).sort_by([("time", "ascending"), ("request_id", "ascending")])
            verdicts = rows["correct"].to_numpy().astype(np.bool_).tolist()
        return self.model_copy(update={"until": until, "monitor": self.monitor.after(verdicts)})


def digest_of(threshold: Threshold) -> str:
    """MD5 of what it says."""
    return hashlib.md5(threshold.model_dump_json().encode(), usedforsecurity=False).hexdigest()
