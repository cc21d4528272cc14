"""What serves: one small file that names a release, its gate and its threshold together, replaced as a whole.

    production/
        current.json       the state that serves; its number grows with each change
        states/000007.json every state that served, so that one can go back and a logged decision can be explained
        files/<md5>.json   gates and thresholds by their bytes; never changed
        intent.json        there only while a change is being made

A change writes in this order: files, intent, state, current, ledger; then it removes the intent. Readers see only
``current.json``, so gate and threshold always change together. A writer that dies before ``current.json`` is replaced
has changed nothing; one that dies after it leaves an intent, and whoever writes or starts next adds the missing entries
of the ledger (:meth:`Production.heal`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from dualmind.agent.gate import Gate
from dualmind.calibration.threshold import Threshold
from dualmind.errors import ServingError
from dualmind.lineage.entries import What
from dualmind.lineage.keys import SigningKey
from dualmind.lineage.ledger import Ledger, append
from dualmind.lineage.times import parse_time, stamp
from dualmind.serving.files import ReleaseFiles
from dualmind.storage import atomic_path, md5_file, write_json

CURRENT, INTENT, STATES, FILES = "current.json", "intent.json", "states", "files"
_LOCK_LIMIT_S = 30.0  # a change takes milliseconds, and a ledger entry at most a minute

M = TypeVar("M", bound=BaseModel)
Md5 = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]


class State(BaseModel):
    """What serves, as a whole."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    number: PositiveInt  # 1, 2, 3: one more with each change, a rollback included
    release: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    release_digest: str
    system1: Md5  # digest of its checkpoint
    system2: Md5
    gate: Md5  # of its file's bytes
    threshold: Md5
    value: float = Field(allow_inf_nan=False)  # the threshold's
    since: str  # UTC, by the clock of who changed it
    back_to: PositiveInt | None  # number of the state that a rollback leads to

    @property
    def label(self) -> str:
        """What the log calls it: release and number, such as ``r1#7``; no release's name holds a ``#``."""
        return f"{self.release}#{self.number}"


class Intent(BaseModel):
    """A change that is being made."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Literal["promote", "rollback"]
    state: State
    entries: int = Field(ge=0)  # of the ledger before
    whats: list[What]  # what the ledger is to say
    who: str
    why: str


def release_of(label: str) -> str:
    """The release of a logged decision's label."""
    return label.partition("#")[0]


def read_state(folder: Path) -> State | None:
    """What serves; None before anything was promoted.

    Raises:
        ServingError: the file that says so is damaged.
    """
    return _read(folder / CURRENT, State)


class Production:
    """Changes what serves; one at a time, and each is in the ledger."""

    def __init__(self, folder: Path, ledger: Path, key: SigningKey) -> None:
        """Args are the folder ``production``, the ledger beside the releases, and the key that signs its head."""
        self.folder, self._ledger, self._key = folder, ledger, key

    @property
    def state(self) -> State | None:
        """What serves; see :func:`read_state`."""
        return read_state(self.folder)

    def promote(
        self, files: ReleaseFiles, gate: Path, threshold: Path, *, who: str, why: str, time: datetime | None = None
    ) -> State:
        """Let a release serve with this gate and this threshold.

        Args:
            files: of a release that was verified.
            gate: its file.
            threshold: its file, with the proof.
            who: for the ledger.
            why: for the ledger.
            time: of the change; None: now.

        Raises:
            GateError: the gate is damaged or belongs to other weights.
            CalibrationError: the threshold is damaged or was proven for another gate or other weights.
            ServingError: another process is changing the state, or the present state is damaged.
            LedgerError: the ledger was changed by other means.
            StorageError: the disk is full; what served before stays.
        """
        fitted, proven = Gate.load(gate, files.system1.digest), Threshold.read(threshold)
        proven.for_weights(fitted.file.weights_digest, md5_file(gate))
        with self._changing():
            former = self.state
            state = State(
                number=1 if former is None else former.number + 1,
                release=files.name,
                release_digest=files.digest,
                system1=files.system1.digest,
                system2=files.system2.digest,
                gate=self._keep(gate),
                threshold=self._keep(threshold),
                value=proven.value,
                since=stamp(time or datetime.now(UTC)),
                back_to=None if former is None else former.number,
            )
            self._change("promote", former, state, who, why)
        return state

    def rollback(self, *, who: str, why: str, time: datetime | None = None) -> State:
        """Go back to what served before; again, to what served before that.

        Raises:
            ServingError: nothing served before, or its state or files are gone.
            LedgerError: the ledger was changed by other means.
            StorageError: the disk is full; what served before stays.
        """
        with self._changing():
            former = self.state
            if former is None or former.back_to is None:
                raise ServingError(f"{self.folder}: nothing served before, so there is nothing to roll back to")
            path = self.folder / STATES / f"{former.back_to:06}.json"
            target = _read(path, State)
            if target is None:
                raise ServingError(f"{path} is missing; restore it, or promote the state that is wanted")
            for digest in (target.gate, target.threshold):
                kept_file(self.folder, digest)
            moment = stamp(time or datetime.now(UTC))
            state = target.model_copy(update={"number": former.number + 1, "since": moment})
            self._change("rollback", former, state, who, why)
        return state

    def heal(self) -> str:
        """Finish what a writer that died had begun; returns what was done, or "".

        Raises:
            ServingError: another process is changing the state, or a file is damaged.
            LedgerError: the ledger was changed by other means.
        """
        with self._locked():
            return self._heal()

    def _heal(self) -> str:
        intent = _read(self.folder / INTENT, Intent)
        if intent is None:
            return ""
        done = ""
        if self.state == intent.state:
            self._record(intent)
            done = f"the {intent.kind} of state {intent.state.number} was cut short; it serves and is in the ledger"
        else:
            done = f"the {intent.kind} of state {intent.state.number} was cut short before it served; it was dropped"
        (self.folder / INTENT).unlink()
        return done

    def _change(
        self, kind: Literal["promote", "rollback"], former: State | None, state: State, who: str, why: str
    ) -> None:
        whats = [What(subject="threshold", name=str(state.value), digest=state.threshold)]
        if former is None or former.release_digest != state.release_digest:
            whats.insert(0, What(subject="release", name=state.release, digest=state.release_digest))
        entries = len(Ledger.read(self._ledger).lines)
        intent = Intent(kind=kind, state=state, entries=entries, whats=whats, who=who, why=why)
        write_json(self.folder / INTENT, intent.model_dump())
        write_json(self.folder / STATES / f"{state.number:06}.json", state.model_dump())
        write_json(self.folder / CURRENT, state.model_dump())  # from here on it serves
        self._record(intent)
        (self.folder / INTENT).unlink()

    def _record(self, intent: Intent) -> None:
        """Add what the ledger does not say yet of this change."""
        said = [
            entry.what
            for entry in Ledger.read(self._ledger).entries[intent.entries :]
            if entry.kind == intent.kind and entry.time == intent.state.since
        ]
        for what in intent.whats:
            if what not in said:
                time = parse_time(intent.state.since)
                append(self._ledger, self._key, time=time, kind=intent.kind, what=what, who=intent.who, why=intent.why)

    def _keep(self, source: Path) -> str:
        digest = md5_file(source)
        target = self.folder / FILES / f"{digest}.json"
        if not target.exists() or md5_file(target) != digest:
            with atomic_path(target) as temporary:
                temporary.write_bytes(source.read_bytes())
        return digest

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._locked():
            self._heal()
            yield

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = self.folder / ".lock"
        try:
            with FileLock(lock, timeout=_LOCK_LIMIT_S):
                yield
        except Timeout as error:
            raise ServingError(f"{lock} is held by another process for over {_LOCK_LIMIT_S:.0f} s; stop it") from error


def kept_file(folder: Path, digest: str) -> Path:
    """A gate or threshold of a state, by its digest.

    Raises:
        ServingError: it is missing or was changed.
    """
    path = folder / FILES / f"{digest}.json"
    if not path.is_file():
        raise ServingError(f"{path} is missing; restore it, or promote the gate and the threshold again")
    if (found := md5_file(path)) != digest:
        raise ServingError(f"{path} holds other bytes, with MD5 {found}; restore it, or promote it again")
    return path


def _read(path: Path, model: type[M]) -> M | None:
    try:
        return model.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        reason = error.errors()[0]
        raise ServingError(f"{path} is damaged ({reason['loc']}: {reason['msg']}); restore it from a copy") from error
