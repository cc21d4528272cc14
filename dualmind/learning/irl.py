"""Inverse reinforcement learning: the reward under which demonstrations are likeliest, by matching their features.

Maximum entropy (Ziebart et al. 2008): P(trajectory) is proportional to exp(weights . features), and the likelihood of
the demonstrations is convex in the weights; its gradient is the features that they have minus the features that are
expected. Where the moves are known the expectation is exact (a soft value iteration; causal, Ziebart 2010, where moves
are uncertain); where they are not, it is taken over trajectories that were drawn (Boularias et al. 2011).
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, PositiveFloat
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from dualmind.errors import LearningError
from dualmind.learning.skipped import Skipped

Floats = NDArray[np.float64]


class IrlParams(BaseModel):
    """How reward weights are found."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ridge: PositiveFloat  # weight of half the squared norm, which keeps weights finite where features tell all apart
    drift_alarm: PositiveFloat  # distance of two score distributions, in standard deviations, that is reported


@dataclass(frozen=True, slots=True)
class Mdp:
    """Known moves among S states with A actions, for a fixed number of steps.

    Attributes:
        moves: probability of each next state (S, A, S).
        features: of each state (S, F).
        start: probability of each first state (S,).
        horizon: moves of a trajectory, >= 1; it visits horizon + 1 states.
    """

    moves: Floats
    features: Floats
    start: Floats
    horizon: int

    def soft_policies(self, rewards: Floats) -> tuple[list[Floats], float]:
        """The policy of each step (S, A), and the log of the partition function, for rewards of states (S,)."""
        value = rewards
        policies: list[Floats] = []
        for _ in range(self.horizon):
            action_values = rewards[:, None] + self.moves @ value  # (S, A)
            value = logsumexp(action_values, axis=1)
            policies.append(np.exp(action_values - value[:, None]))
        return policies[::-1], float(self.start @ value)

    def visits(self, policies: list[Floats]) -> Floats:
        """Expected visits of each state along a trajectory (S,)."""
        at = self.start
        total = at.copy()
        for policy in policies:
            at = np.einsum("s,sa,sat->t", at, policy, self.moves)
            total += at
        return total


def fit_known(mdp: Mdp, demonstrated: Floats, ridge: float) -> Floats:
    """Weights (F,) under which the demonstrations are likeliest, where moves are known.

    Args:
        mdp: the moves.
        demonstrated: mean over demonstrations of the features summed along each (F,).
        ridge: weight of half the squared norm.
    """

    def loss(weights: Floats) -> tuple[float, Floats]:
        policies, log_partition = mdp.soft_policies(mdp.features @ weights)
        expected = mdp.visits(policies) @ mdp.features
        value = log_partition - weights @ demonstrated + 0.5 * ridge * weights @ weights
        return float(value), expected - demonstrated + ridge * weights

    return _minimise(loss, len(demonstrated))


@dataclass(frozen=True, slots=True)
class RewardWeights:
    """A reward that is linear in named features."""

    names: tuple[str, ...]
    weights: Floats  # (F,), of features in units of ``scale``
    scale: Floats  # standard deviation of each feature over all trajectories (F,)

    @property
    def raw(self) -> Floats:
        """Weights of the features in their own units (F,)."""
        return self.weights / self.scale

    def score(self, features: Floats) -> Floats:
        """Rewards (N,) of features (N, F)."""
        found: Floats = features @ self.raw
        return found


def read_weights(path: Path) -> RewardWeights:
    """The reward that the reward stage wrote.

    Raises:
        LearningError: the file is missing or damaged.
    """
    try:
        found = json.loads(path.read_bytes())
        names = tuple(found["features"])
        weights = RewardWeights(names, np.array(found["standardised"], float), np.array(found["scale"], float))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LearningError(f"{path} holds no reward ({error}); run `dvc repro reward`") from error
    if not weights.weights.shape == weights.scale.shape == (len(names),) or not np.isfinite(weights.raw).all():
        raise LearningError(f"{path} does not hold one number for each of {', '.join(names)}; run `dvc repro reward`")
    return weights


def fit_sampled(
    names: tuple[str, ...], demonstrated: Floats, sampled: Floats, params: IrlParams
) -> RewardWeights | Skipped:
    """Weights under which demonstrations are likeliest among themselves and the trajectories that a policy drew.

    Args:
        names: of the features.
        demonstrated: features of each demonstration (N, F).
        sampled: features of each drawn trajectory (M, F).
        params: how.

    Returns:
        The weights, or the reason why there are none: no trajectory differs from another.

    Raises:
        LearningError: a feature is no number, or there are no demonstrations or no samples.
    """
    if not len(demonstrated) or not len(sampled):
        raise LearningError(
            f"a reward needs both, but there are {len(demonstrated)} demonstrations and {len(sampled)} drawn games"
        )
    every = np.concatenate([demonstrated, sampled])
    if wrong := [name for name, column in zip(names, every.T, strict=True) if not np.isfinite(column).all()]:
        raise LearningError(f"the feature {wrong[0]!r} is no number in some games; look at how it is counted")
    spread = every.std(axis=0)
    if not (spread > 0).any():
        return Skipped(f"all {len(every)} games have the same features: no reward can be told from them")
    scale = np.where(spread > 0, spread, 1.0)
    own, background = demonstrated.mean(axis=0) / scale, every / scale
    background = background - own  # the same losses, in smaller numbers

    def loss(weights: Floats) -> tuple[float, Floats]:
        scores = background @ weights
        expected = softmax(scores) @ background
        return float(logsumexp(scores) + 0.5 * params.ridge * weights @ weights), expected + params.ridge * weights

    return RewardWeights(names, _minimise(loss, len(names)), scale)


def drift(before: Floats, after: Floats) -> float:
    """How far a reward's scores of the same games moved between two fits, in standard deviations of the former.

    The mean distance between the sorted scores (1-Wasserstein) of (N,) and (N,); scores of a constant reward count in
    their own units.
    """
    spread = float(before.std()) or 1.0
    return float(np.abs(np.sort(before) - np.sort(after)).mean()) / spread


def _minimise(loss: Callable[[Floats], tuple[float, Floats]], size: int) -> Floats:
    found = minimize(loss, np.zeros(size), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    weights: Floats = found.x
    return weights
