"""What each decision of a game was worth: success alone, or a dense reward over what has been seen."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from dualmind.learning.acting import Played
from dualmind.learning.ppo import Trajectory

Floats = NDArray[np.float64]
Reward = Callable[[Played], Floats]


def success_reward(played: Played) -> Floats:
    """1 for the decision that won, 0 for all others (T,)."""
    rewards = np.zeros(len(played.moments))
    rewards[-1] = float(played.outcome.success)
    return rewards


def dense_reward(weights: Floats, scale: float) -> Reward:
    """Success, plus ``scale`` times the growth of weights . features by each decision.

    A difference of potentials adds up to what the game has reached in the end: going in circles earns nothing, which a
    reward for being in a state would pay again and again (Ng, Harada and Russell 1999, for a discount of 1).

    Args:
        weights: of the features (F,).
        scale: >= 0.
    """

    def reward(played: Played) -> Floats:
        seen = [moment.features for moment in played.moments] + [played.final_features]
        potentials = np.array([weights @ own for own in seen if own is not None])  # (T + 1,)
        assert len(potentials) == len(played.moments) + 1, "the game was played without features"
        return success_reward(played) + scale * np.diff(potentials)

    return reward


def trajectories(played: Iterable[Played], reward: Reward) -> list[Trajectory]:
    """Games as PPO reads them."""
    return [
        Trajectory(
            prompts=tuple(moment.prompt for moment in own.moments),
            candidates=tuple(moment.candidates for moment in own.moments),
            chosen=tuple(moment.chosen for moment in own.moments),
            rewards=tuple(float(x) for x in reward(own)),
        )
        for own in played
    ]
