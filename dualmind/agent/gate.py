"""The gate: one score from four signals, monotone in confidence; below the threshold System 2 is called."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from dualmind.agent.signals import Clusters, Floats, Signals, ValueHead
from dualmind.errors import GateError
from dualmind.storage import md5_file, write_json

NAMES = ("confidence", "difficulty", "curvature", "monitor")
_BOUNDS = (
    (0.0, None),
    (None, None),
    (None, None),
    (None, 0.0),
)  # more confidence never lowers the score; nor loops raise it
_RIDGE = 1e-2  # of the weights of standardised signals


class GateFile(BaseModel):
    """The gate as JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    weights_digest: str  # MD5 of the System 1 that it was fitted on
    temperatures: dict[str, float]  # of each domain's probabilities
    means: list[float]  # of each signal, over the decisions that it was fitted on
    scales: list[float]  # standard deviations of each signal, > 0
    coefficients: list[float]  # of each standardised signal
    intercepts: dict[str, float]  # of each domain
    deep: float  # score below which System 2 writes its steps at once
    centres: list[list[float]]
    distances: list[list[float]]
    errors: list[float]
    inner: list[list[float]]
    bias: list[float]
    outer: list[float]
    offset: float


@dataclass(frozen=True, slots=True)
class Gate:
    """A fitted gate.

    Attributes:
        file: all of its numbers.
        clusters: for the difficulty.
        value: for the curvature.
    """

    file: GateFile
    clusters: Clusters
    value: ValueHead

    @classmethod
    def of(cls, file: GateFile) -> "Gate":
        """A gate from its numbers.

        Raises:
            GateError: their shapes do not fit.
        """
        clusters = Clusters(np.array(file.centres), np.array(file.distances), np.array(file.errors))
        value = ValueHead(np.array(file.inner), np.array(file.bias), np.array(file.outer), file.offset)
        num, width = clusters.centres.shape
        sound = (
            clusters.distances.shape == (num, 101)
            and clusters.errors.shape == (num,)
            and value.inner.shape == (len(value.bias), width)
            and value.outer.shape == value.bias.shape
            and len(file.means) == len(file.scales) == len(file.coefficients) == len(NAMES)
            and min(file.scales) > 0
            and file.coefficients[0] >= 0
        )
        if not sound:
            raise GateError("the gate's numbers do not fit together; run `dvc repro calibrate` to make it again")
        return cls(file, clusters, value)

    @classmethod
    def load(cls, path: Path, weights_digest: str) -> "Gate":
        """Read a gate for a System 1.

        Raises:
            GateError: it is missing, damaged, or was fitted on other weights.
        """
        try:
            file = GateFile.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise GateError(f"{path} is not a gate ({str(error)[:300]}); run `dvc repro calibrate`") from error
        if file.weights_digest != weights_digest:
            raise GateError(
                f"{path} was fitted on weights {file.weights_digest}, not on {weights_digest}; "
                "load the gate of this release, or run `dvc repro calibrate`"
            )
        return cls.of(file)

    def save(self, path: Path) -> str:
        """Write it, atomically; returns its MD5."""
        write_json(path, self.file.model_dump())
        return md5_file(path)

    def signals(self, confidence: Floats, embeddings: Floats, monitor: Floats) -> Signals:
        """All signals, from what System 1 gave (N,), its readings (N, D) and the monitor's (N,)."""
        return Signals(confidence, self.clusters.difficulty(embeddings), self.value.curvature(embeddings), monitor)

    def scores(self, signals: Signals, domains: Sequence[str]) -> Floats:
        """Probability that System 1 is right (N,); 0 for an unknown domain or a signal that is no number."""
        z = (signals.matrix() - self.file.means) / self.file.scales
        known = np.array([domain in self.file.intercepts for domain in domains])
        offsets = np.array([self.file.intercepts.get(domain, 0.0) for domain in domains])
        with np.errstate(over="ignore"):
            score = 1 / (1 + np.exp(-(z @ np.array(self.file.coefficients) + offsets)))
        return np.where(known & np.isfinite(score) & np.isfinite(z).all(1), score, 0.0)

    def probabilities(self, log_probabilities: Floats, domains: Sequence[str]) -> Floats:
        """System 1's probabilities of its answers, at the temperature of each domain (N,)."""
        found: Floats = np.exp(
            log_probabilities / np.array([self.file.temperatures.get(domain, 1.0) for domain in domains])
        )
        return found


def confidence_gate(weights_digest: str, domains: Sequence[str], width: int = 1) -> Gate:
    """The plainest gate: its score grows with the confidence alone. It needs no labelled decisions.

    Args:
        weights_digest: MD5 of the System 1 that it is for.
        domains: that it knows.
        width: numbers of that System 1's readings.
    """
    numbers = {"means": [0.0] * 4, "scales": [1.0] * 4, "coefficients": [1.0, 0.0, 0.0, 0.0], "deep": 0.0}
    parts = {"centres": [[0.0] * width], "distances": [[0.0] * 101], "errors": [0.5]}
    value = {"inner": [[0.0] * width], "bias": [0.0], "outer": [0.0], "offset": 0.0}
    given = {"weights_digest": weights_digest, "temperatures": {}, "intercepts": dict.fromkeys(domains, 0.0)}
    return Gate.of(GateFile.model_validate({**given, **numbers, **parts, **value}))


def fit_scores(
    signals: Signals, domains: Sequence[str], right: NDArray[np.bool_]
) -> tuple[Floats, Floats, Floats, dict[str, float]]:
    """Logistic regression of success on the signals, with one intercept a domain and a sign for confidence.

    Args:
        signals: of N decisions.
        domains: of each.
        right: was System 1 right (N,)?

    Returns:
        Means and scales of the signals (4,), coefficients (4,), intercepts by domain.

    Raises:
        GateError: there are fewer than 50 decisions, all have one outcome, or a signal is no number.
    """
    from scipy.optimize import minimize

    x, y = signals.matrix(), right.astype(np.float64)
    if len(x) < 50 or y.min() == y.max():
        raise GateError(
            f"a gate cannot be fitted on {len(x)} decisions of which {int(y.sum())} are right; "
            "give at least 50, with right and wrong ones among them"
        )
    if not np.isfinite(x).all():
        bad = NAMES[int((~np.isfinite(x)).any(0).argmax())]
        raise GateError(f"signal {bad!r} holds a value that is no number; the model may be damaged")
    names = sorted(set(domains))
    member = np.array([[domain == name for name in names] for domain in domains], dtype=np.float64)  # (N, domains)
    means, scales = x.mean(0), np.maximum(x.std(0), 1e-9)
    z = np.concatenate([(x - means) / scales, member], axis=1)

    def loss(theta: Floats) -> tuple[float, Floats]:
        logits = z @ theta
        penalty = _RIDGE * theta[: x.shape[1]]
        value = np.mean(np.logaddexp(0, logits) - y * logits) + penalty @ theta[: x.shape[1]] / 2
        slope = z.T @ (1 / (1 + np.exp(-logits)) - y) / len(y)
        slope[: x.shape[1]] += penalty
        return float(value), slope

    bounds = [*_BOUNDS, *[(None, None)] * len(names)]
    theta = minimize(loss, np.zeros(z.shape[1]), jac=True, bounds=bounds, method="L-BFGS-B").x
    offsets = dict(zip(names, theta[x.shape[1] :].tolist(), strict=True))
    return means, scales, theta[: x.shape[1]], offsets


def fit_temperature(log_probabilities: Floats, right: NDArray[np.bool_]) -> float:
    """Temperature T for which p^(1/T) predicts success best (Guo et al. 2017, on the answer as a whole).

    Args:
        log_probabilities: of N answers, in nats, <= 0.
        right: were they right (N,)?
    """
    from scipy.optimize import minimize_scalar

    y = right.astype(np.float64)

    def loss(log_temperature: float) -> float:
        p = np.clip(np.exp(log_probabilities / np.exp(log_temperature)), 1e-6, 1 - 1e-6)
        return float(-np.mean(y * np.log(p) + (1 - y) * np.log1p(-p)))

    return float(np.exp(minimize_scalar(loss, bounds=(-3.0, 5.0), method="bounded").x))


def make_gate(
    weights_digest: str,
    *,
    confidence: Floats,
    log_probabilities: Floats,
    embeddings: Floats,
    monitor: Floats,
    domains: Sequence[str],
    right: NDArray[np.bool_],
    num_clusters: int,
    value_width: int,
    deep: float,
    seed: int,
) -> Gate:
    """Fit all parts on labelled decisions of System 1.

    Clusters and value head are fitted on one half and the score on the other, so that the score does not trust
    signals that have seen the answers.

    Raises:
        GateError: see :func:`fit_scores`.
    """
    half = np.random.default_rng(seed).permutation(len(right))
    one, two = half[: len(half) // 2], half[len(half) // 2 :]
    clusters = Clusters.fit(embeddings[one], ~right[one], num_clusters, seed)
    value = ValueHead.fit(embeddings[one], right[one], value_width, seed)
    signals = Signals(
        confidence[two], clusters.difficulty(embeddings[two]), value.curvature(embeddings[two]), monitor[two]
    )
    means, scales, coefficients, intercepts = fit_scores(signals, [domains[i] for i in two], right[two])
    labels = np.array(domains)
    temperatures: Mapping[str, float] = {
        name: fit_temperature(log_probabilities[labels == name], right[labels == name]) for name in sorted(set(domains))
    }
    numbers: dict[str, Any] = {
        "weights_digest": weights_digest,
        "temperatures": temperatures,
        "means": means,
        "scales": scales,
        "coefficients": coefficients,
        "intercepts": intercepts,
        "deep": deep,
        "centres": clusters.centres,
        "distances": clusters.distances,
        "errors": clusters.errors,
        "inner": value.inner,
        "bias": value.bias,
        "outer": value.outer,
        "offset": value.offset,
    }
    plain = json.loads(json.dumps(numbers, default=lambda array: array.tolist()))
    return Gate.of(GateFile.model_validate(plain))
