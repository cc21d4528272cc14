import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dualmind.errors import PipelineError
from tasks.programs import Ended, Limit, ProcessGroups


def run(groups: ProcessGroups, script: str, root: Path, *limits: Limit, log: Callable[[str], None] = print) -> Ended:
    return groups.run(["bash", "-c", script], root, environment=os.environ, limits=limits, log=log)


def test_output_is_passed_on_line_by_line_and_the_last_lines_are_kept(tmp_path: Path) -> None:
    lines: list[str] = []
    ended = run(ProcessGroups(2), "seq 40; echo oh >&2; exit 3", tmp_path, log=lines.append)
    assert lines == [*map(str, range(1, 41)), "oh"]
    assert ended == Ended(3, tuple(lines[-30:]), None)


def test_all_that_a_program_started_ends_with_it_at_its_limit(tmp_path: Path) -> None:
    marker = tmp_path / "alive"
    script = f"(while true; do touch {marker}; sleep 0.2; done) & wait"
    ended = run(ProcessGroups(2), script, tmp_path, Limit(1.5, lambda _: "too slow"))
    assert (ended.code, ended.reason) == (-9, "too slow")
    marker.unlink()
    time.sleep(1)
    assert not marker.exists()


def test_a_limit_that_finds_no_reason_lets_a_program_run(tmp_path: Path) -> None:
    assert run(ProcessGroups(2), "sleep 1", tmp_path, Limit(0.1, lambda _: None)) == Ended(0, (), None)


def test_stop_kills_all_that_run_from_other_threads_and_starts_no_more(tmp_path: Path) -> None:
    groups, both = ProcessGroups(2), threading.Barrier(3)

    def meet(_: str) -> None:
        both.wait(60)

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(run, groups, "echo up; sleep 600", tmp_path, log=meet) for _ in range(2)]
        both.wait(60)
        groups.stop()
        for future in futures:
            with pytest.raises(PipelineError, match="was stopped, because the run was"):
                future.result(timeout=60)
    with pytest.raises(PipelineError, match="was not started"):
        run(groups, "touch started", tmp_path)
    assert not (tmp_path / "started").exists()


def test_nothing_is_left_running_where_the_log_fails(tmp_path: Path) -> None:
    pids: list[int] = []

    def fail(line: str) -> None:
        pids.append(int(line))
        raise RuntimeError("log is full")

    with pytest.raises(RuntimeError, match="log is full"):
        run(ProcessGroups(2), "echo $$; exec sleep 600", tmp_path, log=fail)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_no_more_than_so_many_run_side_by_side(tmp_path: Path) -> None:
    """Each program notes how many there are while it runs."""
    groups = ProcessGroups(2)
    script = "touch run.$$; sleep 0.5; ls run.* | wc -l; sleep 0.5; rm run.$$"
    with ThreadPoolExecutor(5) as pool:
        ended = list(pool.map(lambda _: run(groups, script, tmp_path), range(5)))
    assert max(int(own.tail[-1]) for own in ended) == 2


def test_stop_ends_those_that_wait_for_their_turn(tmp_path: Path) -> None:
    groups, up = ProcessGroups(1), threading.Event()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(run, groups, "echo up; sleep 600", tmp_path, log=lambda _: up.set())
        assert up.wait(60)
        second = pool.submit(run, groups, "touch started", tmp_path)
        groups.stop()
        for future in (first, second):
            with pytest.raises(PipelineError, match="because the run was"):
                future.result(timeout=60)
    assert not (tmp_path / "started").exists()
