"""An agent with a memory: it says what it would say without, and asks System 2 less often."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from dualmind.agent.agent import Agent, Reply, Request
from dualmind.agent.gate import Gate
from dualmind.domains.reasoning.domain import as_prompt
from dualmind.errors import GatewayError
from dualmind.memory.core import Core
from dualmind.memory.entry import Entry, Key
from dualmind.memory.gateway import Gateway
from dualmind.memory.recall import Recall
from dualmind.models.system1 import FirstAnswer
from dualmind.models.system2 import System2, Thinking
from dualmind.symbolic.checker import ReasoningChecker
from tests.serving.tiny import make_gate_and_threshold, prompts, systems

REQUESTS = [Request("reasoning", prompt) for prompt in prompts(6)] + [
    Request("household", "goal : put a mug in desk 1", ("go to desk 1", "take mug from drawer 1", "go to drawer 1"))
]
ONE, TWO = "1" * 32, "2" * 32


class Counting(System2):
    """Counts the prompts that it thinks about."""

    asked = 0

    def answer(self, prompts: Sequence[str], *, max_steps: int | None = None, direct: bool = False) -> list[Thinking]:
        self.asked += len(prompts)
        found = super().answer(prompts, max_steps=max_steps, direct=direct)
        return [replace(own, answer=own.answer or "nothing") for own in found]  # untrained, it may say nothing

    def choose(
        self, prompts: Sequence[str], candidates: Sequence[Sequence[str]], *, max_steps: int | None = None
    ) -> list[Thinking]:
        self.asked += len(prompts)
        return super().choose(prompts, candidates, max_steps=max_steps)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Agent, Counting]:
    system1, plain = systems(0)
    system2 = Counting(plain.model.eval(), plain.tokenizer)
    system1.model.eval()
    path, _ = make_gate_and_threshold(tmp_path_factory.mktemp("gate"), ONE)
    return Agent(system1, system2, Gate.load(path, ONE), np.inf), system2


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with Gateway(Core(tmp_path / "core.db", 1000), shared=100, working=4) as opened:
        yield opened


def with_memory(agent: Agent, gateway: Gateway, threshold: float = np.inf, **changes: object) -> tuple[Agent, Recall]:
    given: dict[str, object] = {"system1": ONE, "system2": TWO, "probe_share": 0.0, "rng": np.random.default_rng(0)}
    memory = Recall(gateway, **{**given, **changes})  # type: ignore[arg-type]  # as they are told
    return Agent(agent.system1, agent.system2, agent.gate, threshold, memory=memory), memory


def said(replies: Sequence[Reply]) -> list[Reply]:
    """All but what a memory may change."""
    return [replace(reply, latency_ms=0.0, flops=0, remembered=False) for reply in replies]


def test_the_second_time_system2_is_not_asked_and_the_replies_are_the_same(
    parts: tuple[Agent, Counting], gateway: Gateway
) -> None:
    plain, system2 = parts
    wanted = plain.act(REQUESTS)
    agent, memory = with_memory(plain, gateway)
    first = agent.act(REQUESTS)
    asked = system2.asked
    second = agent.act(REQUESTS)
    assert system2.asked == asked
    assert said(first) == said(second) == said(wanted)
    assert [reply.remembered for reply in first + second] == [False] * 7 + [True] * 7
    assert [reply.flops for reply in first] == [reply.flops for reply in wanted]
    assert all(one.flops < other.flops for one, other in zip(second, first, strict=True))
    assert asdict(memory.tally) == {
        "asked": 14, "recalled": 7, "probed": 0, "stale": 0, "agreed": 0, "revised": 0, "refused": 0,
    }  # fmt: skip


def test_what_was_learnt_survives_the_process_and_the_episode(parts: tuple[Agent, Counting], tmp_path: Path) -> None:
    with Gateway(Core(tmp_path / "core.db", 1000), shared=3, working=2) as gateway:
        agent, memory = with_memory(parts[0], gateway)
        agent.act(REQUESTS)
        memory.new_episode()
        assert all(reply.remembered for reply in agent.act(REQUESTS))
    with Gateway(Core(tmp_path / "core.db", 1000), shared=3, working=2) as gateway:
        agent, _ = with_memory(parts[0], gateway)
        assert all(reply.remembered for reply in agent.act(REQUESTS))


def test_system1_answers_what_it_would_answer_without_a_memory_and_writes_nothing(
    parts: tuple[Agent, Counting], gateway: Gateway
) -> None:
    """The proof of a threshold covers all that scores at or above it; a memory must not reach there."""
    with_memory(parts[0], gateway)[0].act(REQUESTS)
    gateway.flush()
    before = len(gateway.core)
    scores = [reply.score for reply in parts[0].act(REQUESTS)]
    middle = float(np.median(scores))
    plain = Agent(parts[0].system1, parts[0].system2, parts[0].gate, middle)
    agent, memory = with_memory(parts[0], gateway, threshold=middle)
    replies = agent.act(REQUESTS)
    assert said(replies) == said(plain.act(REQUESTS))
    assert [reply.remembered for reply in replies] == [score < middle for score in scores]
    assert memory.tally.asked == sum(score < middle for score in scores)
    alone, _ = with_memory(parts[0], gateway, threshold=-np.inf)
    alone.act([Request("reasoning", "question : a new one ?")])
    gateway.flush()
    assert len(gateway.core) == before


def test_a_short_thought_is_not_taken_for_a_long_one_but_the_other_way_round(
    parts: tuple[Agent, Counting], gateway: Gateway
) -> None:
    plain = parts[0]

    def act(deep: float) -> list[bool]:
        memory = Recall(gateway, system1=ONE, system2=TWO, probe_share=0.0, rng=np.random.default_rng(0))
        agent = Agent(plain.system1, plain.system2, plain.gate, np.inf, deep, memory)
        return [reply.remembered for reply in agent.act(REQUESTS)]

    assert act(deep=-np.inf) == [False] * 7  # shallow
    gateway.flush()
    assert act(deep=np.inf) == [False] * 7
    gateway.flush()
    assert act(deep=-np.inf) == [True] * 7


def test_entries_of_other_weights_of_system2_are_confirmed_or_replaced_before_they_answer(
    parts: tuple[Agent, Counting], gateway: Gateway
) -> None:
    agent, _ = with_memory(parts[0], gateway, system2="9" * 32)
    agent.act(REQUESTS)
    gateway.flush()
    key = Key.of("reasoning", REQUESTS[0].prompt)
    old = gateway.core.read(key)
    assert old is not None
    gateway.shared.remove(key)
    gateway.core.write([replace(old, answer="something else")])
    agent, memory = with_memory(parts[0], gateway)
    assert not any(reply.remembered for reply in agent.act(REQUESTS))
    assert (memory.tally.stale, memory.tally.agreed, memory.tally.revised) == (7, 6, 1)
    assert all(reply.remembered for reply in agent.act(REQUESTS))
    gateway.close()
    with Core(gateway.core.path, 1000) as core:
        found = core.read(key)
        assert found is not None
        assert (found.answer, found.writer) == (old.answer, TWO)


def test_hits_that_are_drawn_are_compared_with_system2(parts: tuple[Agent, Counting], gateway: Gateway) -> None:
    agent, memory = with_memory(parts[0], gateway, probe_share=0.5)
    for _ in range(9):
        agent.act(REQUESTS)
    assert memory.tally.recalled + memory.tally.probed == 8 * 7
    assert 10 < memory.tally.probed < 46
    assert (memory.tally.agreed, memory.tally.revised) == (memory.tally.probed, 0)


def first(answer: str) -> FirstAnswer:
    return FirstAnswer(answer, -0.1, 0.5, np.ones(4))


def ask(memory: Recall, request: Request, system1: str, system2: str) -> str | None:
    """One request, by hand: what is remembered, or else what System 2 says now."""
    (known,) = memory.recall([request], [first(system1)], ["full"])
    thought = None if known else Thinking(("#1 x",), system2, -0.1, 3)
    memory.keep([request], [first(system1)], ["full"], [thought])
    return None if known is None else known.answer


def held(gateway: Gateway, request: Request) -> Entry | None:
    return gateway.episode().read(Key.of(request.domain, request.prompt))


def test_an_entry_gains_where_system1_would_have_said_something_else_and_less_as_it_learns(gateway: Gateway) -> None:
    memory = Recall(gateway, system1=ONE, system2=TWO, probe_share=0.0, rng=np.random.default_rng(0))
    helps, outgrown = Request("reasoning", "question : one ?"), Request("reasoning", "question : two ?")
    ask(memory, helps, "no", "yes")
    ask(memory, outgrown, "no", "yes")
    for _ in range(6):
        assert ask(memory, helps, "no", "yes") == "yes"
        assert ask(memory, outgrown, "yes", "yes") == "yes"
    memory.new_episode()
    found = [held(gateway, request) for request in (helps, outgrown)]
    assert [(own.trials, own.gain) for own in found if own] == [(6, 6.0), (6, 0.0)]
    assert gateway.prune(0.2, 5) == 1
    assert held(gateway, helps) is not None
    assert held(gateway, outgrown) is None


def test_trials_begin_anew_with_another_system1_that_reads_otherwise(gateway: Gateway) -> None:
    request = Request("reasoning", "question : one ?")
    memory = Recall(gateway, system1=ONE, system2=TWO, probe_share=0.0, rng=np.random.default_rng(0))
    for _ in range(4):
        ask(memory, request, "no", "yes")
    memory.new_episode()
    memory = Recall(gateway, system1="8" * 32, system2=TWO, probe_share=0.0, rng=np.random.default_rng(0))
    assert ask(memory, request, "yes", "yes") == "yes"
    memory.new_episode()
    found = held(gateway, request)
    assert found is not None
    assert (found.reader, found.trials, found.gain) == ("8" * 32, 1, 0.0)


def test_feedback_forgets_a_wrong_answer_at_once_and_counts_a_right_one(gateway: Gateway) -> None:
    memory = Recall(gateway, system1=ONE, system2=TWO, probe_share=0.0, rng=np.random.default_rng(0))
    request = Request("reasoning", "question : one ?")
    ask(memory, request, "no", "yes")
    memory.feedback(request, right_with=True, right_without=False)
    memory.feedback(request, right_with=True, right_without=True)
    memory.new_episode()
    found = held(gateway, request)
    assert found is not None
    assert (found.trials, found.gain) == (2, 1.0)
    memory.feedback(request, right_with=False, right_without=True)
    assert held(gateway, request) is None
    memory.feedback(request, right_with=True, right_without=True)  # nothing there: nothing happens


def test_answers_that_the_checker_calls_wrong_are_not_remembered(gateway: Gateway) -> None:
    memory = Recall(
        gateway, system1=ONE, system2=TWO, probe_share=0.0, rng=np.random.default_rng(0), checker=ReasoningChecker()
    )
    request = Request("reasoning", as_prompt("close all open brackets : ( ["))
    known = Request("reasoning", "question : of no family ?")
    for own, steps, answer in (
        (request, ("#1 ]", "#2 ]"), "] ]"),  # a wrong step
        (request, ("#1 ]",), "]"),  # too few
        (request, ("#1 ]", "#2 )"), ""),
        (request, ("#1 ]", "#2 )"), "] )"),
        (known, ("#1 x",), "y"),
    ):
        memory.keep([own], [first("a")], ["full"], [Thinking(steps, answer, -0.1, 4)])
    assert memory.tally.refused == 3
    memory.new_episode()
    found = [held(gateway, own) for own in (request, known)]
    assert [(own.answer, own.checked_by) for own in found if own] == [("] )", "checker"), ("y", "system2")]


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_out_of_range_is_refused(gateway: Gateway, share: float) -> None:
    with pytest.raises(GatewayError, match="give a share of the hits, 0 to 1"):
        Recall(gateway, system1=ONE, system2=TWO, rng=np.random.default_rng(0), probe_share=share)
