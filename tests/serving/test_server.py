"""A real server in a process of its own, over HTTP."""

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from dualmind.lineage.keys import open_key
from dualmind.serving.ids import open_secret, reviewer_token
from dualmind.traffic.read import read_month
from tests.serving.kill import TIME
from tests.serving.running import Server, make_root, production, running
from tests.serving.tiny import logged, make_gate_and_threshold, open_folder, prompts

ASK = {"domain": "reasoning", "prompt": "question : how many has tom ?"}


def act(server: Server, **body: Any) -> dict[str, Any]:
    with server.client() as client:
        answer = client.post("/act", json=body or ASK)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_an_answer_says_who_why_and_at_what_cost_and_is_in_the_log(server: Server) -> None:
    answer = act(server)
    assert (answer["release"], answer["state"], answer["threshold"]) == ("r1", 1, 0.5)
    assert (answer["tier"] == "system1") == (answer["score"] >= answer["threshold"])
    assert answer["flops"] > 0
    assert answer["request_id"] in {row["request_id"] for row in logged(server.root / "traffic")}
    text = act(server, domain="reasoning", text="How many  has Tom ?")
    assert text["score"] == pytest.approx(answer["score"], abs=1e-5)  # a person's words become a model's


def test_a_game_is_kept_by_the_server_and_the_agents_command_can_be_given(server: Server) -> None:
    with server.client() as client:
        game = client.post("/episode", json={"number": 1}).json()
        for step in range(3):
            answer = act(server, domain="household", episode=game["episode"])
            assert answer["command"] in game["commands"]
            game = client.post(f"/episode/{game['episode']}/step", json={"command": answer["command"]}).json()
            assert game["steps"] == step + 1
        refused = client.post(f"/episode/{game['episode']}/step", json={"command": "fly to desk 1"})
        assert (refused.status_code, "no command here" in refused.json()["error"]) == (422, True)
        assert client.post("/act", json={"domain": "household", "episode": "none"}).status_code == 422


def test_health_release_and_metrics(server: Server) -> None:
    act(server)
    with server.client() as client:
        assert client.get("/health").json()["status"] == "ok"
        release = client.get("/release").json()
        assert (release["release"], release["threshold"], release["proof"]["n"]) == ("r1", 0.5, 60)
        assert release["proof"]["upper_bound"] <= release["proof"]["alpha"]
        metrics = client.get("/metrics").text
        assert 'dualmind_decisions_total{domain="reasoning"' in metrics


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 422),
        (b"", 422),
        (b"[]", 422),
        (b"\xff\xfe", 422),
        (b'{"domain": "reasoning", "prompt": "\\ud800"}', 422),
        (b'{"domain": "cooking", "prompt": "a ?"}', 422),
        (b'{"domain": "reasoning", "prompt": " "}', 422),
        (b'{"domain": "reasoning", "prompt": "a", "extra": 1}', 422),
        (b'{"domain": "reasoning"}', 422),
        (json.dumps({**ASK, "prompt": "a " * 513}).encode(), 422),
        (b"[" * 60_000, 400),
        (json.dumps({**ASK, "prompt": "a" * 70_000}).encode(), 413),
    ],
)
def test_bad_bodies_are_refused_with_a_reason(body: bytes, status: int, server: Server) -> None:
    with server.client() as client:
        answer = client.post("/act", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert answer.json()["error"]


def connect(server: Server, head: str) -> socket.socket:
    url = httpx.URL(server.url)
    found = socket.create_connection((url.host, url.port), timeout=60)
    found.sendall(head.replace("\n", "\r\n").encode())
    return found


def test_a_body_of_ten_megabytes_is_refused_before_it_is_sent(server: Server) -> None:
    head = "POST /act HTTP/1.1\nHost: x\nContent-Type: application/json\nContent-Length: 10000000\n\n"
    with connect(server, head) as found:
        assert found.recv(100).startswith(b"HTTP/1.1 413")


def test_a_body_without_a_length_is_refused_when_it_grows_too_large(server: Server) -> None:
    head = "POST /act HTTP/1.1\nHost: x\nContent-Type: application/json\nTransfer-Encoding: chunked\n\n"
    with connect(server, head) as found:
        for _ in range(5):
            found.sendall(b"4000\r\n" + b"a" * 0x4000 + b"\r\n")
        assert found.recv(100).startswith(b"HTTP/1.1 413")


def test_slow_clients_keep_nobody_waiting(server: Server) -> None:
    head = "POST /act HTTP/1.1\nHost: x\nContent-Type: application/json\nContent-Length: 100\n\n{"
    slow = [connect(server, head) for _ in range(30)]
    try:
        act(server)
    finally:
        for own in slow:
            own.close()


def test_feedback_on_unknown_repeated_and_contradictory_ids(server: Server) -> None:
    name = act(server)["request_id"]
    other = name[:-1] + ("0" if name[-1] != "0" else "1")
    with server.client() as client:

        def give(**body: Any) -> tuple[int, Any]:
            answer = client.post("/feedback", json=body)
            return answer.status_code, answer.json()

        assert give(request_id=name, correct=True) == (200, {"outcome": "recorded"})
        assert give(request_id=name, correct=True) == (200, {"outcome": "repeated"})
        assert give(request_id=name, correct=False)[0] == 409
        assert give(request_id=other, correct=True)[0] == 404
        assert give(request_id="202611" + "0" * 40, correct=True)[0] == 404
        assert give(request_id=name, correct="yes")[0] == 422
        assert give(request_id=name, correct=True, source="system2")[0] == 422
        assert give(request_id=name, correct=True, source="person")[0] == 403
        assert give(request_id=name, correct=True, answer_correct=True)[0] == 422


def test_a_reviewer_labels_what_was_drawn_and_feedback_is_kept_apart(server: Server) -> None:
    token = reviewer_token(open_secret(server.root / "production/audit.key"))
    answers = [act(server, **{**ASK, "prompt": prompt}) for prompt in prompts(16)]
    names = [answer["request_id"] for answer in answers]
    audited = {row["request_id"] for row in logged(server.root / "traffic") if row["audited"]}
    with server.client() as client:
        for name in names:
            client.post("/feedback", json={"request_id": name, "correct": False})
            body = {"request_id": name, "correct": True, "answer_correct": False, "source": "person"}
            said = client.post("/feedback", json=body, headers={"x-reviewer-token": token})
            assert said.status_code == (200 if name in audited else 409)
    month = f"{names[0][:4]}-{names[0][4:6]}"
    rows = {row["request_id"]: row for row in read_month(server.root / "traffic", month).to_pylist()}
    assert {rows[name]["label_source"] == "feedback" for name in names if name not in audited} <= {True}
    assert all(rows[name]["label_source"] in {"system2", "person"} for name in names if name in audited)


CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_whatever_is_sent_the_answer_is_one_that_the_servers_description_names(
    mode: GenerationMode, server: Server
) -> None:
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    tried: Counter[str] = Counter()
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        if mode is GenerationMode.NEGATIVE and operation.method == "get":
            continue  # nothing can be sent with it

        @settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(mode))
        def probe(case: Any) -> None:
            tried[case.path] += 1
            case.call_and_validate(checks=CHECKS, timeout=60)

        probe()
    assert {"/act", "/feedback", "/episode", "/episode/{episode}/step"} <= tried.keys()
    assert all(tried[path] >= 20 for path in ("/act", "/feedback"))


def ask_until_stopped(server: Server, stop: threading.Event, told: list[dict[str, Any]], codes: Counter[int]) -> None:
    with server.client() as client:
        while not stop.is_set():
            try:
                answer = client.post("/act", json={**ASK, "prompt": prompts(8)[len(told) % 8]})
            except httpx.TransportError:  # refused, or cut off: not acknowledged
                codes[0] += 1
                if server.process.poll() is not None:
                    return
                continue
            codes[answer.status_code] += 1
            if answer.status_code == 200:
                told.append(answer.json())
            elif answer.status_code == 429:
                assert int(answer.headers["retry-after"]) >= 1


def test_sigterm_under_overload_loses_no_acknowledged_decision_and_repeats_none(tmp_path: Path) -> None:
    make_root(tmp_path)
    told: list[dict[str, Any]] = []
    codes: Counter[int] = Counter()
    with running(tmp_path, queue=3, batch_size=2) as server:
        stop = threading.Event()
        work = [threading.Thread(target=ask_until_stopped, args=(server, stop, told, codes)) for _ in range(12)]
        for thread in work:
            thread.start()
        while len(told) < 60 or not codes[429]:
            time.sleep(0.01)
        server.process.terminate()
        assert server.process.wait(timeout=120) == 0
        stop.set()
        for thread in work:
            thread.join()
    assert set(codes) <= {0, 200, 429, 503}
    names = [row["request_id"] for row in logged(tmp_path / "traffic")]
    assert len(names) == len(set(names))
    assert {answer["request_id"] for answer in told} <= set(names)


def test_a_promotion_is_picked_up_under_load_and_a_bad_one_is_reported_and_changes_nothing(tmp_path: Path) -> None:
    own = make_root(tmp_path)
    first = own.state
    assert first is not None
    gate, threshold = make_gate_and_threshold(tmp_path / "new", first.system1, value=0.9, tilt=0.5)
    told: list[dict[str, Any]] = []
    codes: Counter[int] = Counter()
    with running(tmp_path) as server:
        stop = threading.Event()
        work = [threading.Thread(target=ask_until_stopped, args=(server, stop, told, codes)) for _ in range(4)]
        for thread in work:
            thread.start()
        states: dict[int, float] = {1: 0.5}
        wait_for(server, lambda _: bool(told))
        key = open_key(tmp_path / "keys", "release", TIME)
        files = open_folder(tmp_path / "releases/r1")
        for turn in range(4):
            other = production(tmp_path, key)
            state = (
                other.rollback(who="Ann", why="back")
                if turn % 2
                else other.promote(files, gate, threshold, who="Ann", why="on")
            )
            states[state.number] = state.value
            wait_for(server, partial(is_among, state.number, told))
        kept = tmp_path / "production/current.json"
        good = kept.read_text()
        mixed = {
            **json.loads(good),
            "number": 99,
            "threshold": json.loads((tmp_path / "production/states/000002.json").read_text())["threshold"],
        }
        for bad in ('{"number":', json.dumps(mixed), json.dumps({**json.loads(good), "number": 99, "gate": "0" * 32})):
            kept.write_text(bad)
            with server.client() as client:
                wait_for(server, lambda answer: answer["status"] == "degraded", "/health")
                assert "still serves" in client.get("/health").json()["problem"]
            assert act(server)["state"] == 5
            kept.write_text(good)
            wait_for(server, lambda answer: answer["status"] == "ok", "/health")
        stop.set()
        for thread in work:
            thread.join()
        assert "ERROR" in (tmp_path / "server.log").read_text()
    assert set(codes) == {200}
    assert {answer["threshold"] == states[answer["state"]] for answer in told} == {True}
    assert {(answer["tier"] == "system1") == (answer["score"] >= answer["threshold"]) for answer in told} == {True}
    assert {answer["state"] for answer in told} == {1, 2, 3, 4, 5}
    labels = {row["request_id"]: row["release"] for row in logged(tmp_path / "traffic")}
    assert all(labels[answer["request_id"]] == f"r1#{answer['state']}" for answer in told)


def is_among(number: int, told: list[dict[str, Any]], _: dict[str, Any]) -> bool:
    return any(answer["state"] == number for answer in list(told))


def wait_for(server: Server, wanted: Callable[[dict[str, Any]], bool], path: str = "/release") -> None:
    deadline = time.monotonic() + 60
    with server.client() as client:
        while not wanted(client.get(path).json()):
            assert time.monotonic() < deadline, client.get("/health").text
            time.sleep(0.01)
