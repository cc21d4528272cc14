"""The steps of a calibration as Prefect tasks. Each can be killed and done again."""

import json
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import numpy as np
import yaml
from filelock import FileLock, Timeout
from prefect import get_run_logger, task
from prefect.blocks.system import Secret
from prefect.cache_policies import NO_CACHE
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

from dualmind.calibration.drift import DriftReport, compare_months
from dualmind.calibration.month import Frozen, collect, describe, draw, freeze
from dualmind.calibration.production import Production
from dualmind.data.suites import SuiteParams
from dualmind.data.traffic import SCHEMA
from dualmind.data.validation import validate
from dualmind.errors import CalibrationError, PipelineError
from dualmind.lineage.keys import open_key
from dualmind.serving.store import ServingStore
from dualmind.storage import md5_file, write_text
from dualmind.traffic.compact import compact
from dualmind.traffic.read import MonthReader
from dualmind.traffic.schema import check_month, month_of
from stages.params import load_params
from stages.recalibrate import DATA
from stages.release import LEDGER, ReleaseParams
from tasks import dvc
from tasks.programs import ProcessGroups

_DRIFT_COLUMNS = ["release", "score", "confidence", "domain"]
_NOTIFY_LIMIT_S = 10.0
_LONGEST_TEXT = 1000  # of a request's id, as the log has it


class DriftParams(BaseModel):
    """When a month differs from the one before."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: float = Field(gt=0, lt=1)  # probability of calling a quiet month drifted
    min_effect: float = Field(ge=0, le=1)  # smaller differences do not count
    max_rows: PositiveInt  # of each month that are compared, drawn at random
    seed: NonNegativeInt


class MonitorParams(BaseModel):
    """When the error of accepted answers raises an alarm."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: float = Field(gt=0, lt=1)  # probability of a false alarm, ever, for a threshold that keeps its promise
    label_wait_hours: float = Field(ge=0)  # an audit has this long to label a decision; later labels do not count


class CalibrationParams(BaseModel):
    """How the flows calibrate; what a threshold promises stands in section ``recalibrate``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    traffic: Path  # folder of the log, relative to the project
    production: Path  # folder that says what serves, relative to the project
    grid_points: PositiveInt = Field(ge=2, le=100_001)  # thresholds that are tried, evenly from 0 to 1
    min_labelled: float = Field(ge=0, le=1)  # share of the audit's draws that must have a label
    webhook: str  # name of the Prefect Secret block that holds the URL to notify; "" for none
    drift: DriftParams
    monitor: MonitorParams


@dataclass(frozen=True, slots=True)
class Period:
    """What is calibrated on."""

    name: str  # "2026-11", or "2026-11-until-15T0300" of a month that is not over
    month: str
    is_over: bool

    @classmethod
    def of(cls, month: str | None, now: datetime) -> "Period":
        """The month that is asked for: ``2026-11``, ``current``, or None for the last one that is over.

        Raises:
            TrafficError: it is no month.
        """
        this = month_of(now)
        wanted = {None: month_before(this), "current": this}.get(month, month)
        assert wanted is not None
        if check_month(wanted) < this:
            return cls(wanted, wanted, is_over=True)
        return cls(f"{wanted}-until-{now.astimezone(UTC):%dT%H%M}", wanted, is_over=False)


def month_before(month: str) -> str:
    """The month before one."""
    year, number = map(int, check_month(month).split("-"))
    return f"{year - (number == 1):04}-{(number - 2) % 12 + 1:02}"


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """No other calibration of this project runs meanwhile, and what a killed one left is gone.

    Raises:
        PipelineError: one is running.
    """
    folder = root / DATA.parent
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".lock", timeout=0):  # the system lets it go if its holder dies
            for litter in (root / DATA).glob(".*.tmp"):
                shutil.rmtree(litter) if litter.is_dir() else litter.unlink()
            yield
    except Timeout as error:
        raise PipelineError(f"another calibration is running in {root}; wait until it ends, and run again") from error


def open_store(root: Path) -> ServingStore:
    """What serves, to be read and changed; each change is in the ledger of the releases.

    Raises:
        SigningKeyError: the ledger's key is missing or has expired.
    """
    releases = load_params(ReleaseParams, "release", root / "params.yaml")
    key = open_key(root / releases.keys, releases.signer, datetime.now(UTC))
    return ServingStore(root / releases.folder / LEDGER, key)


def check_production(production: Production) -> None:
    """Refuse to calibrate a threshold, gate and weights that do not belong together.

    Raises:
        ThresholdMismatch: they do not.
        CalibrationError: the gate cannot be read.
    """
    path = production.gate_path
    try:
        weights, gate = str(json.loads(path.read_bytes())["weights_digest"]), md5_file(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CalibrationError(f"{path} is no gate ({error!r}); promote a release again") from error
    production.threshold.for_weights(weights, gate)


@task(cache_policy=NO_CACHE)
def collect_month(root: Path, params: CalibrationParams, period: Period, production: Production) -> Frozen | str:
    """Compact a month, read it and freeze its labelled decisions; or why that cannot be calibrated on.

    Raises:
        TrafficError: the log is damaged.
        CalibrationError: a score is not finite.
        StorageError: the disk is full.
    """
    log, traffic, serves = get_run_logger(), root / params.traffic, production.release
    if not (traffic / period.month).is_dir():
        return f"no traffic of {period.month}"
    report = compact(traffic, period.month, is_over=period.is_over)
    log.info("compacted %s: %s", period.month, report)
    grid = np.round(np.linspace(0, 1, params.grid_points), 9)
    with MonthReader(traffic, period.month) as reader:
        found = collect(reader.batches([*SCHEMA.names, "answer_correct"]), production.labels, grid)
    if not found.decisions:
        others = ", ".join(f"{count} decisions of {name}" for name, count in found.others.items()) or "no decisions"
        return (
            f"{period.month} has {others}, none of the weights and the gate of {serves}: others prove nothing about it"
        )
    if not found.is_uniform:
        rest, drawn = found.decisions - found.by_system1, found.drawn - found.drawn_by_system1
        return (
            f"of {period.month} the audit drew {found.drawn_by_system1} of System 1's {found.by_system1} decisions and "
            f"{drawn} of the {rest} others: that is no uniform sample; find out who chose"
        )
    frozen = describe(
        found,
        period=period.name,
        release=serves,
        labels=sorted(production.labels),
        weights_digest=production.threshold.weights_digest,
        gate_digest=production.threshold.gate_digest,
        previous_value=production.threshold.value,
        grid=grid[::-1].tolist(),
    )
    if not frozen.labelled:
        return f"none of the {frozen.decisions} decisions of {period.month} has a label of the audit"
    if frozen.labelled < params.min_labelled * frozen.drawn:
        return (
            f"only {frozen.labelled} of the {frozen.drawn} decisions that the audit drew are labelled, not "
            f"{params.min_labelled:.0%}: those that are may be the easy ones; label the rest"
        )
    freeze(found, frozen, root / DATA)
    return frozen


@task(cache_policy=NO_CACHE)
def validate_month(root: Path, period: str) -> Path:
    """Judge the frozen rows by the suite of traffic; returns the receipt.

    Raises:
        ValidationFailed: they do not pass.
    """
    receipt = root / DATA / f"{period}.receipt.json"
    limits = SuiteParams(min_decisions=1, min_problems=1, max_prompt_chars=_LONGEST_TEXT)
    validate(root / DATA / f"{period}.parquet", "traffic decisions", limits, receipt)
    return receipt


@task(cache_policy=NO_CACHE)
def version_month(root: Path, period: str, *, groups: ProcessGroups, limit_s: float) -> None:
    """Put the frozen month under DVC and the period into the pipeline of calibrations.

    Raises:
        PipelineError: DVC failed.
    """
    path = root / DATA.parent / "months.yaml"
    periods = set(yaml.safe_load(path.read_text(encoding="utf-8"))["periods"]) if path.exists() else set()
    write_text(path, yaml.safe_dump({"periods": sorted({*periods, period})}))
    paths = [DATA / f"{period}{kind}" for kind in (".parquet", ".json", ".receipt.json")]
    dvc.add(paths, root, groups, timeout_s=limit_s, log=get_run_logger().info)


@task(cache_policy=NO_CACHE)
def drift_test(root: Path, params: CalibrationParams, period: Period, labels: Collection[str]) -> DriftReport | None:
    """Compare the month with the one before; None where what serves has no traffic in one of them.

    Raises:
        TrafficError: the log is damaged.
    """
    months = []
    rng = np.random.default_rng(params.drift.seed)
    for month in (month_before(period.month), period.month):
        if not (root / params.traffic / month).is_dir():
            return None
        with MonthReader(root / params.traffic, month) as reader:
            rows = sum(len(batch) for batch in reader.batches(["release"]))
            share = min(1.0, params.drift.max_rows / max(rows, 1))
            months.append(draw(reader.batches(_DRIFT_COLUMNS), labels, share, rng))
    (before, mix_before), (now, mix_now) = months
    if not mix_before or not mix_now:
        return None
    return compare_months(
        before, now, {"domain": mix_before}, {"domain": mix_now},
        level=params.drift.level, min_effect=params.drift.min_effect,
    )  # fmt: skip


@task(cache_policy=NO_CACHE)
def notify(webhook: str, text: str) -> bool:
    """Post ``{"text": text}`` to the URL in a Prefect Secret block; says whether it was delivered, and never fails."""
    log = get_run_logger()
    if not webhook:
        return False
    try:
        url = Secret.load(webhook, _sync=True).get()  # type: ignore[call-arg,union-attr]  # Prefect's decorator hides it
        httpx.post(str(url), json={"text": text}, timeout=_NOTIFY_LIMIT_S).raise_for_status()
    except (ValueError, httpx.HTTPError, httpx.InvalidURL) as error:
        log.warning("nobody was notified through the block %r: %s", webhook, error)
        return False
    return True
