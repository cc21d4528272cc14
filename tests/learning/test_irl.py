import itertools
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from dualmind.domains.household.progress import FEATURES, features
from dualmind.errors import LearningError
from dualmind.learning.acting import act, searcher
from dualmind.learning.irl import IrlParams, Mdp, RewardWeights, drift, fit_known, fit_sampled, read_weights
from dualmind.learning.skipped import Skipped
from dualmind.learning.steps import StepCounter
from tests.learning.demonstrations import small_system1
from tests.learning.play import ACTING, GAMES, PRIOR

SIZE, HORIZON = 4, 6
PARAMS = IrlParams(ridge=1e-3, drift_alarm=0.5)
TRUE = np.array([1.0, -1.5, 0.5])


def grid() -> Mdp:
    """A 4 x 4 grid with four moves; walls hold. Three features of fields that a person could read off a map."""
    moves = np.zeros((SIZE * SIZE, 4, SIZE * SIZE))
    for y, x in itertools.product(range(SIZE), repeat=2):
        for action, (dy, dx) in enumerate(((0, 1), (1, 0), (0, -1), (-1, 0))):
            to = min(max(y + dy, 0), SIZE - 1) * SIZE + min(max(x + dx, 0), SIZE - 1)
            moves[y * SIZE + x, action, to] = 1.0
    row, column = np.divmod(np.arange(SIZE * SIZE), SIZE)
    fields = np.stack([(column == 2) & (row == 2), (column == 1) & (row > 0), row == 0], axis=1).astype(np.float64)
    start = np.zeros(SIZE * SIZE)
    start[0] = 1.0
    return Mdp(moves, fields, start, HORIZON)


def walk(mdp: Mdp, policies: list[np.ndarray], number: int, rng: np.random.Generator) -> np.ndarray:
    """Features summed along each of ``number`` walks (N, F)."""
    walks = []
    for _ in range(number):
        state = 0
        total = mdp.features[state].copy()
        for policy in policies:
            action = rng.choice(4, p=policy[state])
            state = int(mdp.moves[state, action].argmax())
            total += mdp.features[state]
        walks.append(total)
    return np.array(walks)


def test_the_soft_policy_is_that_of_all_paths_counted_one_by_one() -> None:
    mdp = grid()
    rewards = mdp.features @ TRUE
    policies, log_partition = mdp.soft_policies(rewards)
    scores, sums = [], []
    for actions in itertools.product(range(4), repeat=HORIZON):
        state, total = 0, mdp.features[0].copy()
        for action in actions:
            state = int(mdp.moves[state, action].argmax())
            total += mdp.features[state]
        scores.append(total @ TRUE)
        sums.append(total)
    assert log_partition == pytest.approx(scipy.special.logsumexp(scores))
    np.testing.assert_allclose(
        mdp.visits(policies) @ mdp.features, scipy.special.softmax(scores) @ np.array(sums), atol=1e-9
    )


def test_known_moves_give_the_true_weights_back() -> None:
    mdp = grid()
    policies, _ = mdp.soft_policies(mdp.features @ TRUE)
    found = fit_known(mdp, mdp.visits(policies) @ mdp.features, ridge=1e-9)
    np.testing.assert_allclose(found, TRUE, atol=1e-3)  # without noise they are told in full, scale too


def test_a_few_noisy_demonstrations_rank_walks_as_the_true_return_does() -> None:
    mdp, rng = grid(), np.random.default_rng(0)
    shown = walk(mdp, mdp.soft_policies(mdp.features @ TRUE)[0], 100, rng)
    found = fit_known(mdp, shown.mean(axis=0), ridge=1e-3)
    others = walk(mdp, [np.full((16, 4), 0.25)] * HORIZON, 300, rng)
    assert scipy.stats.spearmanr(others @ found, others @ TRUE).statistic >= 0.8
    assert found @ TRUE / np.linalg.norm(found) / np.linalg.norm(TRUE) > 0.9


def test_drawn_walks_do_in_place_of_known_moves() -> None:
    mdp, rng = grid(), np.random.default_rng(1)
    shown = walk(mdp, mdp.soft_policies(mdp.features @ TRUE)[0], 200, rng)
    drawn, others = (walk(mdp, [np.full((16, 4), 0.25)] * HORIZON, 1000, rng) for _ in range(2))
    found = fit_sampled(("goal", "mud", "road"), shown, drawn, PARAMS)
    assert isinstance(found, RewardWeights)
    assert scipy.stats.spearmanr(found.score(others), others @ TRUE).statistic >= 0.8


def test_the_reward_of_household_demonstrations_prefers_won_games() -> None:
    counter, rng = StepCounter(), np.random.default_rng(0)
    system1 = small_system1()
    expert = ACTING.model_copy(update={"teacher_share": 1.0, "max_steps": 50})
    shown = act(system1, GAMES, expert, counter, rng, teacher=searcher(PRIOR), features=features)
    drawn = act(system1, GAMES, ACTING, counter, rng, features=features)
    shown_features, drawn_features = (np.array([own.final_features for own in part]) for part in (shown, drawn))
    found = fit_sampled(FEATURES, shown_features, drawn_features, PARAMS)
    assert isinstance(found, RewardWeights)
    weights = dict(zip(FEATURES, found.weights, strict=True))
    assert weights["fetched"] + weights["treated"] + weights["placed"] > 0
    assert weights["repeats"] < 0
    won = np.array([own.outcome.success for own in (*shown, *drawn)])
    scores = found.score(np.concatenate([shown_features, drawn_features]))
    above = scipy.stats.mannwhitneyu(scores[won], scores[~won]).statistic / (won.sum() * (~won).sum())
    assert above >= 0.95  # share of pairs in which the won game scores higher


def test_features_of_an_experts_game_say_what_it_reached() -> None:
    expert = ACTING.model_copy(update={"teacher_share": 1.0, "max_steps": 50})
    played = act(
        small_system1(), GAMES, expert, StepCounter(), np.random.default_rng(0), teacher=searcher(PRIOR),
        features=features,
    )  # fmt: skip
    for own in played:
        assert own.final_features is not None
        reached = dict(zip(FEATURES, own.final_features, strict=True))
        goal = own.game.goal
        assert reached["commands"] == own.outcome.steps
        assert reached["placed"] == (0 if goal.light else goal.count)
        assert reached["treated"] == reached["fetched"] == goal.count
        assert reached["lit"] == (goal.light is not None)
        assert reached["repeats"] == len(own.outcome.commands) - len(set(own.outcome.commands))


def test_drift_is_the_shift_in_standard_deviations() -> None:
    scores = np.random.default_rng(0).normal(size=500)
    assert drift(scores, scores[::-1]) == 0.0
    assert drift(scores, scores + 0.7 * scores.std()) == pytest.approx(0.7)
    assert drift(np.zeros(5), np.ones(5)) == 1.0


def test_what_tells_no_reward_is_said() -> None:
    same = np.ones((3, 2))
    found = fit_sampled(("a", "b"), same, same, PARAMS)
    assert isinstance(found, Skipped)
    assert "same features" in found.reason
    with pytest.raises(LearningError, match="3 demonstrations and 0 drawn games"):
        fit_sampled(("a", "b"), same, np.empty((0, 2)), PARAMS)
    with pytest.raises(LearningError, match="feature 'b' is no number"):
        fit_sampled(("a", "b"), same, np.array([[0.0, np.nan]]), PARAMS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"features": ["a"], "standardised": [1, 2], "scale": [1]}',
        '{"features": ["a"], "standardised": ["x"], "scale": [1]}',
        '{"features": ["a"], "standardised": [NaN], "scale": [1]}',
    ],
)
def test_a_damaged_file_of_a_reward_is_refused_with_the_remedy(tmp_path: Path, text: str) -> None:
    (tmp_path / "weights.json").write_text(text)
    with pytest.raises(LearningError, match="run `dvc repro reward`"):
        read_weights(tmp_path / "weights.json")
