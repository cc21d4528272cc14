"""The pair learns by doing: from two cloned checkpoints to two that have played."""

import hashlib
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from pydantic import BaseModel

from dualmind.data.decisions import DecisionRow, read_decisions
from dualmind.data.problems import read_problems
from dualmind.data.validation import ValidatedDataset, open_validated
from dualmind.domains.base import Split
from dualmind.domains.household.domain import MAX_STEPS
from dualmind.domains.household.game import Game
from dualmind.domains.household.progress import FEATURES
from dualmind.evaluation.answering import share_right
from dualmind.evaluation.choosing import share_chosen
from dualmind.evaluation.playing import Mode, play
from dualmind.learning.channels import Channel
from dualmind.learning.cloning import Lessons
from dualmind.learning.cotrain_state import CotrainParams, MakeLessons, Setting, State, read_state
from dualmind.learning.cotraining import advance, begin
from dualmind.learning.irl import RewardWeights, read_weights
from dualmind.learning.steps import StepCounter
from dualmind.models.checkpoint import Checkpoint, Meta, save_checkpoint
from dualmind.models.system1 import System1
from dualmind.models.system2 import System2
from dualmind.models.text_model import TextModel
from dualmind.progress import Progress
from dualmind.storage import dump_json, md5_file, write_json
from stages.params import RunParams, load_params
from stages.pretrain import DOMAINS, DataParams, PretrainParams, System1Params, System2Params, lessons, problems_of

Source = Literal["input", "cotrained"]
CHANNELS: tuple[Channel, ...] = ("system1", "system2")
UNFINISHED = ".unfinished"  # where a run that was broken off waits to be taken up again


def cotrain(
    params: CotrainParams,
    run: RunParams,
    cloned_by: Mapping[Channel, PretrainParams],
    checkpoints: Mapping[Channel, Checkpoint],
    decisions: Mapping[str, ValidatedDataset],
    problems: ValidatedDataset,
    reward: Path | None,
    out: Path,
    held_back: Collection[str] = (),
) -> dict[Channel, Checkpoint]:
    """Write ``system1``, ``system2`` and ``metrics.json`` to ``out``; neither is worse than the one that came in.

    A run that was broken off left ``out/.unfinished``: the same run goes on from there and ends with the same bytes as
    if it had never been broken off; another one starts anew.

    Args:
        params: how.
        run: seed and threads.
        cloned_by: how each system was cloned: rehearsal shows it the same lessons.
        checkpoints: of both systems.
        decisions: demonstrations of each domain.
        problems: of the household.
        reward: file of the reward by inverse RL, to begin with.
        out: the folder.
        held_back: ids of problems that are taught later.

    Raises:
        ReceiptMismatch: the data changed since they were validated.
        LearningError: a reward is no number, or the policy diverged.
    """
    torch.set_num_threads(run.threads)
    parents = {
        **{f"{name} cloned": checkpoint.digest for name, checkpoint in checkpoints.items()},
        **{f"{domain} decisions": dataset.md5 for domain, dataset in decisions.items()},
        "household problems": problems.md5,
    }
    if reward is not None:
        parents["reward weights"] = md5_file(reward)
    shown = {domain: _known(dataset, "train", held_back) for domain, dataset in decisions.items()}
    setting = Setting(
        params=params,
        games=_games(problems, "train"),
        demonstrations=shown,
        make_lessons={name: _lessons_of(own, run.seed) for name, own in cloned_by.items()},
        cloning={name: own.cloning for name, own in cloned_by.items()},
        fingerprint=_fingerprint(params, run, cloned_by, parents),
        seed=run.seed,
        threads=run.threads,
    )
    folder = out / UNFINISHED
    for torn in out.glob(f".{UNFINISHED}.*"):  # what a killed process was writing
        shutil.rmtree(torn)
    weights = None if reward is None else read_weights(reward)
    state = begin(folder, setting, checkpoints, len(shown["household"]), weights)
    progress = Progress("co-training", params.rounds)
    for _ in range(state.round, params.rounds):
        state = advance(folder, setting)
        progress.update(state.round, _line(state))
    judged = {domain: _known(dataset, "valid_train", held_back) for domain, dataset in decisions.items()}
    judging = _Judging(params, run, _games(problems, "valid_train"), judged)
    found = _finish(folder, setting, checkpoints, parents, judging, out)
    shutil.rmtree(folder)
    return found


def _known(decisions: ValidatedDataset, split: Split, held_back: Collection[str]) -> list[DecisionRow]:
    return [row for row in read_decisions(decisions, split) if row.problem_id not in held_back]


def _fingerprint(
    params: CotrainParams, run: RunParams, cloned_by: Mapping[Channel, PretrainParams], parents: Mapping[str, str]
) -> str:
    """What makes a run the same as one that was broken off."""
    models: dict[str, BaseModel] = {
        "params": params,
        "run": run,
        "system1": cloned_by["system1"],
        "system2": cloned_by["system2"],
    }
    value = {name: model.model_dump() for name, model in models.items()} | {"parents": dict(parents)}
    return hashlib.md5(dump_json(value).encode(), usedforsecurity=False).hexdigest()


def _games(problems: ValidatedDataset, split: str) -> list[Game]:
    return [Game.from_json(row.payload) for row in read_problems(problems, split)]


def _lessons_of(params: PretrainParams, seed: int) -> MakeLessons:
    def make(rows: Sequence[DecisionRow], system: TextModel) -> Lessons:
        return lessons(params, rows, system, seed)

    return make


def _line(state: State) -> str:
    """What is going on, for the log."""
    last = state.curve[-1]
    samples = sum(number for purpose, number in state.spent.items() if purpose != "evaluation")
    losses = [
        f"{name} {last[name]:.3f}" for name in ("system1_loss", "system2_loss", "ppo_loss", "ppo_kl") if name in last
    ]
    clocks = ", ".join(f"{name} {number}" for name, number in state.ticks.items())
    return ", ".join(
        [f"{samples} samples", f"{last['success']:.1%} won", *losses, f"clocks: {clocks}", *state.notes[-1:]]
    )


def _finish(
    folder: Path,
    setting: Setting,
    checkpoints: Mapping[Channel, Checkpoint],
    parents: dict[str, str],
    judging: "_Judging",
    out: Path,
) -> dict[Channel, Checkpoint]:
    """Judge the pair beside the one that came in, on what neither learnt from, and hand on the better of each."""
    state = read_state(folder)
    counter = StepCounter(state.spent)
    judged: dict[str, dict[str, Any]] = {}
    found: dict[Channel, Checkpoint] = {}
    for name in CHANNELS:
        shares = {
            source: judging.of(name, path)
            for source, path in (("input", checkpoints[name].path), ("cotrained", folder / name))
        }
        chosen = choose(shares["input"], shares["cotrained"], setting.params.may_lose)
        judged[name] = {"handed_on": chosen, **shares}
        system = _load(name, checkpoints[name].path if chosen == "input" else folder / name)
        found[name] = save_checkpoint(
            out / name,
            system.model,
            system.tokenizer,
            Meta(
                kind=name,
                parents=parents,
                seed=setting.seed,
                threads=setting.threads,
                steps=state.trained[name] if chosen == "cotrained" else 0,
                num_parameters=system.num_parameters,
                metrics={**shares[chosen], "environment_steps": counter.total},
            ),
        )
    counter.add("evaluation", judging.steps)
    write_json(out / "metrics.json", {**judged, **_metrics(state, counter)})
    return found


def choose(before: Mapping[str, float], after: Mapping[str, float], may_lose: float) -> Source:
    """Which one to hand on: what was learnt, unless it is worse on the whole, or worse in one domain by ``may_lose``.

    Args:
        before: shares of the input: ``household`` (right or won) and ``reasoning`` (right).
        after: those of the system that learnt.
        may_lose: share of one domain that a gain in the other may cost.
    """
    gains = [after[domain] - before[domain] for domain in DOMAINS]
    return "cotrained" if sum(gains) >= 0 and min(gains) >= -may_lose else "input"


class _Judging:
    """Judges systems on games and questions of valid_train."""

    def __init__(
        self, params: CotrainParams, run: RunParams, games: Sequence[Game], rows: Mapping[str, Sequence[DecisionRow]]
    ) -> None:
        self._params, self._seed = params, run.seed
        self._games = games[: params.judged_games]
        self._rows = {domain: own[: params.judged_questions] for domain, own in rows.items()}
        self.steps = 0  # of the environment

    def of(self, name: Channel, path: Path) -> dict[str, float]:
        """Shares by domain, and what stands behind them."""
        system = _load(name, path)
        answers = share_right(system, self._rows["reasoning"])["answers_right"]
        if isinstance(system, System1):
            played = self._play(system)
            return {
                "household": (played["success_greedy"] + played["success_sampled"]) / 2,
                "reasoning": answers,
                **played,
            }
        return {"household": share_chosen(system, self._rows["household"]), "reasoning": answers}

    def _play(self, system: System1) -> dict[str, float]:
        found = {}
        for mode in get_args(Mode):
            outcomes = play(
                system, self._games, mode, np.random.default_rng(self._seed),
                batch_size=self._params.acting.batch_size, max_steps=MAX_STEPS, label=f"valid_train, {mode}",
            )  # fmt: skip
            self.steps += sum(outcome.steps for outcome in outcomes)
            found[f"success_{mode}"] = float(np.mean([outcome.success for outcome in outcomes]))
            found[f"steps_{mode}"] = float(np.mean([outcome.steps for outcome in outcomes]))
        return found


def _load(name: Channel, path: Path) -> System1 | System2:
    return System1.load(path) if name == "system1" else System2.load(path)


def _metrics(state: State, counter: StepCounter) -> dict[str, Any]:
    reward = None
    if state.reward is not None and state.reward_scale is not None:
        weights = RewardWeights(FEATURES, np.array(state.reward), np.array(state.reward_scale))
        reward = dict(zip(FEATURES, weights.raw.tolist(), strict=True))
    return {
        "environment_steps": counter.total,
        "steps_by_purpose": counter.to_dict(),
        "optimiser_steps": state.trained,
        "reward": reward,
        "notes": state.notes,
        "curve": state.curve,
    }


def main() -> None:
    """Run the stage in the current folder."""
    problems = {domain: open_validated(Path(f"artifacts/validate/{domain}/problems.json")) for domain in DOMAINS}
    cotrain(
        load_params(CotrainParams, "cotrain"),
        load_params(RunParams, "run"),
        {
            "system1": load_params(System1Params, "pretrain.system1"),
            "system2": load_params(System2Params, "pretrain.system2"),
        },
        {
            "system1": Checkpoint.open(Path("artifacts/pretrain/system1")),
            "system2": Checkpoint.open(Path("artifacts/pretrain/system2")),
        },
        {domain: open_validated(Path(f"artifacts/validate/{domain}/decisions.json")) for domain in DOMAINS},
        problems["household"],
        Path("artifacts/reward/weights.json"),
        Path("artifacts/cotrain"),
        problems_of(load_params(DataParams, "pretrain.data").held_back, problems),
    )


if __name__ == "__main__":
    main()
