"""Runs the server in this process until it is told to stop, and loses nothing when it is."""

import logging
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from dualmind.domains.household.game import Game
from dualmind.serving.app import Parts, make_app
from dualmind.serving.clock import Clock, utc_now
from dualmind.serving.engine import Engine
from dualmind.serving.feedback import Feedback
from dualmind.serving.files import OpenRelease
from dualmind.serving.games import Games
from dualmind.serving.ids import Names, open_secret, reviewer_token
from dualmind.serving.labelling import Labeller, SystemTwo
from dualmind.serving.loading import Served
from dualmind.serving.metrics import Metrics
from dualmind.serving.watch import Watcher
from dualmind.traffic.log import DecisionLog

SECRET = "audit.key"  # noqa: S105  # a file's name, in the folder of production
_LOG_BATCH, _LOG_INTERVAL_S = 64, 0.005  # decisions of one write to the disk, and how long one waits for others
_GRACE_S = 5.0  # beyond the time limit of a request, for its answer to be sent


@dataclass(frozen=True, slots=True)
class Settings:
    """How to serve."""

    host: str
    port: int
    batch_size: int  # requests of a batch at most
    gather_ms: float  # that a request waits for others
    queue: int  # requests that may wait
    time_limit_ms: float  # of a request
    audit_rate: float  # share of requests that are drawn for a label
    store_prompts: bool
    production: Path
    traffic: Path
    max_games: int  # of visitors, open at a time
    game_expiry_s: float
    poll_ms: float  # between two looks at the state of production


@contextmanager
def open_parts(
    settings: Settings,
    served: Served,
    open_release: OpenRelease,
    games: Sequence[Game],
    labeller: Callable[[Served], Labeller] = lambda served: SystemTwo(served.agent.system2),
    clock: Clock = utc_now,
) -> Iterator[Parts]:
    """All that is behind the interface; closed in the order that loses nothing.

    Raises:
        ServingError: the server's secret is damaged.
        StorageError: the log cannot be written.
        TrafficError: the audit rate is not in 0..1.
    """
    secret = open_secret(settings.production / SECRET)
    names, metrics = Names(secret, settings.audit_rate), Metrics()
    with ExitStack() as stack:
        log = stack.enter_context(DecisionLog(settings.traffic, batch=_LOG_BATCH, interval_s=_LOG_INTERVAL_S))
        engine = stack.enter_context(
            Engine(
                served, log, settings.traffic, names, metrics,
                labeller=labeller, batch_size=settings.batch_size, gather_s=settings.gather_ms / 1e3,
                queue=settings.queue, store_prompts=settings.store_prompts, clock=clock,
            )
        )  # fmt: skip
        yield Parts(
            engine=engine,
            watcher=Watcher(engine, settings.production, open_release),
            feedback=Feedback(log, settings.traffic, names, metrics, clock),
            games=Games(games, most=settings.max_games, expiry_s=settings.game_expiry_s),
            reviewer_token=reviewer_token(secret),
            time_limit_s=settings.time_limit_ms / 1e3,
            poll_s=settings.poll_ms / 1e3,
        )


def serve(
    settings: Settings,
    served: Served,
    open_release: OpenRelease,
    games: Sequence[Game],
    labeller: Callable[[Served], Labeller] = lambda served: SystemTwo(served.agent.system2),
    clock: Clock = utc_now,
) -> None:
    """Serve until SIGTERM or SIGINT: then take nothing new, answer what was taken, write the log, and return.

    Args:
        settings: how.
        served: what answers at first.
        open_release: verifies and opens a release that is promoted later.
        games: for visitors to play.
        labeller: who labels what was drawn.
        clock: the time in UTC, of decisions and labels.

    Raises:
        ServingError: the server's secret is damaged.
        StorageError: the log cannot be written.
        SystemExit: the port is taken.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    with open_parts(settings, served, open_release, games, labeller, clock) as parts:
        server = uvicorn.Server(
            uvicorn.Config(
                make_app(parts),
                host=settings.host,
                port=settings.port,
                access_log=False,
                timeout_graceful_shutdown=int(parts.time_limit_s + _GRACE_S),
            )
        )

        def stop(*_: object) -> None:
            server.should_exit = True  # before uvicorn listens to signals, and when it raises them again at its end

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        server.run()
