"""Notices that production changed, and swaps what serves; a state that cannot be served changes nothing."""

import logging
import time
from pathlib import Path

from dualmind.errors import DualmindError, ServingError
from dualmind.serving.engine import Engine
from dualmind.serving.files import OpenRelease
from dualmind.serving.loading import load
from dualmind.serving.production import State, read_state

_RETRY_S = 60.0  # until a state that was refused is tried again: its files may have been restored
_LOG = logging.getLogger(__name__)


class Watcher:
    """Looks at ``production/current.json``."""

    def __init__(self, engine: Engine, folder: Path, open_release: OpenRelease) -> None:
        """Args are what to swap, the folder ``production``, and what verifies and opens a release."""
        self._engine, self._folder, self._open_release = engine, folder, open_release
        self._refused: tuple[State | str, float] | None = None
        self.problem = ""  # why the newest state does not serve; "" where it does

    def look(self) -> None:
        """Swap if there is a new state; takes as long as it takes to load it."""
        try:
            state = read_state(self._folder)
            if state is None:
                raise ServingError(f"{self._folder} says no longer what serves; roll back, or restore it")
        except DualmindError as error:
            self._refuse(str(error), error)
            return
        except OSError as error:
            self._refuse(str(error), error)
            return
        if state == self._engine.served.state:
            self._refused, self.problem = None, ""
            return
        if self._refused is not None and self._refused[0] == state and time.monotonic() < self._refused[1]:
            return
        try:
            served = load(state, self._folder, self._open_release, self._engine.served)
        except (DualmindError, OSError) as error:
            self._refuse(state, error)
            return
        self._engine.swap(served)
        self._refused, self.problem = None, ""
        _LOG.info("state %s serves, with threshold %s", state.label, state.value)

    def _refuse(self, what: State | str, error: Exception) -> None:
        self.problem = f"{self._engine.served.state.label} still serves: {error}"
        if self._refused is None or self._refused[0] != what:
            self._engine.metrics.swap_failures.inc()
            _LOG.error("%s", self.problem)
        self._refused = (what, time.monotonic() + _RETRY_S)
