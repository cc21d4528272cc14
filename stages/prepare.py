"""Makes a domain's data: problems in splits that share nothing, and an expert's decisions on the training ones."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

from dualmind.data.decisions import DecisionRow, write_decisions
from dualmind.data.problems import ProblemRow, write_problems
from dualmind.domains.base import SPLITS, Problem, Split
from dualmind.domains.household import generate
from dualmind.domains.household.domain import Household, as_problem
from dualmind.domains.household.expert import LocationPrior
from dualmind.domains.household.game import Game
from dualmind.domains.household.sources import load_games
from dualmind.errors import GameError
from dualmind.progress import Progress
from dualmind.storage import write_json
from stages.params import load_params

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


class PrepareParams(BaseModel):
    """How demonstrations are made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    expert: Literal["searcher"]
    min_success: Annotated[float, Field(ge=0, le=1)]  # share of games that the expert must win


def prepare(params: PrepareParams, household: HouseholdParams, out: Path) -> None:
    """Write ``decisions.parquet``, ``problems.parquet``, ``prior.json`` and ``summary.json`` to ``out``.

    Raises:
        GameError: a game cannot be read, or the expert wins too few.
    """
    games = _games(household)
    prior = LocationPrior.learn(game for game in games if game.split == "train")
    domain = Household(games, prior)
    problems = [as_problem(game) for game in games]
    decisions, lost = demonstrate(domain, [p for split in DEMONSTRATED for p in domain.problems(split)])
    num_shown = sum(p.split in DEMONSTRATED for p in problems)
    success = 1 - len(lost) / num_shown
    if success < params.min_success:
        raise GameError(
            f"the expert won {success:.1%} of {num_shown} games, below prepare.min_success = {params.min_success:.1%}; "
            f"lost: {', '.join(lost[:5])}; check household.games = {household.games}"
        )
    write_decisions(out / "decisions.parquet", decisions)
    write_problems(out / "problems.parquet", [_problem_row(p) for p in problems])
    write_json(out / "prior.json", prior.to_dict())
    write_json(out / "summary.json", _summary(problems, decisions, success))


def _games(household: HouseholdParams) -> list[Game]:
    counts: dict[Split, int] = {split: getattr(household.num_games, split) for split in SPLITS}
    if household.games.resolve() == Path(generate.__file__).resolve():
        return generate.generate_games(counts, household.seed)
    return load_games(household.games, counts)


def demonstrate(domain: Household, problems: Sequence[Problem]) -> tuple[list[DecisionRow], list[str]]:
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
                    source="searcher",
                )
                for index, step in enumerate(steps)
            ]
        progress.update(done)
    return rows, lost


def _problem_row(problem: Problem) -> ProblemRow:
    game: Game = problem.payload
    return ProblemRow(
        problem_id=problem.id,
        domain=problem.domain,
        split=problem.split,
        task_type=game.task_type,
        layout=game.layout,
        hops=problem.hops,
        text=problem.text,
        payload=game.to_json(),
    )


def _summary(problems: Sequence[Problem], decisions: Sequence[DecisionRow], success: float) -> dict[str, Any]:
    splits_of: dict[str, set[str]] = {}
    for problem in problems:
        splits_of.setdefault(problem.payload.content_key(), set()).add(problem.split)
    return {
        "problems": {split: sum(p.split == split for p in problems) for split in SPLITS},
        "decisions": {split: sum(d.split == split for d in decisions) for split in DEMONSTRATED},
        "environment_steps": sum(d.split == "train" for d in decisions),
        "expert_success": round(success, 6),
        "leaks": sum(len(splits) > 1 for splits in splits_of.values()),
    }


def main(item: str) -> None:
    """Run the stage in the current folder."""
    assert item == Household.name
    household = load_params(HouseholdParams, "household")
    prepare(load_params(PrepareParams, "prepare"), household, Path("artifacts/prepare") / item)


if __name__ == "__main__":
    main(sys.argv[1])
