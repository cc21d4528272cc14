"""The monitor flow: is the error of accepted answers still below its bound?

It is run every hour. Where the evidence says no, it emits the event ``dualmind.error-above-bound``, which starts the
deployment ``calibration`` (see prefect.yaml). The test is anytime-valid, so looking every hour raises no false alarm.
"""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

import flows.settings  # noqa: F401  # before Prefect

# isort: split
from prefect import flow, get_run_logger
from prefect.events import emit_event

from dualmind.calibration.watch import COLUMNS, Watch
from dualmind.errors import DualmindError, PipelineError
from dualmind.traffic.compact import compact
from dualmind.traffic.read import MonthReader
from stages.params import load_params
from stages.recalibrate import DATA
from tasks.calibration import CalibrationParams, alone, open_store

EVENT = "dualmind.error-above-bound"


@flow(name="monitor", validate_parameters=False)
def monitor(root: Path | str) -> Watch:
    """Bet on what was labelled since the last look, and say so where the bound does not hold.

    An event that could not be sent is sent at the next look; one that was sent is not sent again.

    Args:
        root: the project's folder; a deployment gives it as text.

    Returns:
        The monitor's state.

    Raises:
        DualmindError: nothing serves, traffic or the state cannot be read, or a calibration is running.
    """
    root = Path(root).resolve()
    params = load_params(CalibrationParams, "calibration", root / "params.yaml")
    path = root / DATA.parent / "monitor.json"
    with alone(root):
        watch = look(root, params, path, datetime.now(UTC))
        found = watch.monitor
        get_run_logger().info(
            "%d of %d accepted answers were wrong; alarm: %s", found.errors, found.labels, found.alarm
        )
        if found.alarm and not watch.told:
            payload = {"labels": found.labels, "errors": found.errors, "alpha": found.alpha, "alarm_at": found.alarm_at}
            resource = {"prefect.resource.id": f"dualmind.threshold.{watch.threshold}"}
            if emit_event(EVENT, resource=resource, payload=payload) is not None:
                watch = watch.model_copy(update={"told": True})
                watch.write(path)
    return watch


def look(root: Path, params: CalibrationParams, path: Path, now: datetime) -> Watch:
    """Go on from the state at ``path`` to ``now``, and keep it; see :func:`monitor`."""
    production = open_store(root).read(root / params.production)
    watch = Watch.of(Watch.read(path), production.threshold, params.monitor.level, now)
    wait = timedelta(hours=params.monitor.label_wait_hours)

    def batches() -> Iterator[pa.RecordBatch]:
        for month in watch.months(now):
            if (root / params.traffic / month).is_dir():
                compact(root / params.traffic, month, is_over=False)  # so that the next look reads no text again
                with MonthReader(root / params.traffic, month) as reader:
                    yield from reader.batches(COLUMNS)

    watch = watch.after(batches(), production.labels, production.threshold, now=now, wait=wait)
    watch.write(path)
    return watch


def main() -> int:
    """Command line; 0 if all is well, 3 if the error is above its bound, 1 if that cannot be told."""
    try:
        return 3 if monitor(Path.cwd()).monitor.alarm else 0
    except PipelineError as error:
        print(f"not looked: {error}", file=sys.stderr)
        return 0  # a calibration is running: the next look is in an hour
    except DualmindError as error:
        print(f"no monitor: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
