"""What serves, as a calibration sees and changes it: the threshold of the release that the server serves."""

import tempfile
from datetime import datetime
from pathlib import Path

from dualmind.calibration.production import Change
from dualmind.calibration.threshold import Threshold
from dualmind.errors import CalibrationError
from dualmind.lineage.entries import What
from dualmind.lineage.keys import SigningKey
from dualmind.lineage.ledger import Ledger, append
from dualmind.lineage.times import parse_time
from dualmind.serving.files import ReleaseFiles, Weights
from dualmind.serving.production import STATES, Production, State, kept_file, read_state


class Serving:
    """What serves (see :class:`dualmind.calibration.production.Production`)."""

    def __init__(self, folder: Path, state: State) -> None:
        """Args are the folder ``production`` and its state."""
        self._folder, self.state = folder, state
        self.gate_path = kept_file(folder, state.gate)
        self.threshold = Threshold.read(kept_file(folder, state.threshold))

    @property
    def release(self) -> str:
        """Name of the release."""
        return self.state.release

    @property
    def labels(self) -> frozenset[str]:
        """What the log calls every state of the same System 1 and the same gate, this one included."""
        states = [State.model_validate_json(path.read_bytes()) for path in (self._folder / STATES).glob("*.json")]
        same = (self.state.system1, self.state.gate)
        return frozenset(own.label for own in [*states, self.state] if (own.system1, own.gate) == same)


class ServingStore:
    """Reads and changes what serves (see :class:`dualmind.calibration.production.Store`)."""

    def __init__(self, ledger: Path, key: SigningKey) -> None:
        """Args are the ledger of the releases and the key that signs its head."""
        self._ledger, self._key = ledger, key

    def read(self, folder: Path) -> Serving:
        """What serves; completes a change that was killed half-way.

        Raises:
            CalibrationError: nothing serves.
            ServingError: the state or one of its files is damaged.
        """
        self._production(folder).heal()
        state = read_state(folder)
        if state is None:
            raise CalibrationError(f"nothing serves in {folder}; promote a release first: `make serve` does")
        return Serving(folder, state)

    def promote(self, folder: Path, threshold: Threshold, *, who: str, why: str, time: datetime) -> State:
        """Let a threshold of the same weights and gate serve from now on.

        Raises:
            ThresholdMismatch: it belongs to others; what served before stays.
        """
        now = self.read(folder)
        state = now.state
        threshold.for_weights(state.system1, state.gate)
        files = ReleaseFiles(
            name=state.release,
            digest=state.release_digest,
            system1=Weights(folder, state.system1),
            system2=Weights(folder, state.system2),
            gate=now.gate_path,
            threshold=kept_file(folder, state.threshold),
        )
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "threshold.json"
            threshold.write(path)
            return self._production(folder).promote(files, now.gate_path, path, who=who, why=why, time=time)

    def keep(self, folder: Path, *, who: str, why: str, time: datetime) -> None:
        """Record that nothing changes, and why."""
        state = self.read(folder).state
        what = What(subject="threshold", name=str(state.value), digest=state.threshold)
        append(self._ledger, self._key, time=time, kind="keep", what=what, who=who, why=why)

    def rollback(self, folder: Path, *, who: str, why: str, time: datetime) -> State:
        """Let what served before serve again.

        Raises:
            ServingError: nothing served before.
        """
        return self._production(folder).rollback(who=who, why=why, time=time)

    def history(self, folder: Path) -> list[Change]:
        """All that happened to thresholds, from the ledger, oldest first.

        Raises:
            ServingError: a threshold that once served is gone.
        """
        changes = []
        for entry in Ledger.read(self._ledger).entries:
            if entry.what.subject == "threshold":
                threshold = Threshold.read(kept_file(folder, entry.what.digest))
                changes.append(Change(parse_time(entry.time), entry.kind, entry.who, entry.why, threshold))
        return changes

    def _production(self, folder: Path) -> Production:
        return Production(folder, self._ledger, self._key)
