"""The writer of the log: group commits, so that one fsync serves all decisions that wait for it."""

import threading
from collections import defaultdict
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from dualmind.errors import DualmindError, TrafficError
from dualmind.traffic.layout import (
    LABELS,
    append_lines,
    heal,
    locked,
    month_folder,
    month_for,
    segment,
    segment_numbers,
)
from dualmind.traffic.parquet import active_segment
from dualmind.traffic.schema import Decision, Label, check_month, month_of


@dataclass(frozen=True, slots=True)
class Healed:
    """A torn last line that a crash had left: it was never acknowledged, and is gone."""

    path: Path
    num_bytes: int


@dataclass(frozen=True, slots=True)
class _Waiting:
    line: bytes
    month: str
    is_label: bool
    done: "Future[str]"


class DecisionLog:
    """Appends decisions and labels; safe for several threads, and for several processes on one folder.

    Use it in a ``with`` block. What a future's result acknowledges is on the disk and survives a crash.

    *Which month.* A decision belongs to the month of its own time, in UTC. If that month is sealed (the clock was set
    back, or a request straddled the turn of the month), it goes to the first month that is not and keeps its time; the
    future tells where it went, and labels must go there too.

    *Repeats.* A writer that never saw its acknowledgement may append a decision again under the same id. Readers and
    compaction keep the first one and report the others.
    """

    def __init__(self, root: Path, *, batch: int, interval_s: float) -> None:
        """Open the log and heal what a crash left.

        Args:
            root: the folder ``traffic``; it is made if it is not there.
            batch: number of waiting records, >= 1, at which they are written at once.
            interval_s: longest time that a record waits for others, > 0.

        Raises:
            TrafficError: ``batch`` or ``interval_s`` is out of range.
            StorageError: the folder cannot be written.
        """
        if batch < 1 or not interval_s > 0:
            raise TrafficError(f"batch {batch} and interval {interval_s} s: give at least 1 and more than 0")
        self._root, self._batch, self._interval_s = root, batch, interval_s
        self._waiting: list[_Waiting] = []
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._closed = False
        self.healed: list[Healed] = []  # since this log was opened
        self._heal_all()
        self._thread = threading.Thread(target=self._write_on_time, name="decision-log")
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def append(self, decision: Decision) -> "Future[str]":
        """Log a decision; the future gives the month that holds it, once the disk has it, or a StorageError.

        Raises:
            TrafficError: the log is closed.
        """
        return self._add(decision.model_dump_json(), month_of(decision.time), is_label=False)

    def label(self, label: Label, month: str) -> "Future[str]":
        """Log a label of a decision that ``month`` holds.

        Raises:
            TrafficError: the log is closed, or the month has no traffic.
        """
        month_folder(self._root, month)
        return self._add(label.model_dump_json(), check_month(month), is_label=True)

    def flush(self) -> None:
        """Write what waits, now. What went wrong is told by the futures."""
        with self._writing:
            with self._changed:
                waiting, self._waiting = self._waiting, []
            if waiting:
                self._write(waiting)

    def close(self) -> None:
        """Write what waits and stop; closing twice does no harm."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _add(self, text: str, month: str, *, is_label: bool) -> "Future[str]":
        record = _Waiting(f"{text}\n".encode(), month, is_label, Future())
        record.done.set_running_or_notify_cancel()  # who no longer waits for it cannot cancel it, nor stop the writer
        with self._changed:
            if self._closed:
                raise TrafficError(f"the log {self._root} is closed; open it again to append")
            self._waiting.append(record)
            if len(self._waiting) in {1, self._batch}:
                self._changed.notify_all()
        return record.done

    def _write_on_time(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                self._changed.wait_for(lambda: len(self._waiting) >= self._batch or self._closed, self._interval_s)
                last = self._closed
            self.flush()
            if last:
                return

    def _write(self, waiting: list[_Waiting]) -> None:
        """One append a file; a file that fails fails its own records only."""
        try:
            with locked(self._root / ".lock"):
                files: defaultdict[tuple[str, bool], list[_Waiting]] = defaultdict(list)
                for record in waiting:
                    month = record.month if record.is_label else month_for(self._root, record.month)
                    files[month, record.is_label].append(record)
                for (month, is_label), records in files.items():
                    self._append(month, is_label, records)
        except (DualmindError, OSError) as error:  # the lock or the seal: nobody was told anything yet
            for record in waiting:
                if not record.done.done():
                    record.done.set_exception(error)

    def _append(self, month: str, is_label: bool, records: list[_Waiting]) -> None:
        try:
            path = self._root / month / LABELS if is_label else active_segment(self._root / month)
            self._note(path, append_lines(path, b"".join(record.line for record in records)))
        except DualmindError as error:
            for record in records:
                record.done.set_exception(error)
            return
        for record in records:
            record.done.set_result(month)

    def _heal_all(self) -> None:
        with locked(self._root / ".lock"):
            for folder in sorted(path for path in self._root.glob("????-??") if path.is_dir()):
                numbers = segment_numbers(folder)
                paths = [folder / LABELS, *(segment(folder, number) for number in numbers[-1:])]
                for path in paths:
                    if path.exists():
                        self._note(path, heal(path))

    def _note(self, path: Path, torn_bytes: int) -> None:
        if torn_bytes:
            self.healed.append(Healed(path, torn_bytes))
