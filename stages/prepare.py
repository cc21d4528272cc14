"""Makes a domain's data: problems in splits that share nothing, and an expert's decisions on the training ones."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

from dualmind.data.decisions import DecisionRow, write_decisions
from dualmind.data.problems import ProblemRow, write_problems
from dualmind.domains.base import SPLITS, Domain, Problem, Split
from dualmind.domains.household import generate
from dualmind.domains.household.domain import Household
from dualmind.domains.household.expert import LocationPrior
from dualmind.domains.household.game import Game
from dualmind.domains.household.sources import load_games
from dualmind.domains.reasoning.domain import Reasoning
from dualmind.domains.reasoning.generate import Mix, choose_families, generate_questions
from dualmind.errors import GameError
from dualmind.progress import Progress
from dualmind.storage import write_json
from stages.params import load_params

_SOURCES = {Household.name: "searcher", Reasoning.name: "generator"}  # who demonstrates
DEMONSTRATED: tuple[Split, ...] = ("train", "valid_train")  # the other splits are for judging only


class NumGames(BaseModel):
    """Games of each split."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: PositiveInt
    valid_train: PositiveInt  # choices are made on these
    valid_seen: NonNegativeInt  # new games in the rooms of training
    valid_unseen: NonNegativeInt  # games in other rooms


class HouseholdParams(BaseModel):
    """Where the games come from, and how many of each split."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    games: Path  # the generator's module, or a folder of game.tw-pddl files, or a .jsonl.xz file
    num_games: NumGames
    seed: Annotated[int, Field(ge=0)]  # of the generator; real games are sampled by the hash of their name


class NumQuestions(BaseModel):
    """Questions of each split."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: PositiveInt
    valid_train: PositiveInt  # choices are made on these
    valid_seen: NonNegativeInt  # the gate and the threshold are made on these
    valid_unseen: NonNegativeInt  # used for judging alone


class ReasoningParams(BaseModel):
    """How many questions of each split, and of how many hops."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    families: Annotated[list[str], Field(min_length=1)]  # kinds of questions, such as "keys"
    num_questions: NumQuestions
    training_mix: Mix  # of the questions that are learnt from
    traffic_mix: Mix  # of all others
    seed: Annotated[int, Field(ge=0)]


class PrepareParams(BaseModel):
    """How demonstrations are made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_success: Annotated[float, Field(ge=0, le=1)]  # share of problems that the expert must solve


def prepare_household(params: PrepareParams, household: HouseholdParams, out: Path) -> None:
    """Write ``decisions.parquet``, ``problems.parquet`` and ``summary.json`` to ``out``.

    Raises:
        GameError: a game cannot be read, or the expert wins too few.
    """
    games = _games(household)
    prior = LocationPrior.learn(game for game in games if game.split == "train")
    domain = Household(games, prior)
    keys = {game.id: game.content_key() for game in games}
    _prepare(params, domain, keys, lambda p: (p.payload.task_type, p.payload.layout), out)


def prepare_reasoning(params: PrepareParams, reasoning: ReasoningParams, out: Path) -> None:
    """Write ``decisions.parquet``, ``problems.parquet`` and ``summary.json`` to ``out``."""
    numbers: dict[Split, int] = {split: getattr(reasoning.num_questions, split) for split in SPLITS}
    mixes = {split: reasoning.training_mix if split == "train" else reasoning.traffic_mix for split in SPLITS}
    questions = generate_questions(numbers, mixes, reasoning.seed, choose_families(reasoning.families))
    keys = {question.id: question.text for question in questions}
    _prepare(params, Reasoning(questions), keys, lambda p: (p.payload.family, p.payload.phrasing), out)


def _prepare(
    params: PrepareParams,
    domain: Domain,
    keys: Mapping[str, str],
    kinds: Callable[[Problem], tuple[str, str]],
    out: Path,
) -> None:
    """Demonstrate and write.

    Args:
        params: how.
        domain: whose problems.
        keys: of each problem, what makes it the same as another.
        kinds: type and layout of a problem.
        out: the folder.
    """
    problems = [problem for split in SPLITS for problem in domain.problems(split)]
    decisions, lost = demonstrate(domain, [p for split in DEMONSTRATED for p in domain.problems(split)])
    num_shown = sum(p.split in DEMONSTRATED for p in problems)
    success = 1 - len(lost) / num_shown
    if success < params.min_success:
        raise GameError(
            f"the expert solved {success:.1%} of {num_shown} problems, below prepare.min_success = "
            f"{params.min_success:.1%}; lost: {', '.join(lost[:5])}; check the source of {domain.name} problems"
        )
    write_decisions(out / "decisions.parquet", decisions)
    write_problems(out / "problems.parquet", [_problem_row(p, *kinds(p)) for p in problems])
    write_json(out / "summary.json", _summary(problems, decisions, keys, success))


def _games(household: HouseholdParams) -> list[Game]:
    counts: dict[Split, int] = {split: getattr(household.num_games, split) for split in SPLITS}
    if household.games.resolve() == Path(generate.__file__).resolve():
        return generate.generate_games(counts, household.seed)
    return load_games(household.games, counts)


def demonstrate(domain: Domain, problems: Sequence[Problem]) -> tuple[list[DecisionRow], list[str]]:
    """Decisions of the expert on each problem that it wins, and the ids of those that it loses."""
    rows: list[DecisionRow] = []
    lost: list[str] = []
    progress = Progress("demonstrations", len(problems))
    for done, problem in enumerate(problems, start=1):
        try:
            steps = list(domain.expert(problem))
        except GameError:
            lost.append(problem.id)
        else:
            rows += [
                DecisionRow(
                    example_id=f"{problem.id}/{index}",
                    domain=problem.domain,
                    split=problem.split,
                    problem_id=problem.id,
                    step_index=index,
                    hops=problem.hops,
                    prompt=step.prompt,
                    candidates=step.candidates,
                    target=step.target,
                    rationale=step.rationale,
                    reward=float(index == len(steps) - 1),
                    source=_SOURCES[domain.name],
                )
                for index, step in enumerate(steps)
            ]
        progress.update(done)
    return rows, lost


def _problem_row(problem: Problem, task_type: str, layout: str) -> ProblemRow:
    return ProblemRow(
        problem_id=problem.id,
        domain=problem.domain,
        split=problem.split,
        task_type=task_type,
        layout=layout,
        hops=problem.hops,
        text=problem.text,
        payload=problem.payload.to_json(),
    )


def _summary(
    problems: Sequence[Problem], decisions: Sequence[DecisionRow], keys: Mapping[str, str], success: float
) -> dict[str, Any]:
    splits_of: dict[str, set[str]] = {}
    for problem in problems:
        splits_of.setdefault(keys[problem.id], set()).add(problem.split)
    return {
        "problems": {split: sum(p.split == split for p in problems) for split in SPLITS},
        "decisions": {split: sum(d.split == split for d in decisions) for split in DEMONSTRATED},
        "environment_steps": sum(d.split == "train" for d in decisions),
        "expert_success": round(success, 6),
        "leaks": sum(len(splits) > 1 for splits in splits_of.values()),
    }


def main(item: str) -> None:
    """Run the stage in the current folder."""
    params, out = load_params(PrepareParams, "prepare"), Path("artifacts/prepare") / item
    match item:
        case Household.name:
            prepare_household(params, load_params(HouseholdParams, "household"), out)
        case Reasoning.name:
            prepare_reasoning(params, load_params(ReasoningParams, "reasoning"), out)
        case _:
            raise SystemExit(f"there is no domain {item!r}; give {Household.name} or {Reasoning.name}")


if __name__ == "__main__":
    main(sys.argv[1])
