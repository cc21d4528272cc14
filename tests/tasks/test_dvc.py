import hashlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dualmind.errors import PipelineError
from tasks.dvc import order_lock, read_lock, reproduce, unchanged
from tasks.graph import read_graph
from tasks.programs import ProcessGroups
from tests.tasks.pipelines import make_project


def test_a_stage_runs_streams_its_output_and_is_returned_by_content(tmp_path: Path) -> None:
    root, lines = make_project(tmp_path), list[str]()
    ref = reproduce("first", root, ProcessGroups(2), timeout_s=600, lock_wait_s=60, log=lines.append)
    assert "made by first" in lines
    assert ref.out("one.json").md5 == hashlib.md5((root / "one.json").read_bytes(), usedforsecurity=False).hexdigest()
    assert ref.out("one.json").size == 2
    assert [dep.path for dep in ref.deps] == ["source.txt"]
    assert read_lock("first", root) == ref
    with pytest.raises(PipelineError, match=r"no output three\.txt; it has one\.json"):
        ref.out("three.txt")


def test_only_the_named_stage_runs(tmp_path: Path) -> None:
    root = make_project(tmp_path)
    reproduce("first", root, ProcessGroups(2), timeout_s=600, lock_wait_s=60, log=lambda _: None)
    assert not (root / "two.txt").exists()


@pytest.mark.parametrize(
    ("second", "limit_s", "message"),
    [
        ("echo oh no && exit 3", 600, "(?s)stage second failed.*oh no"),
        ("kill -9 $$", 600, "(?s)stage second failed.*killed by SIGKILL"),
        ("sleep 600", 8, "(?s)stage second failed.*longer than the limit of a stage, 8 s"),
    ],
)
def test_a_stage_that_fails_is_killed_or_hangs_is_a_clear_error(
    tmp_path: Path, second: str, limit_s: float, message: str
) -> None:
    root = make_project(tmp_path, second)
    reproduce("first", root, ProcessGroups(2), timeout_s=600, lock_wait_s=60, log=lambda _: None)
    with pytest.raises(PipelineError, match=message):
        reproduce("second", root, ProcessGroups(2), timeout_s=limit_s, lock_wait_s=60, log=lambda _: None)
    with pytest.raises(PipelineError, match="run `dvc repro second`"):
        read_lock("second", root)


def test_an_output_that_another_dvc_is_making_is_a_clear_error(tmp_path: Path) -> None:
    root = make_project(tmp_path, "while [ ! -e go ]; do sleep 0.2; done; cp one.json two.txt")
    reproduce("first", root, ProcessGroups(2), timeout_s=600, lock_wait_s=60, log=lambda _: None)
    other = subprocess.Popen([sys.executable, "-m", "dvc", "repro", "second"], cwd=root, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 300
        while "second" not in (root / ".dvc/tmp/rwlock").read_text() and time.monotonic() < deadline:
            time.sleep(0.1)
        with pytest.raises(
            PipelineError, match=rf"another dvc is at work in this folder, process {other.pid} \(.*repro second\)"
        ):
            reproduce("second", root, ProcessGroups(2), timeout_s=600, lock_wait_s=60, log=lambda _: None)
    finally:
        (root / "go").touch()
        other.wait(timeout=600)
    assert read_lock("second", root).out("two.txt").size == 2


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds DVC's lock on a project."""
    root = make_project(tmp_path)
    code = (
        "import dvc.lock, time; own = dvc.lock.Lock('.dvc/tmp/lock'); own.lock(); "
        "print('held', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=root, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_lock_that_is_held_is_waited_for_until_its_own_limit_and_its_holder_named(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    with pytest.raises(PipelineError, match=rf"waited 6 s for DVC's lock, which process {holder.pid} \(.*dvc\.lock"):
        reproduce("first", tmp_path, ProcessGroups(2), timeout_s=600, lock_wait_s=6, log=lambda _: None)


def test_a_slow_stage_is_not_taken_for_waiting(tmp_path: Path) -> None:
    root = make_project(tmp_path, "sleep 8 && cp one.json two.txt")
    reproduce("first", root, ProcessGroups(2), timeout_s=600, lock_wait_s=60, log=lambda _: None)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as other:
        (root / ".dvc/tmp/lock").write_text(f" {other.pid}\n")  # it held the lock before
        ref = reproduce("second", root, ProcessGroups(2), timeout_s=600, lock_wait_s=6, log=lambda _: None)
        other.kill()
    assert ref.out("two.txt").size == 2


FORK = """
stages:
  b: {cmd: "echo b > b.txt", deps: [y.txt, x.txt], outs: [b.txt]}
  z: {cmd: "echo x > x.txt", outs: [x.txt]}
  a: {cmd: "echo y > y.txt", outs: [y.txt], desc: "a: b"}
  c: {foreach: [two, one], do: {cmd: "echo c > ${item}.txt", outs: ["${item}.txt"], deps: [x.txt]}}
"""


def test_order_of_the_lock_is_that_of_dvc_repro_whatever_ended_first(tmp_path: Path) -> None:
    root = make_project(tmp_path)
    (root / "dvc.yaml").write_text(FORK)
    dvc = [sys.executable, "-m", "dvc"]
    subprocess.run([*dvc, "repro", "-q"], cwd=root, check=True)
    wanted = (root / "dvc.lock").read_bytes()
    (root / "dvc.lock").unlink()
    for name in ("z", "c@one", "a", "c@two", "b"):
        subprocess.run([*dvc, "repro", "-q", "--single-item", name], cwd=root, check=True)
    assert (root / "dvc.lock").read_bytes() != wanted
    assert order_lock(list(read_graph(root)), root)
    assert (root / "dvc.lock").read_bytes() == wanted
    status = subprocess.run([*dvc, "status"], cwd=root, check=True, capture_output=True, text=True)
    assert "up to date" in status.stdout


def test_order_is_left_where_another_dvc_is_at_work(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    del holder  # it holds the lock
    (tmp_path / "dvc.lock").write_text("stages: {second: 1, first: 2}")
    assert not order_lock(["first", "second"], tmp_path)
    assert (tmp_path / "dvc.lock").read_text() == "stages: {second: 1, first: 2}"


def test_a_lock_file_that_is_damaged_is_named(tmp_path: Path) -> None:
    (tmp_path / "dvc.lock").write_text("stages: {first: 3}")
    with pytest.raises(PipelineError, match=r"dvc\.lock does not record stage first"):
        read_lock("first", tmp_path)


def test_dvc_is_asked_once_which_stages_are_unchanged_and_what_follows_a_changed_one_is_not(tmp_path: Path) -> None:
    root, groups = make_project(tmp_path), ProcessGroups(1)
    graph = read_graph(root)
    assert unchanged(graph, root, groups, timeout_s=600) == frozenset()  # nothing has run
    subprocess.run([sys.executable, "-m", "dvc", "repro", "-q"], cwd=root, check=True)
    assert unchanged(graph, root, groups, timeout_s=600) == {"first", "second"}
    (root / "two.txt").unlink()
    assert unchanged(graph, root, groups, timeout_s=600) == {"first"}
    (root / "source.txt").write_text("won: {share: 0.6}\n")
    assert unchanged(graph, root, groups, timeout_s=600) == frozenset()  # the second may be another one after the first
    (root / "dvc.yaml").write_text("stages: [")
    assert unchanged(graph, root, groups, timeout_s=600) == frozenset()  # DVC cannot say
