"""The HTTP interface: acts, feedback, games of visitors, health, release, metrics and the page."""

import asyncio
import hmac
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Header, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from dualmind import __version__
from dualmind.agent.agent import Request as Asked
from dualmind.domains.reasoning.domain import as_prompt
from dualmind.errors import Overloaded, RequestError, ServingError, StorageError
from dualmind.serving import schemas
from dualmind.serving.engine import Answered, Engine
from dualmind.serving.feedback import Feedback
from dualmind.serving.games import Games
from dualmind.serving.limits import BodyLimits
from dualmind.serving.page import page
from dualmind.serving.watch import Watcher

MAX_BODY_BYTES = 64 << 10
_PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
}
_NOT_TAKEN = {
    "unknown": (404, "no answer has this id; give the request_id of an answer of /act"),
    "not drawn": (409, "this answer was not drawn for review; send it as feedback"),
    "contradicts": (409, "another verdict on this answer was recorded before, and the first one counts"),
}
_Name = Annotated[str, Path(min_length=1, max_length=40)]


@dataclass(frozen=True, slots=True)
class Parts:
    """What the interface stands before; made and closed by :mod:`dualmind.serving.server`."""

    engine: Engine
    watcher: Watcher
    feedback: Feedback
    games: Games
    reviewer_token: str
    time_limit_s: float  # of a request, from its last byte to its answer
    poll_s: float  # between two looks at the state of production


def make_app(parts: Parts) -> FastAPI:
    """The application; its lifespan only watches production."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(_watch(parts))
        try:
            yield
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    app = FastAPI(
        title="dualmind", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan,
        responses={code: {"model": schemas.Problem} for code in (400, 404, 405, 408, 413, 422)},
    )  # fmt: skip
    app.add_middleware(BodyLimits, max_bytes=MAX_BODY_BYTES, limit_s=parts.time_limit_s)
    _add_errors(app)
    _add_acts(app, parts)
    _add_games(app, parts)
    _add_reports(app, parts)
    return app


async def _watch(parts: Parts) -> None:
    while True:
        await asyncio.to_thread(parts.watcher.look)
        await asyncio.sleep(parts.poll_s)


def _add_errors(app: FastAPI) -> None:
    def answer(status: int, text: str, **headers: str) -> JSONResponse:
        return JSONResponse({"error": text.encode("utf-8", "replace").decode()}, status, headers=headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]  # what was sent is not sent back: it may be no text at all
        return answer(422, f"{'.'.join(map(str, first['loc']))}: {first['msg']}")

    @app.exception_handler(RequestError)
    async def refused(_: Request, error: RequestError) -> JSONResponse:
        return answer(422, str(error))

    @app.exception_handler(Overloaded)
    async def overloaded(_: Request, error: Overloaded) -> JSONResponse:
        return answer(429, str(error), **{"retry-after": str(error.retry_s)})

    @app.exception_handler(ServingError)
    async def stopping(_: Request, error: ServingError) -> JSONResponse:
        return answer(503, str(error), **{"retry-after": "5"})

    @app.exception_handler(StorageError)
    async def full(_: Request, error: StorageError) -> JSONResponse:
        return answer(503, f"nothing was recorded: {error}", **{"retry-after": "60"})

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, error.status_code, headers=error.headers)


def _add_acts(app: FastAPI, parts: Parts) -> None:
    problem: Any = {"model": schemas.Problem}

    @app.post("/act", responses={429: problem, 503: problem})
    async def act(body: schemas.Turn | schemas.Question | schemas.Prompt) -> schemas.Answer:
        """Answer one request."""
        match body:
            case schemas.Turn():
                asked = parts.games.request(body.episode)
            case schemas.Question():
                asked = Asked("reasoning", as_prompt(" ".join(body.text.lower().split())))
            case schemas.Prompt():
                asked = Asked(body.domain, body.prompt, tuple(body.candidates), tuple(body.tried))
        answered = await _ask(parts, asked)
        command = (
            parts.games.command(body.episode, asked, answered.reply.answer) if isinstance(body, schemas.Turn) else ""
        )
        return as_answer(answered, command)

    @app.post("/feedback", responses={403: problem, 409: problem, 503: problem})
    async def feedback(
        body: schemas.Verdict, x_reviewer_token: Annotated[str, Header(max_length=200)] = ""
    ) -> schemas.Taken:
        """Say whether an answer was right.

        A visitor judges the answer that was given. A reviewer, who has the token, judges System 1's own answer to a
        request that was drawn, and in ``answer_correct`` the one that was given.
        """
        allowed = hmac.compare_digest(x_reviewer_token.encode("utf-8", "replace"), parts.reviewer_token.encode())
        if body.source == "person" and not allowed:
            raise HTTPException(403, "only a reviewer labels the drawn sample: give the token, or send feedback")
        outcome = await parts.feedback.give(
            body.request_id, correct=body.correct, answer_correct=body.answer_correct, source=body.source
        )
        if outcome in _NOT_TAKEN:
            raise HTTPException(*_NOT_TAKEN[outcome])
        return schemas.Taken(outcome="repeated" if outcome == "repeated" else "recorded")


async def _ask(parts: Parts, asked: Asked) -> Answered:
    engine = parts.engine
    try:
        with engine.metrics.seconds.time():
            answer = asyncio.wrap_future(engine.submit(asked))
            return await asyncio.wait_for(answer, parts.time_limit_s)
    except TimeoutError as error:
        engine.metrics.refused.labels("late").inc()
        raise ServingError(f"no answer within {parts.time_limit_s:g} s; ask again") from error
    except Overloaded:
        engine.metrics.refused.labels("overloaded").inc()
        raise
    except RequestError:
        engine.metrics.refused.labels("invalid").inc()
        raise


def _add_games(app: FastAPI, parts: Parts) -> None:
    problem: Any = {"model": schemas.Problem}

    @app.post("/episode", responses={429: problem}, status_code=201)
    async def start(body: schemas.NewGame) -> schemas.GameView:
        """Open a household game."""
        return schemas.GameView(**asdict(parts.games.start(body.number)))

    @app.post("/episode/{episode}/step")
    async def step(episode: _Name, body: schemas.Step) -> schemas.GameView:
        """Give a command in a game."""
        return schemas.GameView(**asdict(parts.games.step(episode, body.command)))


def _add_reports(app: FastAPI, parts: Parts) -> None:
    @app.get("/health", responses={503: {"model": schemas.Health}})
    async def health(response: Response) -> schemas.Health:
        """Whether the server is well; degraded means that an older state still serves."""
        problem = parts.watcher.problem
        if not parts.engine.alive:
            response.status_code = 503
            return schemas.Health(status="stopping", problem=problem, waiting_s=parts.engine.wait_s())
        status: Literal["degraded", "ok"] = "degraded" if problem else "ok"
        return schemas.Health(status=status, problem=problem, waiting_s=parts.engine.wait_s())

    @app.get("/release")
    async def release() -> schemas.Serves:
        """What serves, and the proof of its threshold."""
        served = parts.engine.served
        state, threshold = served.state, served.threshold
        return schemas.Serves(
            release=state.release,
            digest=state.release_digest,
            state=state.number,
            since=state.since,
            threshold=threshold.value,
            gate_digest=state.gate,
            threshold_digest=state.threshold,
            weights_digest=state.system1,
            domains=served.domains,
            proof=schemas.Proof(**threshold.model_dump(include=set(schemas.Proof.model_fields))),
        )

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """For Prometheus."""
        return Response(parts.engine.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/", response_class=HTMLResponse)
    async def index() -> HTMLResponse:
        """A page to ask a question and to play a game."""
        return HTMLResponse(page(), headers=_PAGE_HEADERS)


def as_answer(answered: Answered, command: str) -> schemas.Answer:
    """An answer as JSON has it."""
    reply, served = answered.reply, answered.served
    signals = {
        name: value if math.isfinite(value := getattr(reply, name)) else None
        for name in ("confidence", "difficulty", "curvature", "monitor")
    }
    return schemas.Answer(
        request_id=answered.request_id,
        answer=reply.answer,
        system1_answer=reply.system1_answer,
        command=command,
        tier=reply.tier,
        **signals,
        score=reply.score,
        threshold=served.threshold.value,
        probability=reply.probability,
        steps=list(reply.steps),
        flops=reply.flops,
        latency_ms=reply.latency_ms,
        release=served.state.release,
        state=served.state.number,
    )
