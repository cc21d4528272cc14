import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dualmind.agent.agent import Agent, Reply, Request
from dualmind.errors import Overloaded, RequestError, ServingError, StorageError
from dualmind.serving.engine import Answered, Engine
from dualmind.serving.ids import Names
from dualmind.serving.labelling import SystemTwo
from dualmind.serving.loading import Served, load
from dualmind.serving.metrics import Metrics
from dualmind.serving.production import Production
from dualmind.traffic import log as log_module
from dualmind.traffic.log import DecisionLog
from dualmind.traffic.read import read_month
from tests.serving.running import make_root
from tests.serving.tiny import logged, make_gate_and_threshold, open_folder, prompts

SECRET = bytes(range(32))
LIMIT_S = 120.0


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Production:
    return make_root(tmp_path_factory.mktemp("engine"))


def load_current(own: Production, former: Served | None = None) -> Served:
    state = own.state
    assert state is not None
    return load(state, own.folder, lambda name: open_folder(own.folder.parent / "releases" / name), former)


@pytest.fixture(scope="module")
def served(own: Production) -> Served:
    return load_current(own)


class Slow(Agent):
    """Answers only when it is let, and raises where it is told to."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent.system1, agent.system2, agent.gate, agent.threshold)
        self.begun, self.go = threading.Semaphore(0), threading.Semaphore(0)

    def act(self, requests: Sequence[Request]) -> list[Reply]:
        self.begun.release()
        assert self.go.acquire(timeout=LIMIT_S)
        if any("breaks" in request.prompt for request in requests):
            raise ArithmeticError("a bug")
        return super().act(requests)


@contextmanager
def engine(served: Served, traffic: Path, **changes: Any) -> Iterator[Engine]:
    rate = changes.pop("audit_rate", 0.0)
    values: dict[str, Any] = {
        "labeller": lambda served: SystemTwo(served.agent.system2),
        "batch_size": 8,
        "gather_s": 0.0,
        "queue": 100,
        "store_prompts": False,
    }
    with (
        DecisionLog(traffic, batch=16, interval_s=0.002) as log,
        Engine(served, log, traffic, Names(SECRET, rate), Metrics(), **{**values, **changes}) as found,
    ):
        yield found


def results(answers: Sequence["Future[Answered]"]) -> list[Answered]:
    return [answer.result(timeout=LIMIT_S) for answer in answers]


def requests(number: int) -> list[Request]:
    """Questions and choices in turn, some of them looping."""
    commands = ("go to desk 1 new", "take mug 1 from desk 1 seen", "go to drawer 2 closed")
    return [
        Request("household", prompt, commands, commands[:1] * (i % 5)) if i % 2 else Request("reasoning", prompt)
        for i, prompt in enumerate(prompts(number))
    ]


def test_a_batch_gives_what_one_by_one_gives(served: Served, tmp_path: Path) -> None:
    asked = requests(24)
    with engine(served, tmp_path, gather_s=2.0) as found:
        answers = results([found.submit(request) for request in asked])
        sizes = found.metrics.registry.get_sample_value("dualmind_batch_size_sum")
        number = found.metrics.registry.get_sample_value("dualmind_batch_size_count")
    assert (sizes, number) == (24, 3)
    for request, answer in zip(asked, answers, strict=True):
        (alone,) = served.agent.act([request])
        same = replace(answer.reply, latency_ms=0, score=0, probability=0, confidence=0, difficulty=0, curvature=0)
        assert same == replace(alone, latency_ms=0, score=0, probability=0, confidence=0, difficulty=0, curvature=0)
        assert answer.reply.score == pytest.approx(alone.score, abs=1e-5)
        assert answer.reply.confidence == pytest.approx(alone.confidence, abs=1e-5)
        assert answer.reply.probability == pytest.approx(alone.probability, rel=1e-3)
    assert {answer.reply.tier for answer in answers} > {"system1"}


def test_an_answer_is_told_when_it_is_in_the_log_and_all_fields_are_there(served: Served, tmp_path: Path) -> None:
    with engine(served, tmp_path) as found:
        for request in requests(4):
            (answer,) = results([found.submit(request)])
            last = logged(tmp_path)[-1]
            assert last["request_id"] == answer.request_id
            assert (last["answer"], last["tier"]) == (answer.reply.answer, answer.reply.tier)
            assert (last["score"], last["release"]) == (answer.reply.score, "r1#1")
            assert found.served is answer.served
    assert not (tmp_path / "prompts").exists()


def test_prompts_are_kept_only_where_that_is_wanted(served: Served, tmp_path: Path) -> None:
    with engine(served, tmp_path, store_prompts=True) as found:
        (answer,) = results([found.submit(Request("reasoning", "question : how many ?"))])
    (path,) = (tmp_path / "prompts").glob("*.jsonl")
    assert f'"request_id": "{answer.request_id}"' in path.read_text()
    assert "question : how many ?" in path.read_text()
    assert "how many" not in "".join(file.read_text() for file in tmp_path.glob("????-??/*.jsonl"))


def test_a_full_queue_refuses_and_says_when_to_come_again(served: Served, tmp_path: Path) -> None:
    slow = Slow(served.agent)
    with engine(replace(served, agent=slow), tmp_path, batch_size=1, queue=2) as found:
        answers = [found.submit(Request("reasoning", "a ?"))]
        assert slow.begun.acquire(timeout=LIMIT_S)
        answers += [found.submit(Request("reasoning", "b ?")) for _ in range(2)]
        with pytest.raises(Overloaded, match="2 requests are waiting") as refused:
            found.submit(Request("reasoning", "c ?"))
        assert refused.value.retry_s >= 1
        for _ in range(3):
            slow.go.release()
        results(answers)
    assert len(logged(tmp_path)) == 3


def test_what_is_taken_back_in_time_is_neither_answered_nor_logged(served: Served, tmp_path: Path) -> None:
    slow = Slow(served.agent)
    with engine(replace(served, agent=slow), tmp_path, batch_size=1) as found:
        first = found.submit(Request("reasoning", "a ?"))
        assert slow.begun.acquire(timeout=LIMIT_S)
        second = found.submit(Request("reasoning", "b ?"))
        assert second.cancel()
        assert not first.cancel()
        slow.go.release()
        results([first])
    assert len(logged(tmp_path)) == 1


def test_nobody_suffers_from_a_neighbour_on_which_the_agent_breaks(served: Served, tmp_path: Path) -> None:
    slow = Slow(served.agent)
    asked = [Request("reasoning", text) for text in ("a ?", "this breaks ?", "b ?")]
    with engine(replace(served, agent=slow), tmp_path, gather_s=60.0, batch_size=3) as found:
        answers = [found.submit(request) for request in asked]
        for _ in range(4):
            slow.go.release()
        results([answers[0], answers[2]])
        with pytest.raises(ArithmeticError):
            answers[1].result(timeout=LIMIT_S)
    assert len(logged(tmp_path)) == 2


def test_closing_answers_what_waits_and_takes_nothing_new(served: Served, tmp_path: Path) -> None:
    slow = Slow(served.agent)
    with engine(replace(served, agent=slow), tmp_path, batch_size=2) as found:
        answers = [found.submit(request) for request in requests(7)]
        closing = threading.Thread(target=found.close)
        closing.start()
        while found.alive:
            time.sleep(0.001)
        with pytest.raises(ServingError, match="stopping"):
            found.submit(Request("reasoning", "late ?"))
        for _ in range(7):
            slow.go.release()
        closing.join(LIMIT_S)
        told = {answer.request_id for answer in results(answers)}
    assert told == {row["request_id"] for row in logged(tmp_path)}


def test_a_full_disk_is_told_and_the_next_request_is_answered(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, _: bytes) -> int:
        raise StorageError(f"{path}: no space left")

    with engine(served, tmp_path) as found:
        with monkeypatch.context() as patch:
            patch.setattr(log_module, "append_lines", full)
            with pytest.raises(StorageError):
                found.submit(Request("reasoning", "a ?")).result(timeout=LIMIT_S)
        results([found.submit(Request("reasoning", "a ?"))])
    assert len(logged(tmp_path)) == 1


@pytest.mark.parametrize(
    "request_", [Request("cooking", "a ?"), Request("reasoning", " "), Request("reasoning", "a " * 513)]
)
def test_what_no_system_should_read_is_refused(request_: Request, served: Served, tmp_path: Path) -> None:
    with engine(served, tmp_path) as found, pytest.raises(RequestError):
        found.submit(request_)


def test_the_drawn_sample_is_of_all_requests_and_system_two_labels_both_answers(served: Served, tmp_path: Path) -> None:
    with engine(served, tmp_path, audit_rate=1.0) as found:
        asked = requests(20)
        answers = results([found.submit(request) for request in asked])
    (month,) = {answer.month for answer in answers}
    rows = {row["request_id"]: row for row in read_month(tmp_path, month).to_pylist()}
    for request, answer in zip(asked, answers, strict=True):
        row, reply = rows[answer.request_id], answer.reply
        (alone,) = Agent(served.agent.system1, served.agent.system2, served.agent.gate, -np.inf).act([request])
        (truth,) = Agent(served.agent.system1, served.agent.system2, served.agent.gate, np.inf, np.inf).act([request])
        assert truth.tier == "full"
        assert (row["audited"], row["label_source"]) == (True, "system2")
        assert row["system1_answer"] == reply.system1_answer == alone.answer
        assert row["correct"] == (alone.answer == truth.answer)
        assert row["answer_correct"] == (reply.answer == truth.answer)
    assert {answer.reply.tier for answer in answers} > {"system1"}


def test_the_draw_has_the_rate_and_a_name_tells_it_after_a_restart() -> None:
    names, again, other = Names(SECRET, 0.3), Names(SECRET, 0.3), Names(SECRET[::-1], 0.3)
    made = [names.make("2026-11") for _ in range(4000)]
    assert len({name for name, _ in made}) == 4000
    assert sum(drawn for _, drawn in made) == pytest.approx(1200, abs=5 * (4000 * 0.3 * 0.7) ** 0.5)
    for name, drawn in made[:200]:
        origin = again.read(name)
        assert origin is not None
        assert (origin.month, origin.audited) == ("2026-11", drawn)
        assert other.read(name) is None
        assert again.read(name[:-1] + ("0" if name[-1] != "0" else "1")) is None


def tilted(own: Production, root: Path, value: float, tilt: float) -> Callable[[], Any]:
    state = own.state
    assert state is not None
    gate, threshold = make_gate_and_threshold(root / f"{tilt}", state.system1, value=value, tilt=tilt)
    files = open_folder(own.folder.parent / "releases/r1")
    return lambda: own.promote(files, gate, threshold, who="Ann", why="test")


def test_a_swap_under_load_never_mixes_gate_and_threshold(own: Production, served: Served, tmp_path: Path) -> None:
    promote = [tilted(own, tmp_path, 0.9, 1.0), tilted(own, tmp_path, 0.1, -1.0 + 1.5)]
    states = [served]
    for change in promote:
        change()
        states.append(load_current(own, states[-1]))
    assert states[1].agent.system1 is served.agent.system1  # one copy of the weights
    asked = requests(10)
    expected = [{i: s.agent.act([request])[0] for i, s in enumerate(states)} for request in asked]
    seen: list[tuple[int, Answered]] = []
    with engine(served, tmp_path / "traffic", batch_size=4) as found:

        def ask(first: int) -> None:
            for i in range(60):
                which = (first + i) % len(asked)
                seen.append((which, found.submit(asked[which]).result(timeout=LIMIT_S)))

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        turn = 0
        while any(thread.is_alive() for thread in threads):
            turn += 1
            found.swap(states[turn % 3])
            time.sleep(0.005)
        for thread in threads:
            thread.join()
    by_name = {row["request_id"]: row["release"] for row in logged(tmp_path / "traffic")}
    assert len(by_name) == len(seen) == 240
    numbers = set()
    for which, answer in seen:
        at = states.index(answer.served)
        numbers.add(at)
        assert answer.reply.score == pytest.approx(expected[which][at].score, abs=1e-5)
        assert answer.reply.tier == expected[which][at].tier
        assert by_name[answer.request_id] == answer.served.state.label
    assert numbers == {0, 1, 2}
