import json
import multiprocessing
import os
import time as clock
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmind.errors import LedgerError, LineageError
from dualmind.lineage.entries import GENESIS, Entry, Head, What
from dualmind.lineage.keys import SigningKey, make_key, open_key
from dualmind.lineage.ledger import Ledger, append

START = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    return make_key(tmp_path_factory.mktemp("keys"), "release")


def add(path: Path, key: SigningKey, name: str, day: float = 0, kind: str = "promote") -> Entry:
    what = What(subject="release", name=name, digest="d" * 64)
    return append(path, key, time=START + timedelta(days=day), kind=kind, what=what, who="Ann", why="it is better")


@pytest.fixture
def ledger(tmp_path: Path, key: SigningKey) -> Path:
    for day in range(6):
        add(tmp_path / "ledger.jsonl", key, f"r{day + 1}", day)
    return tmp_path / "ledger.jsonl"


def rewrite(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    path.write_text("".join(f"{line}\n" for line in change(path.read_text().splitlines())))


def with_hash(text: str) -> str:
    """A forger's own hash, by the plain library and not ours; ASCII with sorted keys is canonical JSON."""
    entry = json.loads(text)
    del entry["hash"]
    plain = json.dumps(entry, sort_keys=True, separators=(",", ":"))
    return json.dumps({**entry, "hash": sha256(plain.encode()).hexdigest()}, sort_keys=True, separators=(",", ":"))


def test_entries_are_chained_by_sha256_of_canonical_json(ledger: Path) -> None:
    lines = ledger.read_text().splitlines()
    assert [with_hash(line) for line in lines] == lines
    entries = [json.loads(line) for line in lines]
    assert [e["previous_hash"] for e in entries] == [GENESIS, *(e["hash"] for e in entries[:-1])]
    verdict = Ledger.read(ledger).verify()
    assert verdict.ok
    assert verdict.flags == ()


@pytest.mark.parametrize(
    ("change", "entry", "problem"),
    [
        (lambda own: [line.replace('"r3"', '"r9"') for line in own], 3, "edited"),
        (lambda own: [*own[:2], own[2].replace("better", "worse"), *own[3:]], 3, "edited"),
        (lambda own: [*own[:2], with_hash(own[2].replace('"r3"', '"r9"')), *own[3:]], 3, "edited"),
        (lambda own: [*own[:3], "{", *own[4:]], 4, "edited"),
        (lambda own: [*own[:3], own[3].replace(":", ": "), *own[4:]], 4, "edited"),
        (lambda own: own[1:], 1, "removed"),
        (lambda own: [*own[:3], *own[4:]], 4, "removed"),
        (lambda own: own[:-2], 5, "removed"),
        (lambda _: [], 1, "removed"),
        (lambda own: [own[1], own[0], *own[2:]], 1, "reordered"),
        (lambda own: [*own[:3], own[4], own[3], own[5]], 4, "reordered"),
        (lambda own: [*own[:3], own[2], *own[3:]], 4, "reordered"),
        (lambda own: [*own, with_hash(own[-1].replace('"sequence":6', '"sequence":7'))], 6, "edited"),
    ],
)
def test_the_first_bad_entry_is_named_with_what_was_done_to_it(
    ledger: Path, change: Callable[[list[str]], list[str]], entry: int, problem: str
) -> None:
    rewrite(ledger, change)
    verdict = Ledger.read(ledger).verify()
    assert (verdict.ok, verdict.entry, verdict.problem) == (False, entry, problem), verdict.message


def forge(path: Path, text: str, by: str) -> None:
    """Edit an entry and compute all hashes after it anew."""

    def change(lines: list[str]) -> list[str]:
        previous, done = GENESIS, []
        for line in lines:
            entry = {**json.loads(line.replace(text, by)), "previous_hash": previous}
            done.append(with_hash(json.dumps(entry)))
            previous = json.loads(done[-1])["hash"]
        return done

    rewrite(path, change)


def test_a_chain_that_was_computed_anew_is_found_by_the_signed_head(ledger: Path) -> None:
    forge(ledger, '"r3"', '"r9"')
    verdict = Ledger.read(ledger).verify()
    assert (verdict.entry, verdict.problem) == (6, "edited")
    assert "head" in verdict.message


def test_a_forged_head_is_found_by_the_expected_key_and_by_what_bundles_remember(
    ledger: Path, key: SigningKey, tmp_path: Path
) -> None:
    anchors = []
    for count in (2, 5):
        lines = Ledger.read(ledger)
        anchors.append(lines.anchor.model_copy(update={"count": count, "hash": lines.entries[count - 1].hash}))
    assert Ledger.read(ledger).verify([key.public], anchors).ok
    other = make_key(tmp_path / "other", "release")
    ledger.with_suffix(".head").unlink()
    names = [entry.what.name for entry in Ledger.read(ledger).entries]
    ledger.unlink()
    for day, name in enumerate(names):
        add(ledger, other, name.replace("r3", "r9"), day)
    assert Ledger.read(ledger).verify().ok
    assert "signed with key" in Ledger.read(ledger).verify([key.public]).message
    found = Ledger.read(ledger).verify([other.public], anchors)
    assert (found.entry, found.problem) == (3, "edited")


def test_an_old_ledger_with_its_old_head_is_found_by_a_newer_bundle(ledger: Path, key: SigningKey) -> None:
    old = ledger.read_bytes(), ledger.with_suffix(".head").read_bytes()
    add(ledger, key, "r7")
    anchor = Ledger.read(ledger).anchor
    ledger.write_bytes(old[0])
    ledger.with_suffix(".head").write_bytes(old[1])
    assert Ledger.read(ledger).verify().ok
    found = Ledger.read(ledger).verify(anchors=[anchor])
    assert (found.entry, found.problem) == (7, "removed")


@pytest.mark.parametrize("kept", [0, 1, 40, 10_000])
def test_a_crash_while_appending_loses_nothing_and_is_healed(ledger: Path, key: SigningKey, kept: int) -> None:
    """The head is written first; then any part of the line may be on disk."""
    whole = ledger.read_bytes()
    lines = whole.splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:-1]) + lines[-1][:-1][:kept])
    read = Ledger.read(ledger)
    assert read.entries[-1].what.name == "r6"
    assert read.verify().ok
    assert "signed head" in read.verify().flags[0]
    add(ledger, key, "r7", 6)
    assert ledger.read_bytes().startswith(whole)
    assert Ledger.read(ledger).verify().flags == ()


def test_a_crash_before_the_first_line_is_healed(tmp_path: Path, key: SigningKey) -> None:
    path = tmp_path / "ledger.jsonl"
    add(path, key, "r1")
    path.unlink()
    add(path, key, "r2")
    assert [entry.what.name for entry in Ledger.read(path).entries] == ["r1", "r2"]


def test_nothing_is_appended_to_a_ledger_that_was_changed_at_its_end(ledger: Path, key: SigningKey) -> None:
    rewrite(ledger, lambda own: own[:-2])
    with pytest.raises(LedgerError, match="entries 5 to 6 were removed"):
        add(ledger, key, "r7")
    ledger.with_suffix(".head").unlink()
    with pytest.raises(LedgerError, match="missing"):
        add(ledger, key, "r7")
    ledger.with_suffix(".head").write_text("{}")
    with pytest.raises(LedgerError, match="no head of a ledger"):
        add(ledger, key, "r7")


def _add_many(path: Path, key_path: Path, name: str) -> None:
    own = open_key(key_path.parent, key_path.stem, START)
    for index in range(10):
        add(path, own, f"{name}{index}")


def test_two_writers_do_not_mix(tmp_path: Path, key: SigningKey) -> None:
    path = tmp_path / "ledger.jsonl"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_add_many, args=(path, key.path, name)) for name in ("a", "b")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=300)
        assert writer.exitcode == 0
    verdict = Ledger.read(path).verify([key.public])
    assert verdict.ok, verdict.message
    names = [entry.what.name for entry in Ledger.read(path).entries]
    assert sorted(names) == sorted(f"{name}{index}" for name in "ab" for index in range(10))


def test_a_clock_that_was_set_back_is_flagged_and_the_order_stays(tmp_path: Path, key: SigningKey) -> None:
    path = tmp_path / "ledger.jsonl"
    for name, day in (("r1", 0), ("r2", 10), ("r3", 5), ("r4", 12)):
        add(path, key, name, day)
    ledger = Ledger.read(path)
    verdict = ledger.verify()
    assert verdict.ok
    assert verdict.flags == (
        "entry 3 states 2026-03-06T00:00:00.000000Z, before 2026-03-11T00:00:00.000000Z: a clock was set back",
    )
    served = [ledger.serving_at(START + timedelta(days=day)) for day in (1, 6, 10, 13)]
    assert [s.entry.what.name for s in served if s.entry] == ["r1", "r1", "r3", "r4"]
    assert [bool(s.doubt) for s in served] == [False, True, False, False]


def test_what_served_is_what_was_promoted_last_and_not_what_was_only_made(tmp_path: Path, key: SigningKey) -> None:
    path = tmp_path / "ledger.jsonl"
    assert Ledger.read(path).serving_at(START).entry is None
    add(path, key, "r1", 1)
    add(path, key, "r2", 2, kind="release")
    add(path, key, "r2", 3)
    add(path, key, "r1", 4, kind="rollback")
    ledger = Ledger.read(path)
    names = [s.entry.what.name if (s := ledger.serving_at(START + timedelta(days=d))).entry else "" for d in range(6)]
    assert names == ["", "r1", "r1", "r2", "r1", "r1"]
    with pytest.raises(LineageError, match="no zone"):
        ledger.serving_at(datetime(2026, 3, 3))  # that is the point


@pytest.fixture(scope="module")
def thousand(tmp_path_factory: pytest.TempPathFactory, key: SigningKey) -> Path:
    """1,000 releases, chained without 1,000 fsyncs."""
    path = tmp_path_factory.mktemp("thousand") / "ledger.jsonl"
    add(path, key, "r1", 0)
    previous, lines = json.loads(path.read_text()), [path.read_text().strip()]
    for number in range(2, 1000):
        entry = {**previous, "sequence": number, "previous_hash": previous["hash"]}
        entry["what"] = {**previous["what"], "name": f"r{number}"}
        entry["time"] = (START + timedelta(hours=number)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        lines.append(with_hash(json.dumps(entry)))
        previous = json.loads(lines[-1])
    path.write_text("".join(f"{line}\n" for line in lines))
    head = Head.sealed(Entry.model_validate(previous), key)
    path.with_suffix(".head").write_text(head.model_dump_json())
    add(path, key, "r1000", 100)
    return path


def test_what_served_is_answered_from_a_thousand_releases_within_a_tenth_of_processor_second(thousand: Path) -> None:
    start = clock.process_time()  # not of the wall: other work on the machine does not count
    served = Ledger.read(thousand).serving_at(START + timedelta(hours=500.5))
    assert clock.process_time() - start < 0.1
    assert served.entry is not None
    assert served.entry.what.name == "r500"
    assert Ledger.read(thousand).verify().ok


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_changed_byte_is_found(
    thousand: Path, key: SigningKey, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Of twenty entries, any byte, any other value; only the last line end is not missed, as the head completes it."""
    lines = thousand.read_bytes().splitlines(keepends=True)[:20]
    content = bytearray(b"".join(lines))
    path = tmp_path_factory.mktemp("changed") / "ledger.jsonl"
    head = Head.sealed(Entry.model_validate_json(lines[-1]), key)
    path.with_suffix(".head").write_text(head.model_dump_json())
    place = data.draw(st.integers(0, len(content) - 1))
    old = content[place]
    content[place] = data.draw(st.integers(0, 255).filter(lambda value: value != old))
    path.write_bytes(bytes(content))
    verdict = Ledger.read(path).verify()
    if place == len(content) - 1:
        assert verdict.ok
        assert "signed head" in verdict.flags[0]
    else:
        assert not verdict.ok
        assert verdict.entry == 1 + bytes(content[:place]).count(b"\n")


def test_ledgers_are_readable_by_others_and_leave_no_litter(ledger: Path) -> None:
    assert {p.name for p in ledger.parent.iterdir()} <= {"ledger.jsonl", "ledger.head", "ledger.jsonl.lock"}
    assert os.access(ledger, os.R_OK)
