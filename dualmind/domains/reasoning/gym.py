"""Questions of the ``reasoning-gym`` package (the optional extra of that name), scored by its own scorers.

Texts are left as they are: their numbers and words need a published tokenizer, not our word-level one.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from dualmind.domains.base import SPLITS, Decision, Problem, Split
from dualmind.domains.reasoning.domain import QuestionEpisode, as_prompt
from dualmind.domains.reasoning.question import parse_output
from dualmind.errors import QuestionError

# Left out are, of those with short texts: families whose scorers give full marks to nonsense (complex_arithmetic to
# "nan", game_of_life_halting to blanks, coin_flip, polynomial_equations and power_function to any small number), those
# that differ from one call to the next (list_functions) and those that one answer fits too often (gcd, maze).
GYM_FAMILIES = (
    "base_conversion", "basic_arithmetic", "bitwise_arithmetic", "chain_sum", "count_bits", "count_primes",
    "decimal_chain_sum", "dice", "family_relationships", "knights_knaves", "lcm", "leg_counting", "letter_counting",
    "number_filtering", "number_sorting", "products", "ransom_note", "simple_equations", "simple_geometry",
    "spell_backward", "syllogism", "time_intervals", "word_sequence_reversal", "word_sorting",
)  # fmt: skip
_FULL = 1 - 1e-6  # below full marks the scorers reward form, or an answer that contains the right one


@dataclass(frozen=True, slots=True)
class GymQuestion:
    """A question as ``reasoning-gym`` made it."""

    family: str
    answer: str
    entry: str  # JSON of the entry, for the scorer


class ReasoningGym:
    """Questions of ``reasoning-gym`` as a domain (see :class:`dualmind.domains.base.Domain`).

    Each counts as one hop, and has no steps to check: only the answer can be right.
    """

    name = "reasoning-gym"

    def __init__(self, problems: Sequence[Problem]) -> None:
        self._problems = tuple(problems)

    def problems(self, split: Split) -> Sequence[Problem]:
        """All questions of a split, in the order of their source."""
        return [problem for problem in self._problems if problem.split == split]

    def expert(self, problem: Problem) -> Iterator[Decision]:
        """The one decision: the answer, which is its own rationale."""
        answer = problem.payload.answer
        yield Decision(as_prompt(problem.text), (), answer, answer)

    def episode(self, problem: Problem) -> QuestionEpisode:
        """The question as an environment of one step."""
        return QuestionEpisode(problem.text, lambda action: self.score(problem, [action]))

    def check_step(self, problem: Problem, steps: Sequence[str]) -> bool:
        """Is the last of ``steps`` the right answer? No step at all is valid."""
        return not steps or self.score(problem, steps[-1:]) == 1.0

    def score(self, problem: Problem, steps: Sequence[str]) -> float:
        """1 if the last of ``steps``, an output or an answer, is right, else 0."""
        return score_gym(problem.payload, steps[-1]) if steps else 0.0


def generate_gym(num: Mapping[Split, int], seed: int, families: Sequence[str] = GYM_FAMILIES) -> list[Problem]:
    """Draw questions; families take turns, each text occurs once, and held-out splits do not depend on training.

    Args:
        num: questions of each split, >= 0.
        seed: of everything, >= 0.
        families: names out of GYM_FAMILIES.

    Returns:
        Problems in the order of SPLITS.

    Raises:
        QuestionError: the package is missing, a family is not among GYM_FAMILIES, or has too few different questions.
    """
    if unknown := sorted(set(families) - set(GYM_FAMILIES)) or ([] if families else ["(none)"]):
        raise QuestionError(f"reasoning-gym family {unknown[0]!r}: give some of {', '.join(GYM_FAMILIES)}")
    drawn: dict[Split, list[Problem]] = {}
    seen: set[str] = set()
    for split in reversed(SPLITS):  # train, the first, comes last
        number = num.get(split, 0)
        each = [len(range(index, number, len(families))) for index in range(len(families))]
        by_family = [
            _draw(family, split, count, seed, seen) for family, count in zip(families, each, strict=True) if count
        ]
        drawn[split] = [by_family[index % len(by_family)][index // len(by_family)] for index in range(number)]
    return [problem for split in SPLITS for problem in drawn[split]]


def _draw(family: str, split: Split, number: int, seed: int, seen: set[str]) -> list[Problem]:
    size = 4 * number + 50  # some repeat
    own_seed = 1_000_003 * seed + SPLITS.index(split)
    problems: list[Problem] = []
    for entry in _package().create_dataset(family, size=size, seed=own_seed):
        text = str(entry["question"])
        if text not in seen and len(problems) < number:
            seen.add(text)
            payload = GymQuestion(family, str(entry["answer"]), json.dumps(entry, sort_keys=True))
            name = f"{family}-{split}-{len(problems)}"
            problems.append(Problem(name, ReasoningGym.name, text, hops=1, split=split, payload=payload))
    if len(problems) < number:
        raise QuestionError(f"{family} gave {len(problems)} of {number} new questions; ask for fewer")
    return problems


def score_gym(question: GymQuestion, output: str) -> float:
    """1 if the family's own scorer gives full marks, else 0; never raises.

    The answer of our output format is tried, then the whole text: some answers hold a ``=`` or a ``#`` themselves.
    """
    answers = dict.fromkeys((parse_output(output)[1], output.strip()))
    return float(any(_is_right(question, answer) for answer in answers))


def _is_right(question: GymQuestion, answer: str) -> bool:
    if not re.search(r"\w", answer):
        return False
    try:
        mark = float(_scorer(question.family).score_answer(answer, json.loads(question.entry)))
    except Exception:  # the scorers parse free text, and raise whatever their parsers raise
        return False
    return mark >= _FULL  # not so for NaN


@cache
def _scorer(family: str) -> Any:
    return _package().create_dataset(family, size=1, seed=0)


def _package() -> Any:
    try:
        import reasoning_gym
    except ModuleNotFoundError as error:
        message = f"reasoning-gym cannot be imported ({error}); run `pip install 'dualmind[reasoning-gym]'`"
        raise QuestionError(message) from error
    return reasoning_gym
