from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from dualmind.agent.gate import Gate, fit_scores, fit_temperature, make_gate
from dualmind.agent.signals import Signals
from dualmind.errors import GateError

DIGEST = "a" * 32


def decisions(number: int = 600, seed: int = 0) -> dict[str, np.ndarray]:
    """System 1 is right more often where it is confident and does not repeat itself."""
    rng = np.random.default_rng(seed)
    confidence, repeats = rng.random(number), (rng.random(number) < 0.2) * 0.5
    right = rng.random(number) < 1 / (1 + np.exp(-(6 * confidence - 2 - 5 * repeats)))
    return {
        "confidence": confidence,
        "log_probabilities": np.log(0.2 + 0.8 * confidence),
        "embeddings": rng.normal(size=(number, 5)),
        "monitor": repeats,
        "right": right,
    }


def gate(seed: int = 0) -> Gate:
    own = decisions(seed=seed)
    domains = ["household", "reasoning"] * (len(own["right"]) // 2)
    return make_gate(DIGEST, domains=domains, num_clusters=3, value_width=4, deep=0.2, seed=0, **own)


def test_more_confidence_never_lowers_the_score_and_loops_never_raise_it() -> None:
    fitted = gate()
    readings = np.zeros((50, 5))
    rising = fitted.signals(np.linspace(0, 1, 50), readings, np.zeros(50))
    assert (np.diff(fitted.scores(rising, ["reasoning"] * 50)) >= 0).all()
    looping = fitted.signals(np.full(50, 0.6), readings, np.linspace(0, 1, 50))
    assert (np.diff(fitted.scores(looping, ["household"] * 50)) <= 0).all()


def test_where_signs_do_not_bind_it_is_logistic_regression() -> None:
    own = decisions()
    signals = Signals(own["confidence"], own["embeddings"][:, 0], own["embeddings"][:, 1], own["monitor"])
    means, scales, coefficients, intercepts = fit_scores(signals, ["one"] * len(signals), own["right"])
    z = (signals.matrix() - means) / scales
    reference = LogisticRegression(C=1 / (1e-2 * len(z)), tol=1e-10).fit(z, own["right"])
    np.testing.assert_allclose(coefficients, reference.coef_[0], atol=1e-3)
    assert intercepts["one"] == pytest.approx(float(reference.intercept_[0]), abs=1e-3)


def test_what_is_unknown_or_no_number_gets_no_trust() -> None:
    fitted = gate()
    signals = fitted.signals(np.array([1.0, 1.0, np.nan]), np.zeros((3, 5)), np.zeros(3))
    scores = fitted.scores(signals, ["reasoning", "poetry", "reasoning"])
    assert scores[0] > 0.5
    assert scores[1] == scores[2] == 0.0


def test_it_comes_back_from_disk_for_its_own_weights_only(tmp_path: Path) -> None:
    path = tmp_path / "gate.json"
    fitted = gate()
    assert fitted.save(path) == gate().save(tmp_path / "again.json")
    assert Gate.load(path, DIGEST).file == fitted.file
    with pytest.raises(GateError, match="was fitted on weights a"):
        Gate.load(path, "b" * 32)
    path.write_text(path.read_text().replace("coefficients", "coefs"))
    with pytest.raises(GateError, match="is not a gate"):
        Gate.load(path, DIGEST)
    with pytest.raises(GateError, match="is not a gate"):
        Gate.load(tmp_path / "none.json", DIGEST)


def test_numbers_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(GateError, match="do not fit together"):
        Gate.of(gate().file.model_copy(update={"bias": [0.0]}))
    with pytest.raises(GateError, match="do not fit together"):
        Gate.of(gate().file.model_copy(update={"coefficients": [-1.0, 0.0, 0.0, 0.0]}))


def test_a_gate_needs_enough_decisions_of_both_outcomes_and_numbers() -> None:
    own = decisions(40)
    signals = Signals(own["confidence"], own["confidence"], own["confidence"], own["monitor"])
    with pytest.raises(GateError, match="cannot be fitted on 40 decisions"):
        fit_scores(signals, ["one"] * 40, own["right"])
    own = decisions(80)
    signals = Signals(own["confidence"], own["confidence"], own["confidence"], own["monitor"])
    with pytest.raises(GateError, match="of which 80 are right"):
        fit_scores(signals, ["one"] * 80, np.ones(80, dtype=bool))
    signals = Signals(own["confidence"], np.full(80, np.nan), own["confidence"], own["monitor"])
    with pytest.raises(GateError, match="signal 'difficulty' holds a value that is no number"):
        fit_scores(signals, ["one"] * 80, own["right"])


def test_temperature_is_found_again() -> None:
    rng = np.random.default_rng(3)
    stated = rng.uniform(0.05, 0.999, 20_000)
    right = rng.random(20_000) < stated ** (1 / 2.5)
    assert fit_temperature(np.log(stated), right) == pytest.approx(2.5, rel=0.1)
