import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from dualmind.agent.agent import Agent, Request
from dualmind.agent.gate import Gate
from dualmind.domains.reasoning.domain import Reasoning, as_prompt
from dualmind.domains.reasoning.generate import generate_questions
from dualmind.serving.clock import SteppingClock, utc_now
from dualmind.serving.labelling import Verdict
from dualmind.serving.replay import QUIET, SHIFTED, Asked, Scorer
from tests.serving.tiny import make_release, systems

BEGIN = datetime(2026, 10, 1, tzinfo=UTC)


def test_a_stepping_clock_gives_each_reader_another_time_and_never_goes_back() -> None:
    clock = SteppingClock(BEGIN, timedelta(seconds=2))
    seen: list[datetime] = []
    threads = [threading.Thread(target=lambda: seen.extend(clock() for _ in range(500))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [BEGIN + timedelta(seconds=2 * i) for i in range(2000)]
    assert utc_now().tzinfo is UTC


@pytest.mark.parametrize(("shifted", "mix"), [(False, QUIET), (True, SHIFTED)])
def test_a_shifted_month_is_harder_and_half_of_it_is_phrased_anew(shifted: bool, mix: object) -> None:
    asked = Asked(400, shifted=shifted, seed=3)
    questions = generate_questions({"valid_unseen": 400}, mix, seed=3)  # type: ignore[arg-type]  # a Mix
    new = [text != question.text for text, question in zip(asked.texts, questions, strict=True)]
    assert all(text.endswith(question.text) for text, question in zip(asked.texts, questions, strict=True))
    assert np.mean(new) == pytest.approx(0.5 if shifted else 0.0, abs=0.1)
    assert np.mean([own.hops > 2 for own in questions]) == pytest.approx(0.6 if shifted else 0.15, abs=0.08)


def test_the_scorer_knows_the_truth_of_each_question_and_of_no_other(tmp_path: Path) -> None:
    asked = Asked(20, shifted=True, seed=3)
    questions = generate_questions({"valid_unseen": 20}, SHIFTED, seed=3)
    scorer, domain = Scorer(asked), Reasoning(questions)
    files = make_release(tmp_path)
    system1, system2 = systems(0)
    gate = Gate.load(files.gate, files.system1.digest)
    for text, problem in zip(asked.texts, domain.problems("valid_unseen"), strict=True):
        request = Request("reasoning", as_prompt(text))
        (reply,) = Agent(system1, system2, gate, np.inf).act([request])
        truth = problem.payload.answer
        for own, given in ((truth, "nothing"), ("nothing", truth), (truth, truth)):
            found = scorer.label(request, replace(reply, system1_answer=own, answer=given))
            assert found == Verdict(system1=own == truth, given=given == truth)
        assert asked.is_right_text(text.upper(), truth)
    assert scorer.label(Request("reasoning", as_prompt("what else ?")), reply) is None
