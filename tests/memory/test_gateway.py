"""The levels together, beside plain dictionaries."""

import shutil
import tempfile
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dualmind.errors import GatewayError, StorageError
from dualmind.memory.core import Core
from dualmind.memory.entry import Entry, Key
from dualmind.memory.gateway import Episode, Gateway
from tests.memory.entries import entry, key

NUMBERS = st.integers(0, 7)
WORKING, SHARED = 2, 3


def make(path: Path, *, core: int = 100, shared: int = SHARED, working: int = WORKING) -> Gateway:
    return Gateway(Core(path, core), shared=shared, working=working)


class Levels(RuleBasedStateMachine):
    """Two levels and the core beside an ordered dictionary for each: key to entry and whether it is dirty."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.gateway = make(self.folder / "core.db")
        self.episode: Episode = self.gateway.episode()
        self.working: OrderedDict[Key, tuple[Entry, bool]] = OrderedDict()
        self.shared: OrderedDict[Key, tuple[Entry, bool]] = OrderedDict()
        self.core: dict[Key, Entry] = {}
        self.count = 0

    def put(self, level: str, own: Entry, dirty: bool) -> None:
        """What the docstrings promise, said once more."""
        if level == "core":
            if own.checked_by is not None:
                self.core[own.key] = own
            return
        held, capacity, below = (
            (self.working, WORKING, "shared") if level == "working" else (self.shared, SHARED, "core")
        )
        if own.key in held:
            former, was_dirty = held.pop(own.key)
            if own.checked_by is None and former.checked_by is not None:
                own, dirty = former, was_dirty
            held[own.key] = (own, dirty or was_dirty)
            return
        if len(held) == capacity:
            _, (out, out_dirty) = held.popitem(last=False)
            held[own.key] = (own, dirty)
            if out_dirty:
                self.put(below, out, dirty=True)
        else:
            held[own.key] = (own, dirty)

    @rule(number=NUMBERS, checked=st.booleans())
    def write(self, number: int, checked: bool) -> None:
        self.count += 1
        own = entry(number, answer=f"answer {self.count}")
        if not checked:
            own = replace(own, author="system1", checked_by=None)
        self.episode.write(own)
        below = own.key in self.core or (own.key in self.shared and self.shared[own.key][0].checked_by is not None)
        if checked or not below:
            self.put("working", own, dirty=True)

    @rule(number=NUMBERS)
    def read(self, number: int) -> None:
        wanted = key(number)
        found = self.episode.read(wanted)
        if wanted in self.working:
            self.working.move_to_end(wanted)
            assert found == self.working[wanted][0]
        elif wanted in self.shared:
            self.shared.move_to_end(wanted)
            own = self.shared[wanted][0]
            assert found == own
            self.put("working", own, dirty=False)
        elif wanted in self.core:
            own = self.core[wanted]
            assert found == own
            self.put("shared", own, dirty=False)
            self.put("working", own, dirty=False)
        else:
            assert found is None

    @rule(number=NUMBERS)
    def confirm(self, number: int) -> None:
        wanted = key(number)
        held = self.working if wanted in self.working else self.shared
        assert self.episode.confirm(wanted, "system2") == (wanted in held)
        if wanted in held:
            held.move_to_end(wanted)
            self.put("working", replace(held[wanted][0], checked_by="system2"), dirty=True)

    @rule(number=NUMBERS)
    def forget(self, number: int) -> None:
        self.gateway.forget(key(number))
        for held in (self.working, self.shared, self.core):
            held.pop(key(number), None)

    @rule()
    def end_the_episode(self) -> None:
        self.episode.close()
        self.episode = self.gateway.episode()
        for own, dirty in list(self.working.values()):
            if dirty:
                self.put("shared", own, dirty=True)
        self.working.clear()

    @rule()
    def flush(self) -> None:
        self.gateway.flush()
        for own, dirty in list(self.working.values()):
            if dirty:
                self.put("shared", own, dirty=True)
                self.working[own.key] = (own, False)
        for own, dirty in list(self.shared.values()):
            if dirty:
                self.put("core", own, dirty=True)
                self.shared[own.key] = (own, False)

    @rule()
    def close_and_open(self) -> None:
        self.gateway.close()
        self.gateway.close()
        for held, below in ((self.working, "shared"), (self.shared, "core")):
            for own, dirty in list(held.values()):
                if dirty:
                    self.put(below, own, dirty=True)
            held.clear()
        self.gateway = make(self.folder / "core.db")
        self.episode = self.gateway.episode()

    @precondition(lambda self: self.count % 3 == 0)
    @rule()
    def crash(self) -> None:
        """A process that dies writes nothing back."""
        self.gateway.core.close()
        self.working.clear()
        self.shared.clear()
        self.gateway = make(self.folder / "core.db")
        self.episode = self.gateway.episode()

    @invariant()
    def levels_hold_what_the_dictionaries_hold(self) -> None:
        assert list(self.episode.level) == list(self.working)
        assert list(self.gateway.shared) == list(self.shared)
        assert len(self.gateway.core) == len(self.core)
        for number in range(8):
            assert self.gateway.core.read(key(number)) == self.core.get(key(number))

    def teardown(self) -> None:
        self.gateway.close()
        shutil.rmtree(self.folder)


TestLevels = Levels.TestCase
TestLevels.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def test_hit_rates_are_shares_of_the_reads_that_reach_a_level(tmp_path: Path) -> None:
    with make(tmp_path / "core.db", working=1, shared=2) as gateway:
        assert gateway.counts.hit_rates() == {"working": 0.0, "shared": 0.0, "core": 0.0, "all": 0.0}
        gateway.core.write([entry(i) for i in range(4)])
        episode = gateway.episode()
        for number in (0, 0, 1, 0, 2, 9):  # core, working, core, shared, core, nowhere
            episode.read(key(number))
        assert gateway.counts.hit_rates() == pytest.approx(
            {"working": 1 / 6, "shared": 1 / 5, "core": 3 / 4, "all": 5 / 6}
        )


def test_an_episode_sees_its_own_writes_at_once_and_others_when_it_is_over(tmp_path: Path) -> None:
    with make(tmp_path / "core.db") as gateway:
        with gateway.episode() as one:
            one.write(entry(0))
            assert one.read(key(0)) == entry(0)
            assert gateway.episode().read(key(0)) is None
        assert gateway.episode().read(key(0)) == entry(0)
        assert gateway.core.read(key(0)) is None
    with Core(tmp_path / "core.db", 10) as core:
        assert core.read(key(0)) == entry(0)


def test_what_system1_says_reaches_the_core_with_a_verdict_alone(tmp_path: Path) -> None:
    said = [entry(number, author="system1", checked_by=None) for number in (0, 1)]
    with make(tmp_path / "core.db") as gateway:
        episode = gateway.episode()
        for own in said:
            episode.write(own)
        assert episode.confirm(key(1), "system2")
        assert not episode.confirm(key(2), "system2")
        gateway.close()
        assert gateway.counts.unchecked == 1
        assert gateway.counts.written_back == 1
    with Core(tmp_path / "core.db", 10) as core:
        assert core.read(key(0)) is None
        assert core.read(key(1)) == replace(said[1], checked_by="system2")


def test_an_unchecked_answer_does_not_hide_a_checked_one(tmp_path: Path) -> None:
    with make(tmp_path / "core.db") as gateway:
        gateway.core.write([entry(0)])
        episode = gateway.episode()
        episode.write(entry(0, author="system1", checked_by=None, answer="a guess"))
        assert episode.read(key(0)) == entry(0)


def test_pruning_drops_an_entry_from_every_level(tmp_path: Path) -> None:
    with make(tmp_path / "core.db") as gateway:
        episode = gateway.episode()
        for own in (entry(0, trials=20, gain=0.0), entry(1, trials=20, gain=20.0)):
            episode.write(own)
        assert gateway.prune(0.2, 10) == 1
        assert episode.read(key(0)) is None
        assert episode.read(key(1)) is not None


def test_what_could_not_be_written_back_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with make(tmp_path / "core.db") as gateway:
        gateway.episode().write(entry(0))

        def full(_: object) -> int:
            raise StorageError("no space")

        with monkeypatch.context() as patch, pytest.raises(StorageError, match="no space"):
            patch.setattr(gateway.core, "write", full)
            gateway.flush()
        gateway.flush()
        assert gateway.core.read(key(0)) == entry(0)


def test_levels_without_room_are_refused(tmp_path: Path) -> None:
    with Core(tmp_path / "core.db", 1) as core:
        for shared, working in ((0, 1), (1, 0), (-3, 1)):
            with pytest.raises(GatewayError, match="give at least 1"):
                Gateway(core, shared=shared, working=working)
