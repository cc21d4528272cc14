"""Four signals of whether System 1 can be trusted with a request.

*Confidence*: one minus the normalised entropy of its output. *Difficulty*: how far its reading of the prompt lies from
what it knows. *Curvature*: of a value function along its own gradient. *Monitor*: is the agent going in circles?
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

Floats = NDArray[np.float64]
_MAX_PERIOD = 3  # commands of the longest loop that is looked for


@dataclass(frozen=True, slots=True)
class Signals:
    """Signals of N requests, each (N,)."""

    confidence: Floats  # 0..1
    difficulty: Floats  # 0..1
    curvature: Floats  # of any sign
    monitor: Floats  # 0..1, 0 where nothing repeats

    def __len__(self) -> int:
        return len(self.confidence)

    def matrix(self) -> Floats:
        """All signals as columns (N, 4), in the order of the fields."""
        return np.stack([self.confidence, self.difficulty, self.curvature, self.monitor], axis=1)


@dataclass(frozen=True, slots=True)
class Clusters:
    """What System 1 has met before: centres of its readings of N prompts (k-means), and how it did near each.

    Attributes:
        centres: (K, D).
        distances: of the prompts of each cluster to its centre, at 0, 1, ..., 100 % of them (K, 101).
        errors: share of wrong answers in each cluster (K,), 0..1.
    """

    centres: Floats
    distances: Floats
    errors: Floats

    @classmethod
    def fit(cls, embeddings: Floats, wrong: NDArray[np.bool_], num_clusters: int, seed: int) -> "Clusters":
        """Cluster readings (N, D) of prompts with known outcomes (N,)."""
        from sklearn.cluster import KMeans

        num = min(num_clusters, len(embeddings))
        with threadpool_limits(1):  # sums in another order would give other bytes
            means = KMeans(num, n_init=3, random_state=seed).fit(embeddings)
        own = [means.labels_ == k for k in range(num)]
        away = np.linalg.norm(embeddings - means.cluster_centers_[means.labels_], axis=1)
        distances = np.stack([np.percentile(away[rows], np.arange(101)) for rows in own])
        # one error and one success are added to each, so that a small cluster is not taken for certain
        errors = np.array([(wrong[rows].sum() + 1) / (rows.sum() + 2) for rows in own])
        return cls(means.cluster_centers_.astype(np.float64), distances, errors)

    def difficulty(self, embeddings: Floats) -> Floats:
        """Percentile of each reading's distance within its cluster, times the cluster's past error: (N, D) to (N,)."""
        squared = (
            (embeddings**2).sum(1)[:, None] - 2 * embeddings @ self.centres.T + (self.centres**2).sum(1)[None]
        )  # (N, K)
        nearest = squared.argmin(1)
        away = np.sqrt(np.maximum(squared[np.arange(len(embeddings)), nearest], 0.0))
        rank = np.array([np.searchsorted(self.distances[k], d) for k, d in zip(nearest, away, strict=True)])
        return np.minimum(rank, 100) / 100 * self.errors[nearest]


@dataclass(frozen=True, slots=True)
class ValueHead:
    """V(e) = v . tanh(W e + b) + c, a small network over a reading e that predicts success.

    Attributes:
        inner: W (M, D).
        bias: b (M,).
        outer: v (M,).
        offset: c.
    """

    inner: Floats
    bias: Floats
    outer: Floats
    offset: float

    @classmethod
    def fit(cls, embeddings: Floats, right: NDArray[np.bool_], width: int, seed: int) -> "ValueHead":
        """Least squares of success (N,) from readings (N, D)."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPRegressor

        net = MLPRegressor(
            hidden_layer_sizes=(width,), activation="tanh", solver="lbfgs", alpha=0.1, max_iter=200, random_state=seed
        )
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # 200 passes are enough for a signal
            net.fit(embeddings, right.astype(np.float64))
        (inner, outer), (bias, offset) = net.coefs_, net.intercepts_
        return cls(inner.T, bias, outer[:, 0], float(offset[0]))

    def value(self, embeddings: Floats) -> Floats:
        """Predicted success: (N, D) to (N,)."""
        return np.tanh(embeddings @ self.inner.T + self.bias) @ self.outer + self.offset

    def curvature(self, embeddings: Floats) -> Floats:
        """Second derivative along the gradient's direction, g'Hg / g'g: (N, D) to (N,).

        With t = tanh(We + b): g = W'(v (1 - t^2)) and Hg = W'(-2 v t (1 - t^2) (Wg)), a product that costs as much as
        one more pass (Pearlmutter 1994).
        """
        t = np.tanh(embeddings @ self.inner.T + self.bias)  # (N, M)
        slope = self.outer * (1 - t**2)  # (N, M)
        gradient = slope @ self.inner  # (N, D)
        along = gradient @ self.inner.T  # (N, M)
        squared = (gradient**2).sum(1)
        bend = (-2 * t * slope * along**2).sum(1)
        return np.divide(bend, squared, out=np.zeros_like(bend), where=squared > 1e-12)


def second_difference(values: Sequence[float]) -> float:
    """Curvature of V along an episode, from its last three values; 0 before there are three."""
    return values[-1] - 2 * values[-2] + values[-3] if len(values) >= 3 else 0.0


def monitor(tried: Sequence[str], command: str) -> float:
    """How much an agent repeats itself if it gives ``command`` now: 0 not at all, 1 in a loop.

    Args:
        tried: commands of this episode so far, in order.
        command: the one that System 1 would give next.
    """
    commands = [*tried, command]
    for period in range(1, _MAX_PERIOD + 1):
        if len(commands) >= 2 * period and commands[-period:] == commands[-2 * period : -period]:
            return 1.0
    repeats = commands.count(command) - 1
    return repeats / (repeats + 1)
