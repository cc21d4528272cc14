"""What the server takes and gives, as JSON."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Command = Annotated[str, Field(min_length=1, max_length=200)]


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Prompt(_Body):
    """A request as a model reads it; with candidates it is a choice, without it is a question."""

    domain: Annotated[str, Field(min_length=1, max_length=80)]
    prompt: Annotated[str, Field(min_length=1, max_length=8000)]
    candidates: Annotated[list[Command], Field(max_length=200)] = []
    tried: Annotated[list[Command], Field(max_length=200)] = []


class Question(_Body):
    """A question in a person's words."""

    domain: Literal["reasoning"]
    text: Annotated[str, Field(min_length=1, max_length=8000)]


class Turn(_Body):
    """What to do next in a game that the server keeps."""

    domain: Literal["household"]
    episode: Annotated[str, Field(min_length=1, max_length=40)]


class Answer(BaseModel):
    """Who says what, why, and at what cost."""

    request_id: str
    answer: str  # as a model writes it
    system1_answer: str  # what System 1 said itself: what a reviewer of the drawn sample judges
    command: str  # in the game's words; "" outside a game, or where the game has gone on meanwhile
    tier: Literal["system1", "shallow", "full"]
    confidence: float | None  # the four signals; null for one that is no number
    difficulty: float | None
    curvature: float | None
    monitor: float | None
    score: float
    threshold: float  # System 1 answers where the score is not below it
    probability: float
    steps: list[str]  # System 2's
    flops: int
    latency_ms: float  # of the batch
    release: str
    state: int  # number of the state of production that answered wholly


class Verdict(_Body):
    """Whether an answer was right: a visitor judges the one that was given, a reviewer System 1's own."""

    request_id: Annotated[str, Field(min_length=1, max_length=200)]
    correct: Annotated[bool, Field(strict=True)]
    answer_correct: Annotated[bool, Field(strict=True)] | None = None  # a reviewer's, on the one that was given
    source: Literal["feedback", "person"] = "feedback"  # "person" labels the drawn sample and needs the token

    @model_validator(mode="after")
    def _has_one_meaning(self) -> Self:
        if self.source == "feedback" and self.answer_correct is not None:
            raise ValueError('feedback is on the answer that was given: say so in "correct" alone')
        return self


class Taken(BaseModel):
    """What became of a verdict."""

    outcome: Literal["recorded", "repeated"]


class NewGame(_Body):
    """Which game to open."""

    number: Annotated[int, Field(ge=0, lt=2**31, strict=True)] = 0


class Step(_Body):
    """A command in a game."""

    command: Command


class GameView(BaseModel):
    """What a visitor sees of a game."""

    episode: str
    goal: str
    observation: str
    commands: list[str]
    steps: int
    won: bool
    over: bool


class Health(BaseModel):
    """Whether the server is well."""

    status: Literal["ok", "degraded", "stopping"]
    problem: str  # why the newest state of production does not serve; "" where it does
    waiting_s: int  # until a new request would be answered, about


class Proof(BaseModel):
    """Why the threshold may be trusted."""

    alpha: float
    delta: float
    n: int
    errors: int
    upper_bound: float
    system1_share: float
    calibration_digest: str
    previous_value: float | None


class Serves(BaseModel):
    """What serves."""

    release: str
    digest: str
    state: int
    since: str
    threshold: float
    gate_digest: str
    threshold_digest: str
    weights_digest: str
    domains: list[str]
    proof: Proof


class Problem(BaseModel):
    """Why there is no answer, and what to do."""

    error: str
