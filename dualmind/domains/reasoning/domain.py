"""The reasoning domain: questions as problems, episodes of one step, and the expert's numbered steps."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium

from dualmind.domains.base import Decision, Problem, Split
from dualmind.domains.reasoning.families import FAMILIES
from dualmind.domains.reasoning.question import Family, Question, parse_output
from dualmind.errors import QuestionError

_MARKER = "question :"  # parts questions from the prompts of other domains; says nothing of the family


class QuestionEpisode(gymnasium.Env[str, str]):
    """A question as an environment of one step.

    The action is the whole output (``#1 v1 #2 v2 = answer``) or the answer alone; the reward is its score. ``info``
    holds what a model reads: ``prompt``, and ``candidates``, which are none since answers are free text.
    """

    def __init__(self, text: str, score: Callable[[str], float]) -> None:
        """Args are what is asked, and the score of an action in 0..1."""
        self.action_space = gymnasium.spaces.Text(max_length=2_000)
        self.observation_space = gymnasium.spaces.Text(max_length=20_000)
        self._text, self._score = text, score

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Ask the question; it holds no chance, so ``seed`` changes nothing."""
        super().reset(seed=seed, options=options)
        return self._text, self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Answer; the episode is over."""
        return self._text, self._score(action), True, False, self._info()

    def _info(self) -> dict[str, Any]:
        return {"prompt": as_prompt(self._text), "candidates": ()}


class Reasoning:
    """Text questions as a domain (see :class:`dualmind.domains.base.Domain`)."""

    name = "reasoning"

    def __init__(self, questions: Sequence[Question], families: Sequence[Family] = FAMILIES) -> None:
        """Args are the questions and the families that drew them.

        Raises:
            QuestionError: a question is of another family.
        """
        self._families = {family.name: family for family in families}
        self._questions: dict[Split, list[Question]] = {}
        for question in questions:
            if question.family not in self._families:
                known = ", ".join(self._families)
                raise QuestionError(f"question {question.id}: family {question.family!r} is not one of {known}")
            self._questions.setdefault(question.split, []).append(question)

    def problems(self, split: Split) -> Sequence[Problem]:
        """All questions of a split, in the order of their source."""
        return [as_problem(question) for question in self._questions.get(split, [])]

    def expert(self, problem: Problem) -> Iterator[Decision]:
        """The one decision: the answer, with all steps as its rationale."""
        question: Question = problem.payload
        yield Decision(as_prompt(problem.text), (), question.answer, question.rationale)

    def episode(self, problem: Problem) -> QuestionEpisode:
        """The question as an environment of one step."""
        return QuestionEpisode(problem.text, lambda action: self.score(problem, [action]))

    def check_step(self, problem: Problem, steps: Sequence[str]) -> bool:
        """Is the last of the values (without their numbers) right, given those before it?"""
        return self._family(problem).check(problem.payload, steps)

    def score(self, problem: Problem, steps: Sequence[str]) -> float:
        """Score of the last of ``steps``, which is an output or an answer; 0 without any."""
        return self._family(problem).score(problem.payload, parse_output(steps[-1])[1]) if steps else 0.0

    def _family(self, problem: Problem) -> Family:
        return self._families[problem.payload.family]


def as_prompt(text: str) -> str:
    """What a model reads."""
    return f"{_MARKER} {text}"


def as_problem(question: Question) -> Problem:
    """A question as a problem of this domain."""
    return Problem(
        id=question.id,
        domain=Reasoning.name,
        text=question.text,
        hops=question.hops,
        split=question.split,
        payload=question,
    )
