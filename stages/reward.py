"""Two rewards: a dense one for households, told from demonstrations, and one for each step of a chain of thought."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, PositiveInt
from scipy.stats import rankdata, spearmanr

from dualmind.data.problems import read_problems
from dualmind.data.validation import ValidatedDataset, open_validated
from dualmind.domains.base import Split
from dualmind.domains.household.domain import MAX_STEPS
from dualmind.domains.household.expert import LocationPrior
from dualmind.domains.household.game import Game
from dualmind.domains.household.progress import FEATURES, features
from dualmind.domains.reasoning.question import Question
from dualmind.errors import LearningError
from dualmind.evaluation.playing import CommandModel
from dualmind.learning.acting import ActingParams, Played, act, searcher
from dualmind.learning.irl import IrlParams, RewardWeights, fit_sampled
from dualmind.learning.skipped import Skipped
from dualmind.learning.step_reward import StepReward, StepRewardParams, checked_steps, fit, judge_steps, questions_of
from dualmind.learning.steps import Purpose, StepCounter
from dualmind.models.checkpoint import Checkpoint
from dualmind.models.system1 import System1
from dualmind.models.system2 import System2
from dualmind.storage import write_json
from stages.params import RunParams, load_params
from stages.pretrain import DataParams


class RewardParams(BaseModel):
    """From what the reward is told, and how it is judged."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    demonstrated_games: PositiveInt  # of train, won by the expert
    sampled_games: PositiveInt  # of train, played by System 1 and at random, half each
    judged_games: PositiveInt  # of valid_train, played by all three
    acting: ActingParams
    irl: IrlParams
    step: StepRewardParams
    discount: Annotated[float, Field(gt=0, le=1)]  # of success by each step that it took: the true return


class Uniform:
    """Likes all commands alike."""

    def score(self, prompts: Sequence[str], candidates: Sequence[Sequence[str]]) -> list[torch.Tensor]:
        """Log-probabilities over each prompt's candidates."""
        return [torch.full((len(own),), -float(np.log(len(own)))) for _, own in zip(prompts, candidates, strict=True)]


def reward(
    params: RewardParams,
    run: RunParams,
    checkpoints: Mapping[str, Checkpoint],
    problems: Mapping[str, ValidatedDataset],
    out: Path,
    held_back: Collection[str] = (),
) -> RewardWeights:
    """Write ``weights.json``, ``step.json`` and ``metrics.json`` to ``out``.

    Args:
        params: how.
        run: seed and threads.
        checkpoints: system1 plays what demonstrations are told apart from; system2 writes steps that are checked.
        problems: of each domain.
        out: the folder.
        held_back: kinds of questions that are taught later.

    Raises:
        ReceiptMismatch: the data changed since they were validated.
        LearningError: all games look alike, so no reward can be told.
    """
    torch.set_num_threads(run.threads)
    games, held = (_games(problems["household"], split) for split in ("train", "valid_train"))
    found, household = tell_household(params, run.seed, System1.load(checkpoints["system1"].path), games, held)
    system2 = checkpoints["system2"]
    step, judged = _steps(
        params.step,
        run,
        system2,
        *(questions_of(problems["reasoning"], split, held_back) for split in ("train", "valid_train")),
    )
    write_json(
        out / "weights.json",
        {
            "features": list(FEATURES),
            "weights": found.raw.tolist(),
            "standardised": found.weights.tolist(),
            "scale": found.scale.tolist(),
            "system1": checkpoints["system1"].digest,
            "problems": problems["household"].md5,
        },
    )
    write_json(out / "step.json", asdict(step) if isinstance(step, Skipped) else step.to_dict())
    write_json(out / "metrics.json", {**household, "step": judged})
    return found


def tell_household(
    params: RewardParams, seed: int, system1: System1, games: Sequence[Game], held: Sequence[Game]
) -> tuple[RewardWeights, dict[str, Any]]:
    """The reward of households, and how well it ranks games that it was not told from.

    Args:
        params: how.
        seed: of the play.
        system1: plays beside the expert and chance.
        games: of train, in the order in which they are taken.
        held: on which it is judged, likewise.

    Raises:
        LearningError: all games look alike, so no reward can be told.
    """
    play = _Plays(params, system1, LocationPrior.learn(games), seed)
    shown = [own for own in play.expert(games[: params.demonstrated_games], "demonstration") if own.outcome.success]
    half = games[: max(1, params.sampled_games // 2)]
    drawn = [*play.system1(half, "rollout"), *play.random(half, "rollout")]
    found = fit_sampled(FEATURES, _matrix(shown), _matrix(drawn), params.irl)
    if isinstance(found, Skipped):
        raise LearningError(f"{found.reason}; raise reward.acting.max_steps or reward.sampled_games")
    kinds = (play.expert, play.system1, play.random)
    judged = [part for kind in kinds for part in kind(held[: params.judged_games], "evaluation")]
    return found, _metrics(params, found, judged, play.counter)


def _steps(
    params: StepRewardParams,
    run: RunParams,
    checkpoint: Checkpoint,
    train: Sequence[Question],
    held: Sequence[Question],
) -> tuple[StepReward | Skipped, dict[str, Any]]:
    """The reward of steps, and how well it tells right from wrong ones of questions that it has not seen.

    Beside it stands the log-probability that System 2 gives the step: what choosing by likelihood alone would tell.
    """
    system2 = System2.load(checkpoint.path)
    learnt = checked_steps(system2, params, train[: params.questions], run.seed)
    found = fit(system2, checkpoint.digest, learnt, params.ridge)
    if isinstance(found, Skipped):
        return found, {"skipped": found.reason}
    judged = checked_steps(system2, params, held[: params.judged_questions], run.seed + 1)
    return found, {"learnt_steps": len(learnt), **judge_steps(found, system2, judged)}


class _Plays:
    """Three ways to play, with one counter."""

    def __init__(self, params: RewardParams, system1: System1, prior: LocationPrior, seed: int) -> None:
        self._params, self._system1, self._prior, self._seed = params, system1, prior, seed
        self.counter = StepCounter()

    def expert(self, games: Sequence[Game], purpose: Purpose) -> list[Played]:
        acting = self._params.acting.model_copy(update={"teacher_share": 1.0, "max_steps": MAX_STEPS})
        return self._act(Uniform(), games, acting, purpose, 0)

    def system1(self, games: Sequence[Game], purpose: Purpose) -> list[Played]:
        return self._act(self._system1, games, self._params.acting, purpose, 1)

    def random(self, games: Sequence[Game], purpose: Purpose) -> list[Played]:
        return self._act(Uniform(), games, self._params.acting, purpose, 2)

    def _act(
        self, model: CommandModel, games: Sequence[Game], acting: ActingParams, purpose: Purpose, kind: int
    ) -> list[Played]:
        teacher = searcher(self._prior) if acting.teacher_share else None
        rng = np.random.default_rng([self._seed, 13, kind])
        return act(model, games, acting, self.counter, rng, purpose=purpose, teacher=teacher, features=features)


def _games(problems: ValidatedDataset, split: Split) -> list[Game]:
    return [Game.from_json(row.payload) for row in read_problems(problems, split)]


def _matrix(played: Sequence[Played]) -> np.ndarray:
    """Features at the end of each game (N, F)."""
    return np.array([own.final_features for own in played]).reshape(len(played), len(FEATURES))


def _metrics(
    params: RewardParams, found: RewardWeights, judged: Sequence[Played], counter: StepCounter
) -> dict[str, Any]:
    true = [own.outcome.success * params.discount ** (own.outcome.steps - 1) for own in judged]
    scores = found.score(_matrix(judged))
    # a rank correlation needs both columns to vary
    known = len(set(true)) > 1 and len(set(scores.tolist())) > 1
    return {
        "rank_correlation": float(spearmanr(scores, true).statistic) if known else None,
        # what a reward that orders all games rightly would get: lost ones are all worth 0, and ties cost correlation
        "rank_correlation_ceiling": float(spearmanr(rankdata(true, "ordinal"), true).statistic) if known else None,
        "judged_games": len(judged),
        "success": float(np.mean([own.outcome.success for own in judged])),
        "steps_by_purpose": counter.to_dict(),
        "environment_steps": counter.total,
        "weights": dict(zip(FEATURES, found.raw.tolist(), strict=True)),
    }


def main() -> None:
    """Run the stage in the current folder."""
    reward(
        load_params(RewardParams, "reward"),
        load_params(RunParams, "run"),
        {name: Checkpoint.open(Path("artifacts/pretrain") / name) for name in ("system1", "system2")},
        {name: open_validated(Path(f"artifacts/validate/{name}/problems.json")) for name in ("household", "reasoning")},
        Path("artifacts/reward"),
        load_params(DataParams, "pretrain.data").held_back,
    )


if __name__ == "__main__":
    main()
