"""The memory as one thing: working memories of episodes over a shared level over the lasting core, like CPU caches.

A read looks in the levels in turn and promotes what it finds to all above. A write stays in the episode's working
memory and goes back a level when it is evicted or its level is closed: an episode sees its own writes at once, others
see them from then on, and what was not written back when a process is killed is lost (the core itself stays whole).
On its way to the core an entry needs a verdict: what System 1 says is dropped there unless System 2, a checker or a
person found it right.
"""

import threading
from dataclasses import dataclass
from typing import Self

from dualmind.memory.core import Core
from dualmind.memory.entry import Entry, Judge, Key, Reading
from dualmind.memory.levels import Level


@dataclass(slots=True)
class Counts:
    """What the levels did."""

    reads: int = 0
    working: int = 0  # of the reads, those that were found there
    shared: int = 0
    core: int = 0
    written_back: int = 0  # entries that took a place in the core
    unchecked: int = 0  # entries that were not let into it

    def hit_rates(self) -> dict[str, float]:
        """Share of the reads that reach a level and find something there, and of all reads; 0 where none did."""
        left, rates = self.reads, {}
        for name, hits in (("working", self.working), ("shared", self.shared), ("core", self.core)):
            rates[name] = hits / left if left else 0.0
            left -= hits
        return {**rates, "all": (self.reads - left) / self.reads if self.reads else 0.0}


class Gateway:
    """The shared level, and the way to the core. Close it, or use it in a ``with`` block: it writes back first."""

    def __init__(self, core: Core, *, shared: int, working: int) -> None:
        """Put the small levels over a core, which is closed together with them.

        Args:
            core: the lasting level.
            shared: entries of the level that all episodes share, >= 1.
            working: entries of each episode's working memory, >= 1.

        Raises:
            GatewayError: a capacity is below 1.
        """
        self.core, self.shared, self.counts = core, Level(shared), Counts()
        self._working = Level(working).capacity  # checked here, not at the first episode
        self._episodes: list[Episode] = []
        self.lock = threading.RLock()  # of all levels

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def episode(self) -> "Episode":
        """A new, empty working memory."""
        with self.lock:
            self._episodes.append(Episode(self, Level(self._working)))
            return self._episodes[-1]

    def flush(self) -> None:
        """Write all that is newer than the core back to it; everything stays where it is.

        Raises:
            StorageError: the disk is full; what was not written is still held, and the next flush tries again.
        """
        with self.lock:
            for episode in self._episodes:
                for entry in episode.level.clean():
                    self.receive(entry)
            dirty = self.shared.clean()
            try:
                self._to_core(dirty)
            except BaseException:
                for entry in dirty:
                    self.shared.write(entry, dirty=True)
                raise

    def close(self) -> None:
        """Write back and close the core; closing twice does no harm."""
        with self.lock:
            try:
                for episode in list(self._episodes):
                    episode.close()
                self._to_core([held.entry for held in self.shared.drain() if held.dirty])
            finally:
                self.core.close()

    def forget(self, key: Key) -> None:
        """Drop an entry at all levels."""
        with self.lock:
            self._drop([key])
            self.core.remove([key])

    def prune(self, below: float, min_trials: int) -> int:
        """Drop what no longer helps; returns how many entries went.

        To be called when System 1 has learnt: entries that it has outgrown gain nothing in their newer trials.

        Args:
            below: usefulness under which an entry goes.
            min_trials: trials before which an entry is not judged.
        """
        with self.lock:
            self.flush()
            gone = self.core.prune(below, min_trials)
            self._drop(gone)
            return len(gone)

    def near(self, domain: str, reader: str, reading: Reading, number: int) -> list[tuple[Entry, float]]:
        """Checked entries of similar prompts with their cosines: to learn from, never to answer with.

        Only what was written back is found. Two prompts that differ in one number read alike and have other answers.
        """
        with self.lock:
            return self.core.near(domain, reader, reading, number)

    def fetch(self, key: Key) -> Entry | None:
        """Read from the shared level, or from the core and promote."""
        if (entry := self.shared.read(key)) is not None:
            self.counts.shared += 1
            return entry
        if (entry := self.core.read(key)) is not None:
            self.counts.core += 1
            self._evict(entry, dirty=False)
        return entry

    def knows(self, key: Key) -> bool:
        """Is there a checked entry in the shared level or the core? Asking uses and moves nothing."""
        held = self.shared.peek(key)
        return (held is not None and held.checked_by is not None) or self.core.read(key) is not None

    def receive(self, entry: Entry) -> None:
        """Take what an episode writes back."""
        self._evict(entry, dirty=True)

    def leave(self, episode: "Episode") -> None:
        """An episode is over."""
        if episode in self._episodes:
            self._episodes.remove(episode)

    def _evict(self, entry: Entry, *, dirty: bool) -> None:
        out = self.shared.write(entry, dirty=dirty)
        if out is not None and out.dirty:
            self._to_core([out.entry])

    def _to_core(self, entries: list[Entry]) -> None:
        checked = [entry for entry in entries if entry.checked_by is not None]
        self.counts.unchecked += len(entries) - len(checked)
        if checked:
            self.counts.written_back += self.core.write(checked)

    def _drop(self, keys: list[Key]) -> None:
        for level in (self.shared, *(episode.level for episode in self._episodes)):
            for key in keys:
                level.remove(key)


class Episode:
    """One episode's working memory over the gateway. Close it, or use it in a ``with`` block: it writes back."""

    def __init__(self, gateway: Gateway, level: Level) -> None:
        """See :meth:`Gateway.episode`."""
        self.level, self._gateway, self.lock = level, gateway, gateway.lock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, key: Key) -> Entry | None:
        """The entry of exactly this question, wherever it lies; it is then in the working memory.

        It may be unchecked: who answers with it must look at ``checked_by`` first.

        Raises:
            GatewayError: the core is damaged.
        """
        with self.lock:
            self._gateway.counts.reads += 1
            if (entry := self.level.read(key)) is not None:
                self._gateway.counts.working += 1
                return entry
            if (entry := self._gateway.fetch(key)) is not None:
                self._hold(entry, dirty=False)
            return entry

    def write(self, entry: Entry) -> None:
        """Keep an entry, to be written back later; one that may not supersede what is held changes nothing.

        Raises:
            GatewayError: the core is damaged.
        """
        with self.lock:
            if entry.checked_by is None and self._gateway.knows(entry.key):
                return  # it would hide what somebody checked
            self._hold(entry, dirty=True)

    def confirm(self, key: Key, by: Judge) -> bool:
        """Give an entry, such as System 1's, the verdict that lets it into the core; False where there is none."""
        with self.lock:
            entry = self.level.read(key) or self._gateway.shared.read(key)
            if entry is None:
                return False
            self._hold(entry.checked(by), dirty=True)
            return True

    def close(self) -> None:
        """Write back and end the episode; closing twice does no harm."""
        with self.lock:
            for held in self.level.drain():
                if held.dirty:
                    self._gateway.receive(held.entry)
            self._gateway.leave(self)

    def _hold(self, entry: Entry, *, dirty: bool) -> None:
        out = self.level.write(entry, dirty=dirty)
        if out is not None and out.dirty:
            self._gateway.receive(out.entry)
