"""Co-training: both systems learn from what System 1 does, each by its own clock.

First by imitation: a teacher labels what System 1 gets into; decisions that it was sure of are learnt by System 1, the
others by System 2, and reach System 1 once System 2 gets them right. Then by reward alone, without labels: PPO on
System 1, near the policy that imitation made.

Each round begins and ends on disk: a run that was broken off goes on from its last round and ends with the same bytes.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from safetensors.torch import load_file, save_file

from dualmind.data.decisions import DecisionRow
from dualmind.domains.household.domain import MAX_STEPS
from dualmind.domains.household.expert import LocationPrior
from dualmind.domains.household.progress import FEATURES, features
from dualmind.learning.acting import Played, act, reasoner, searcher
from dualmind.learning.channels import Channel, Channels, visits_of
from dualmind.learning.cloning import clone
from dualmind.learning.cotrain_state import Setting, State, TickParams, read_state
from dualmind.learning.irl import RewardWeights, drift, fit_sampled
from dualmind.learning.ppo import Ppo
from dualmind.learning.rewards import Reward, dense_reward, success_reward, trajectories
from dualmind.learning.skipped import Skipped
from dualmind.learning.steps import Clock, ClockParams, StepCounter
from dualmind.models.checkpoint import Checkpoint, Meta, save_checkpoint
from dualmind.models.system1 import System1
from dualmind.models.system2 import System2
from dualmind.models.text_model import TextModel
from dualmind.storage import atomic_folder, write_json

_BATCH = 128


def begin(
    folder: Path,
    setting: Setting,
    parents: Mapping[Channel, Checkpoint],
    demonstrated_steps: int,
    reward: RewardWeights | None = None,
) -> State:
    """Make the state before the first round, unless ``folder`` holds one of the same run: then go on from that.

    Args:
        folder: of the state.
        setting: of the run.
        parents: checkpoints of both systems to start from.
        demonstrated_steps: environment steps that their demonstrations cost.
        reward: to begin with, where one has been told before.

    Raises:
        LearningError: what is in the folder cannot be read.
    """
    if (folder / "state.json").exists():
        found = read_state(folder)
        if found.fingerprint == setting.fingerprint:
            return found
    state = State(
        fingerprint=setting.fingerprint,
        round=0,
        spent=StepCounter({"demonstration": demonstrated_steps}).to_dict(),
        ticks=dict.fromkeys(ClockParams.model_fields, 0),
        trained={"system1": 0, "system2": 0},
        reward=None if reward is None else reward.weights.tolist(),
        reward_scale=None if reward is None else reward.scale.tolist(),
        curve=[],
        notes=[],
    )
    # what the demonstrations cost is no time to learn in: clocks start now
    clocks = {name: demonstrated_steps // getattr(setting.params.clocks, name) for name in state.ticks}
    state = state.model_copy(update={"ticks": clocks})
    run = _Run(setting, state, System1.load(parents["system1"].path), System2.load(parents["system2"].path))
    run.save(folder)
    return state


def advance(folder: Path, setting: Setting) -> State:
    """Do one round: from disk to disk, as a whole or not at all.

    Raises:
        LearningError: a reward is no number, or the policy diverged; the folder is as before.
    """
    state = read_state(folder)
    run = _Run(setting, state, System1.load(folder / "system1"), System2.load(folder / "system2"))
    run.channels.restore(folder / "channels.parquet")
    if (folder / "reference").exists():
        run.reference = System1.load(folder / "reference")
    if (folder / "ppo.safetensors").exists():
        run.restore_ppo(folder / "ppo.safetensors")
    run.round()
    return run.save(folder)


class _Run:
    """One round in memory."""

    def __init__(self, setting: Setting, state: State, system1: System1, system2: System2) -> None:
        self.setting, self.params, self.state = setting, setting.params, state
        self.systems: dict[Channel, TextModel] = {"system1": system1, "system2": system2}
        self.system1, self.system2 = system1, system2
        self.counter = StepCounter(state.spent)
        self.clocks = {name: Clock(getattr(self.params.clocks, name), state.ticks[name]) for name in state.ticks}
        self.channels = Channels(self.params.channels)
        self.trained, self.notes = dict(state.trained), list(state.notes)
        self.reward = None
        if state.reward is not None:
            self.reward = RewardWeights(FEATURES, np.array(state.reward), np.array(state.reward_scale))
        self.prior = LocationPrior.learn(setting.games)
        self.reference: System1 | None = None
        self.ppo: Ppo | None = None
        self.point: dict[str, float] = {}

    def restore_ppo(self, path: Path) -> None:
        self.ppo = self._new_ppo()
        self.ppo.restore(load_file(path))

    def round(self) -> None:
        """Play, and learn as the clocks say."""
        index, params = self.state.round, self.params
        imitates = index < params.imitation_rounds
        rng = np.random.default_rng([self.setting.seed, 11, index])
        number = len(self.setting.games)
        chosen = rng.choice(number, params.games, replace=params.games > number)
        games = [self.setting.games[i] for i in chosen]
        teacher = None
        if imitates:
            teacher = searcher(self.prior) if params.teacher == "searcher" else reasoner(self.system2)
        acting = params.acting if imitates else params.acting.model_copy(update={"teacher_share": 0.0})
        played = act(self.system1, games, acting, self.counter, rng, teacher=teacher, features=features)
        ticks = {name: clock.advance(self.counter.total) for name, clock in self.clocks.items()}
        self.point = {
            "round": index + 1,
            "environment_steps": self.counter.total,
            "success": float(np.mean([own.outcome.success for own in played])),
            "steps": float(np.mean([own.outcome.steps for own in played])),
            "confidence": float(np.mean([moment.confidence for own in played for moment in own.moments])),
            **{f"{name}_ticks": float(number) for name, number in ticks.items()},
        }
        if imitates:
            self._imitate(played, ticks)
        else:
            self._reinforce(played, ticks)

    def _imitate(self, played: list[Played], ticks: Mapping[str, int]) -> None:
        prefix = f"round{self.state.round}"
        visits = visits_of(played, self.params.teacher, prefix, won_only=self.params.won_only)
        routed = self.channels.add(visits)
        self.point |= {f"{channel}_decisions": float(number) for channel, number in routed.items()}
        if ticks["system2"]:
            self._clone("system2", self.params.system2, ticks["system2"])
            self.point["handed_down"] = float(self.channels.hand_down(self._is_right))
        if ticks["system1"]:
            self._clone("system1", self.params.system1, ticks["system1"])

    def _clone(self, channel: Channel, params: TickParams, ticks: int) -> None:
        rows = self.channels.rows(channel)
        if isinstance(rows, Skipped):
            self._note(rows.reason)
            return
        index = self.state.round
        rng = np.random.default_rng([self.setting.seed, 12, index])
        for own in self.setting.demonstrations.values():
            chosen = rng.permutation(len(own))[: self.params.rehearsal]
            rows = rows + [own[i] for i in chosen]
        system, cloning = self.systems[channel], params.of(self.setting.cloning[channel], ticks)
        report = clone(
            system, self.setting.make_lessons[channel](rows, system), cloning, seed=self.setting.seed + index
        )
        self.trained[channel] += cloning.steps
        self.point[f"{channel}_loss"] = report.curve[-1]["loss"]

    def _is_right(self, rows: Sequence[DecisionRow]) -> list[bool]:
        right: list[bool] = []
        for start in range(0, len(rows), _BATCH):
            own = rows[start : start + _BATCH]
            thoughts = self.system2.choose([row.prompt for row in own], [row.candidates for row in own])
            right += [thought.answer == row.target for thought, row in zip(thoughts, own, strict=True)]
        return right

    def _reinforce(self, played: list[Played], ticks: Mapping[str, int]) -> None:
        if self.reference is None:  # imitation is over: from here on System 1 stays near what it made
            self.reference = System1(copy.deepcopy(self.system1.model), self.system1.tokenizer)
        if self.params.dense_scale and (self.reward is None or ticks["reward"]):
            self._tell_reward(played)
        if not ticks["system1"]:
            return
        if self.ppo is None:
            self.ppo = self._new_ppo()
        reward: Reward = success_reward
        if self.params.dense_scale and self.reward is not None:
            reward = dense_reward(self.reward.raw, self.params.dense_scale)
        before = self.ppo.steps
        report = self.ppo.update(trajectories(played, reward))
        if isinstance(report, Skipped):
            self._note(report.reason)
            return
        self.trained["system1"] += self.ppo.steps - before
        self.point |= {f"ppo_{name}": value for name, value in asdict(report).items()}

    def _tell_reward(self, played: list[Played]) -> None:
        """Fit the reward to what is played now; how far it moved is a metric with an alarm."""
        sampled = np.array([own.final_features for own in played])
        found = fit_sampled(FEATURES, self._demonstrated(), sampled, self.params.irl)
        if isinstance(found, Skipped):
            self._note(found.reason)
            return
        if self.reward is not None:
            self.point["reward_drift"] = moved = drift(self.reward.score(sampled), found.score(sampled))
            if moved > self.params.irl.drift_alarm:
                self._note(f"the reward's scores moved by {moved:.2f} standard deviations, more than irl.drift_alarm")
        self.reward = found

    def _demonstrated(self) -> np.ndarray:
        """Features of the expert's games (N, F), which were counted as demonstrations: the same steps again."""
        games = self.setting.games[: self.params.demonstrated_games]
        expert = self.params.acting.model_copy(update={"teacher_share": 1.0, "max_steps": MAX_STEPS})
        played = act(
            self.system1, games, expert, StepCounter(), np.random.default_rng(0), teacher=searcher(self.prior),
            features=features,
        )  # fmt: skip
        return np.array([own.final_features for own in played if own.outcome.success])

    def _new_ppo(self) -> Ppo:
        assert self.reference is not None
        return Ppo(self.system1, self.params.ppo, seed=self.setting.seed, reference=self.reference.scorer)

    def _note(self, reason: str) -> None:
        self.notes.append(f"round {self.state.round + 1}: {reason}")

    def save(self, folder: Path) -> State:
        """Write everything, as a whole; what was there stays until then."""
        done = self.state.round + bool(self.point)
        state = self.state.model_copy(
            update={
                "round": done,
                "spent": self.counter.to_dict(),
                "ticks": {name: clock.ticks for name, clock in self.clocks.items()},
                "trained": self.trained,
                "reward": None if self.reward is None else self.reward.weights.tolist(),
                "reward_scale": None if self.reward is None else self.reward.scale.tolist(),
                "curve": [*self.state.curve, *([self.point] if self.point else [])],
                "notes": self.notes,
            }
        )
        with atomic_folder(folder) as new:
            for name, system in self.systems.items():
                save_checkpoint(new / name, system.model, system.tokenizer, self._meta(name, system))
            if self.reference is not None:
                reference = self.reference
                save_checkpoint(
                    new / "reference", reference.model, reference.tokenizer, self._meta("system1", reference)
                )
            if self.ppo is not None:
                save_file(self.ppo.state(), new / "ppo.safetensors")
            self.channels.save(new / "channels.parquet")
            write_json(new / "state.json", state.model_dump())
        return state

    def _meta(self, kind: str, system: TextModel) -> Meta:
        return Meta(
            kind=kind, parents={}, seed=self.setting.seed, threads=self.setting.threads, steps=self.trained[kind],
            num_parameters=system.num_parameters, metrics={},
        )  # fmt: skip
