"""The small levels of the memory: least recently used goes first, and what was changed here is known to be."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from dualmind.errors import GatewayError
from dualmind.memory.entry import Entry, Key


@dataclass(frozen=True, slots=True)
class Held:
    """An entry in a level."""

    entry: Entry
    dirty: bool  # newer than what the level below has


class Level:
    """Up to ``capacity`` entries; reading or writing one makes it the most recently used."""

    def __init__(self, capacity: int) -> None:
        """An empty level.

        Raises:
            GatewayError: the capacity is below 1.
        """
        if capacity < 1:
            raise GatewayError(f"a memory level has the capacity {capacity}; give at least 1")
        self.capacity = capacity
        self._held: OrderedDict[Key, Held] = OrderedDict()  # the least recently used first

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Key]:
        """Keys, the least recently used first."""
        return iter(self._held)

    def read(self, key: Key) -> Entry | None:
        """The entry, now the most recently used."""
        held = self._held.get(key)
        if held is None:
            return None
        self._held.move_to_end(key)
        return held.entry

    def peek(self, key: Key) -> Entry | None:
        """The entry, as recently used as it was."""
        held = self._held.get(key)
        return None if held is None else held.entry

    def write(self, entry: Entry, *, dirty: bool) -> Held | None:
        """Hold an entry in place of its former one; returns what had to go to make room.

        One that is not yet written back stays dirty whatever is written over it, and one that the new entry may not
        supersede stays as it is.
        """
        former = self._held.pop(entry.key, None)
        if former is not None and not entry.supersedes(former.entry):
            self._held[entry.key] = former
            return None
        out = None
        if former is None and len(self._held) >= self.capacity:
            out = self._held.popitem(last=False)[1]
        self._held[entry.key] = Held(entry, dirty or (former is not None and former.dirty))
        return out

    def remove(self, key: Key) -> None:
        """Forget an entry, if it is held."""
        self._held.pop(key, None)

    def drain(self) -> list[Held]:
        """Take all entries out, the least recently used first."""
        held = list(self._held.values())
        self._held.clear()
        return held

    def clean(self) -> list[Entry]:
        """Entries that are not yet written back, the least recently used first; from now on they count as such."""
        dirty = [held.entry for held in self._held.values() if held.dirty]
        for entry in dirty:
            self._held[entry.key] = Held(entry, dirty=False)
        return dirty
