import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dualmind.errors import CalibrationError, DualmindError, GateError, ServingError, StorageError, ThresholdMismatch
from dualmind.lineage.ledger import Ledger
from dualmind.serving import production as module
from dualmind.serving.production import Production, State, kept_file, read_state, release_of
from tests.serving.kill import DIGESTS, TIME, files, key_of
from tests.serving.tiny import make_gate_and_threshold

REPOSITORY = Path(__file__).resolve().parents[2]


def make_production(root: Path) -> Production:
    """One with a state, and ``old`` and ``new`` gates and thresholds to choose from."""
    make_gate_and_threshold(root / "old", DIGESTS[0], value=0.6)
    make_gate_and_threshold(root / "new", DIGESTS[0], value=0.4, tilt=2.0)
    own = Production(root / "production", root / "releases/ledger.jsonl", key_of(root))
    promote(own, root, "old")
    return own


def promote(own: Production, root: Path, folder: str, name: str = "r1") -> State:
    gate, threshold = root / folder / "gate.json", root / folder / "threshold.json"
    return own.promote(files(root, name), gate, threshold, who="Ann", why="because", time=TIME)


def said(root: Path) -> list[tuple[str, str, str]]:
    ledger = Ledger.read(root / "releases/ledger.jsonl")
    assert ledger.verify().ok, ledger.verify().message
    return [(entry.kind, entry.what.subject, entry.what.name) for entry in ledger.entries]


def test_a_promotion_changes_gate_and_threshold_together_and_is_in_the_ledger(tmp_path: Path) -> None:
    own = make_production(tmp_path)
    state = promote(own, tmp_path, "new")
    assert read_state(own.folder) == state
    assert (state.number, state.value, state.label, release_of(state.label)) == (2, 0.4, "r1#2", "r1")
    for digest, name in ((state.gate, "gate.json"), (state.threshold, "threshold.json")):
        assert kept_file(own.folder, digest).read_bytes() == (tmp_path / "new" / name).read_bytes()
    assert said(tmp_path) == [
        ("promote", "release", "r1"),
        ("promote", "threshold", "0.6"),
        ("promote", "threshold", "0.4"),
    ]


def test_a_promotion_of_another_release_is_what_the_audit_finds(tmp_path: Path) -> None:
    own = make_production(tmp_path)
    promote(own, tmp_path, "new", "r2")
    serving = Ledger.read(tmp_path / "releases/ledger.jsonl").serving_at(TIME)
    assert serving.entry is not None
    assert serving.entry.what.name == "r2"
    own.rollback(who="Ann", why="worse", time=TIME)
    assert said(tmp_path)[-2:] == [("rollback", "release", "r1"), ("rollback", "threshold", "0.6")]


def test_rollbacks_lead_back_step_by_step_and_a_promotion_after_one_leads_back_to_it(tmp_path: Path) -> None:
    own = make_production(tmp_path)
    values = [promote(own, tmp_path, folder).value for folder in ("new", "old", "new")]
    assert values == [0.4, 0.6, 0.4]
    back = [own.rollback(who="Ann", why="worse") for _ in range(2)]
    assert [(state.number, state.value) for state in back] == [(5, 0.6), (6, 0.4)]
    promote(own, tmp_path, "old")
    assert own.rollback(who="Ann", why="worse").value == 0.4
    assert own.rollback(who="Ann", why="worse").value == 0.6  # the first of all
    with pytest.raises(ServingError, match="nothing served before"):
        own.rollback(who="Ann", why="worse")
    assert own.state is not None
    assert own.state.number == 9


def write_junk(root: Path) -> None:
    (root / "new/gate.json").write_text('{"weights_digest": ')


def swap_gates(root: Path) -> None:
    (root / "old/gate.json").replace(root / "new/gate.json")


def other_weights(root: Path) -> None:
    make_gate_and_threshold(root / "new", "3" * 32)


def lie_about_errors(root: Path) -> None:
    path = root / "new/threshold.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "errors": 30}))


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (write_junk, GateError),
        (swap_gates, ThresholdMismatch),
        (other_weights, GateError),
        (lie_about_errors, CalibrationError),
    ],
)
def test_what_does_not_fit_together_is_not_promoted(
    damage: Callable[[Path], None], error: type[DualmindError], tmp_path: Path
) -> None:
    own = make_production(tmp_path)
    before = own.state, said(tmp_path)
    damage(tmp_path)
    with pytest.raises(error):
        promote(own, tmp_path, "new")
    assert (own.state, said(tmp_path)) == before
    assert not (own.folder / "intent.json").exists()


@pytest.mark.parametrize("what", ["promote", "rollback"])
def test_a_change_that_is_killed_at_any_write_leaves_old_or_new_and_the_next_start_heals(
    what: str, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    own = make_production(root)
    if what == "rollback":
        promote(own, root, "new", "r2")
    old, before = own.state, said(root)
    assert old is not None
    subprocess.run([sys.executable, "-m", "tests.serving.kill", str(root), what], cwd=REPOSITORY, check=True)
    copies = sorted((tmp_path / "root-copies").iterdir())
    assert len(copies) > 20
    served = []
    for copy in copies:
        state = read_state(copy / "production")
        assert state is not None
        for digest in (state.gate, state.threshold):
            kept_file(copy / "production", digest)
        left = Production(copy / "production", copy / "releases/ledger.jsonl", key_of(copy))
        left.heal()
        assert left.heal() == ""
        assert left.state == state  # healing changes the ledger, never what serves
        changed = state != old
        served.append(changed)
        assert len(said(copy)) == len(before) + (2 if changed else 0), copy.name
        assert promote(left, copy, "new").number == state.number + 1
        assert said(copy)[-1] == ("promote", "threshold", "0.4")
    assert served == sorted(served)  # old before the one boundary, new after it
    assert set(served) == {False, True}


def test_a_full_disk_leaves_what_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = make_production(tmp_path)
    before = own.state

    def full(path: Path, _: object) -> None:
        raise StorageError(f"{path}: no space left")

    monkeypatch.setattr(module, "write_json", full)
    with pytest.raises(StorageError):
        promote(own, tmp_path, "new")
    monkeypatch.undo()
    own.heal()
    assert own.state == before
    assert promote(own, tmp_path, "new").number == 2


def test_two_who_promote_at_once_take_turns(tmp_path: Path) -> None:
    make_production(tmp_path)
    errors: list[BaseException] = []

    def work() -> None:
        own = Production(tmp_path / "production", tmp_path / "releases/ledger.jsonl", key_of(tmp_path))
        try:
            for _ in range(5):
                promote(own, tmp_path, "new")
        except BaseException as error:  # told below
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    state = read_state(tmp_path / "production")
    assert state is not None
    assert state.number == 11
    assert len(said(tmp_path)) == 12


def test_a_damaged_state_and_changed_files_are_named(tmp_path: Path) -> None:
    own = make_production(tmp_path)
    state = own.state
    assert state is not None
    kept_file(own.folder, state.gate).write_text("{}")
    with pytest.raises(ServingError, match=r"holds other bytes.*restore it"):
        kept_file(own.folder, state.gate)
    promote(own, tmp_path, "old")  # makes the file again
    assert kept_file(own.folder, state.gate).read_bytes() == (tmp_path / "old/gate.json").read_bytes()
    (own.folder / "current.json").write_text('{"number": 3}')
    with pytest.raises(ServingError, match=r"current\.json is damaged"):
        read_state(own.folder)
    with pytest.raises(ServingError, match="is damaged"):
        promote(own, tmp_path, "new")
