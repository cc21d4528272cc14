"""The lasting level: what was acknowledged is there and nothing unchecked is, whoever is killed or writes beside it."""

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dualmind.errors import GatewayError, StorageError
from dualmind.memory.core import Core
from tests.memory.entries import entry, key

ROOT = Path(__file__).resolve().parents[2]


def child(path: Path, first: int, number: int, batch: int) -> "subprocess.Popen[str]":
    arguments = [str(path), *map(str, (first, number, batch))]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.memory.child", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


def test_entries_come_back_as_they_were_in_another_process_too(tmp_path: Path) -> None:
    own = entry(3, answer="ja 答", steps=("#1 a", "#2 b"), depth="shallow", checked_by="person", gain=0.1, trials=3)
    with Core(tmp_path / "core.db", 10) as core:
        assert core.write([own, entry(4)]) == 2
    with Core(tmp_path / "core.db", 10) as core:
        found = core.read(own.key)
        assert found == own
        assert found is not None
        np.testing.assert_array_equal(found.reading, own.reading)
        assert core.read(key(5)) is None
        assert len(core) == 2


def test_nothing_unchecked_gets_in_and_nothing_that_stands_beside_it(tmp_path: Path) -> None:
    with Core(tmp_path / "core.db", 10) as core:
        with pytest.raises(GatewayError, match=r"by system1 was checked by nobody; .*core\.db keeps only"):
            core.write([entry(0), entry(1, author="system1", checked_by=None)])
        assert len(core) == 0
        assert core.write([entry(1, author="system1", checked_by="system2")]) == 1


def test_a_short_thought_does_not_replace_a_long_one(tmp_path: Path) -> None:
    with Core(tmp_path / "core.db", 10) as core:
        core.write([entry(0)])
        assert core.write([entry(0, depth="shallow", answer="other")]) == 0
        assert core.read(key(0)) == entry(0)


def test_the_least_useful_and_of_those_the_longest_unused_make_room(tmp_path: Path) -> None:
    with Core(tmp_path / "core.db", 4) as core:
        for number, gain in enumerate([0.0, 1.0, 0.5, 0.5]):
            core.write([entry(number, trials=1, gain=gain)])
        core.write([entry(4, trials=9, gain=-9.0)])  # new: it has its chance
        assert [number for number in range(5) if core.read(key(number))] == [1, 2, 3, 4]
        core.write([entry(5)])
        assert [number for number in range(6) if core.read(key(number))] == [1, 2, 3, 5]
        core.write([entry(2, trials=1, gain=0.5)])
        core.write([entry(6, trials=1, gain=0.5)])
        assert [number for number in range(7) if core.read(key(number))] == [1, 2, 5, 6]
        core.write([entry(number) for number in range(10, 20)])
        assert len(core) == 4


def test_what_no_longer_helps_is_pruned_once_it_was_tried_often_enough(tmp_path: Path) -> None:
    with Core(tmp_path / "core.db", 10) as core:
        core.write([entry(0, trials=8, gain=0.0), entry(1, trials=8, gain=8.0), entry(2, trials=2, gain=0.0)])
        assert core.prune(0.3, 4) == [key(0)]
        assert core.prune(0.3, 4) == []
        assert len(core) == 2


def test_the_nearest_are_found_among_those_of_one_reader_and_domain_also_after_changes(tmp_path: Path) -> None:
    with Core(tmp_path / "core.db", 50) as core, Core(tmp_path / "core.db", 50) as other:
        core.write([entry(i) for i in range(6)])
        core.write([entry(7, reader="9" * 32), entry(8, key=key(8, "household"))])
        assert len(core.near("reasoning", "1" * 32, entry(3).reading, 10)) == 6
        (own, cosine), *_ = core.near("reasoning", "1" * 32, entry(3).reading, 2)
        assert own == entry(3)
        assert cosine == pytest.approx(1.0)
        other.write([entry(9, reading=entry(3).reading)])
        assert {own.key for own, _ in core.near("reasoning", "1" * 32, entry(3).reading, 2)} == {key(3), key(9)}
        core.remove([key(3), key(1000)])
        assert core.near("reasoning", "1" * 32, entry(3).reading, 1)[0][0].key == key(9)


@pytest.mark.parametrize("batch", [1, 50])
def test_a_killed_writer_leaves_all_that_it_acknowledged_and_no_half_of_a_write(tmp_path: Path, batch: int) -> None:
    path = tmp_path / "core.db"
    process = child(path, 0, 100_000, batch)
    assert process.stdout is not None
    said = [int(process.stdout.readline()) for _ in range(5)]
    process.send_signal(signal.SIGKILL)
    said += [int(line) for line in process.stdout.read().splitlines()]
    process.stdout.close()
    process.wait()
    with Core(path, 100_000) as core:
        number = len(core)
        assert number % batch == 0
        assert said[-1] + batch <= number <= said[-1] + 2 * batch
        for i in range(number):
            assert core.read(key(i)) == entry(i)
        core.write([entry(number)])  # and it can be written on


def test_two_processes_write_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "core.db"
    processes = [child(path, first, 120, 4) for first in (0, 80)]  # 40 of them both write
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    with Core(path, 1000) as core:
        assert len(core) == 200
        for i in range(200):
            assert core.read(key(i)) == entry(i)


def filled(path: Path) -> None:
    with Core(path, 10_000) as core:
        core.write([entry(i) for i in range(300)])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-6000])


def overwrite(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096 : 4096 * 4] = b"\xa5" * (4096 * 3)
    path.write_bytes(content)


def no_database(path: Path) -> None:
    path.write_text("this is no database, but it is longer than a header of one hundred bytes " * 20)


@pytest.mark.parametrize("damage", [cut, overwrite, no_database])
def test_a_damaged_file_is_named_with_the_remedy(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    path = tmp_path / "core.db"
    filled(path)
    damage(path)
    with pytest.raises(GatewayError, match=r"core\.db is damaged .*move it away with its -wal and -shm files"):
        Core(path, 10_000)
    path.unlink()
    for rest in tmp_path.glob("core.db-*"):
        rest.unlink()
    filled(path)  # the remedy helps


def test_one_changed_letter_in_an_answer_is_noticed_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "core.db"
    filled(path)
    content = path.read_bytes()
    assert content.count(b"answer 123") == 1
    path.write_bytes(content.replace(b"answer 123", b"answer 124"))
    with Core(path, 10_000) as core:
        assert core.read(key(122)) == entry(122)
        with pytest.raises(GatewayError, match=r"core\.db is damaged \(the entry [0-9a-f]{12} of 'reasoning'"):
            core.read(key(123))


def test_another_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "core.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(GatewayError, match="a database of another kind"):
        Core(path, 10)
    assert path.read_bytes() == before


def test_a_folder_in_place_of_the_file_and_no_capacity_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="could not be read or written"):
        Core(tmp_path, 10)
    with pytest.raises(GatewayError, match="the capacity 0; give at least 1"):
        Core(tmp_path / "core.db", 0)
