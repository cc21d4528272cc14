"""Questions to replay through a running server, and the domain's scorer as the audit that labels them."""

import numpy as np

from dualmind.agent.agent import Reply, Request
from dualmind.domains.base import Problem
from dualmind.domains.reasoning.domain import Reasoning, as_problem, as_prompt
from dualmind.domains.reasoning.generate import Mix, generate_questions
from dualmind.serving.labelling import Verdict
from dualmind.traffic.schema import AuditSource

QUIET, SHIFTED = Mix(easy_share=0.85, max_hops=8), Mix(easy_share=0.4, max_hops=8)
_NEW_PHRASING = "please tell me , "  # which no training question begins with
_NEW_SHARE = 0.5  # of a shifted month


class Asked:
    """Questions with their truth.

    Attributes:
        texts: as visitors type them, in the order in which they come.
    """

    def __init__(self, number: int, *, shifted: bool, seed: int) -> None:
        """Draw questions.

        Args:
            number: of them.
            shifted: more of them are hard, and half are phrased in a new way.
            seed: of the draw.
        """
        questions = generate_questions({"valid_unseen": number}, SHIFTED if shifted else QUIET, seed=seed)
        rng = np.random.default_rng(seed)
        new = (rng.random(number) < _NEW_SHARE) & shifted
        self._domain = Reasoning(questions)
        self.texts = [
            (_NEW_PHRASING if own else "") + question.text for question, own in zip(questions, new, strict=True)
        ]
        self._problems: dict[str, Problem] = {
            _prompt_of(text): as_problem(question) for text, question in zip(self.texts, questions, strict=True)
        }

    def is_right_text(self, text: str, answer: str) -> bool | None:
        """Whether an answer to a question, as a visitor types it, is right; None for one that is none of these."""
        return self.is_right(_prompt_of(text), answer)

    def is_right(self, prompt: str, answer: str) -> bool | None:
        """Whether an answer to a prompt, as the server logs it, is right; None for a prompt that is none of these."""
        problem = self._problems.get(prompt)
        return None if problem is None else self._domain.score(problem, [answer]) == 1.0


def _prompt_of(text: str) -> str:
    """As the server makes it of what is typed."""
    return as_prompt(" ".join(text.lower().split()))


class Scorer:
    """Labels with the domain's scorer, which knows the truth of each question."""

    source: AuditSource = "scorer"

    def __init__(self, asked: Asked) -> None:
        """Args are the questions that are asked."""
        self._asked = asked

    def label(self, request: Request, reply: Reply) -> Verdict | None:
        """Which answers are right; None for a question that is not known."""
        system1 = self._asked.is_right(request.prompt, reply.system1_answer)
        given = self._asked.is_right(request.prompt, reply.answer)
        return None if system1 is None or given is None else Verdict(system1=system1, given=given)
