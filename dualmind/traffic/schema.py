"""One decision and one label, as they are logged, and the columns of a month of traffic."""

import re
from datetime import UTC, datetime
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

from dualmind.errors import TrafficError

AuditSource = Literal[
    "scorer", "system2", "person"
]  # who labels what the server drew: domain's scorer, System 2, a person
Tier = Literal["system1", "shallow", "full"]  # who answered: System 1, System 2 with few steps, all of System 2

SCHEMA = pa.schema(
    [
        pa.field("time", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("request_id", pa.string(), nullable=False),  # unique, made by the server
        pa.field("domain", pa.string(), nullable=False),
        pa.field("prompt_sha256", pa.string(), nullable=False),  # 64 hex digits; prompts themselves are not kept
        pa.field("confidence", pa.float64(), nullable=False),  # 0..1, one minus normalised entropy
        pa.field("difficulty", pa.float64()),  # null where it was not computed, as the next one and monitor
        pa.field("curvature", pa.float64()),
        pa.field("score", pa.float64(), nullable=False),  # the gate's
        pa.field("monitor", pa.float64()),  # self-monitoring: repeats and loops of the episode
        pa.field("tier", pa.string(), nullable=False),  # see Tier
        pa.field("flops", pa.int64(), nullable=False),
        pa.field("latency_ms", pa.float64(), nullable=False),
        pa.field("answer", pa.string(), nullable=False),  # the one that was given
        pa.field("system1_answer", pa.string(), nullable=False),  # System 1's own, whoever answered
        pa.field("audited", pa.bool_(), nullable=False),  # drawn for the random sample of all requests?
        pa.field("correct", pa.bool_()),  # by an audit: was System 1's own answer right? By feedback: the one given?
        pa.field("answer_correct", pa.bool_()),  # by an audit: was the answer that was given right? null if not told
        pa.field("label_source", pa.string()),  # an AuditSource or "feedback"; null until labelled
        pa.field("release", pa.string(), nullable=False),
    ]
)
DICTIONARY_COLUMNS = ("domain", "tier", "label_source", "release")  # few distinct values
LABEL_COLUMNS = (
    "correct",
    "answer_correct",
    "label_source",
)  # joined from the labels; all others are the decision's own
DECISION_SCHEMA = pa.schema([field for field in SCHEMA if field.name not in LABEL_COLUMNS])

Text = Annotated[str, Field(min_length=1, max_length=1000)]
Number = Annotated[float, Field(allow_inf_nan=False)]
UtcTime = Annotated[AwareDatetime, AfterValidator(lambda time: time.astimezone(UTC))]


class Decision(BaseModel):
    """One decision, as the server logs it; labels come later. Fields as in SCHEMA."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    time: UtcTime
    request_id: Text
    domain: Text
    prompt_sha256: str = Field(pattern="^[0-9a-f]{64}$")
    confidence: float = Field(ge=0, le=1)
    difficulty: Number | None
    curvature: Number | None
    score: Number
    monitor: Number | None
    tier: Tier
    flops: int = Field(ge=0, lt=2**63)
    latency_ms: float = Field(ge=0, allow_inf_nan=False)
    answer: str
    system1_answer: str
    audited: bool
    release: Text


class Label(BaseModel):
    """A verdict on a decision. An audit's is on System 1's own answer, and apart from it on the one that was given."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    time: UtcTime
    request_id: Text
    correct: bool
    answer_correct: bool | None = None  # of an audit: where the given answer was judged too
    source: AuditSource | Literal["feedback"]


LABEL_SCHEMA = pa.schema(
    [
        pa.field("time", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("request_id", pa.string(), nullable=False),
        pa.field("correct", pa.bool_(), nullable=False),
        pa.field("answer_correct", pa.bool_()),
        pa.field("source", pa.string(), nullable=False),
    ]
)


def month_of(time: datetime) -> str:
    """The month of a time in UTC, as in ``2026-11``."""
    return f"{time.astimezone(UTC):%Y-%m}"


def check_month(month: str) -> str:
    """The month itself.

    Raises:
        TrafficError: it is not of the form ``2026-11``.
    """
    if not re.fullmatch(r"[0-9]{4}-(0[1-9]|1[0-2])", month):
        raise TrafficError(f"{month!r} is no month: write it as 2026-11")
    return month


def month_after(month: str) -> str:
    """The next month.

    Raises:
        TrafficError: see :func:`check_month`.
    """
    year, number = map(int, check_month(month).split("-"))
    return f"{year + number // 12:04}-{number % 12 + 1:02}"
