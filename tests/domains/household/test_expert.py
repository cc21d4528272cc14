import numpy as np
import pytest

from dualmind.domains.household.domain import MAX_STEPS, Household, HouseholdEpisode, as_problem
from dualmind.domains.household.expert import LocationPrior, Searcher
from dualmind.domains.household.generate import generate_games
from dualmind.domains.household.sources import load_games
from dualmind.errors import GameError
from tests.domains.household.stock import REAL_GAMES, needs_real_games

GAMES = generate_games({"train": 60, "valid_train": 12}, seed=1)
PRIOR = LocationPrior.learn(g for g in GAMES if g.split == "train")
DOMAIN = Household(GAMES, PRIOR)


def test_prior_is_the_mean_number_of_things_in_a_receptacle() -> None:
    thing, place = "mug", "countertop"
    games = [g for g in GAMES if g.split == "train" and any(kind == thing for kind, _ in g.placements())]
    found = sum(g.placements().count((thing, place)) for g in games)
    there = sum(g.receptacle_types().count(place) for g in games)
    assert PRIOR.expected.get((thing, place), 0.0) == pytest.approx(found / there if found else 0.0)
    assert PRIOR.worth("unicorn", "shelf") == 0.0
    assert PRIOR.worth("mug", "cabinet") == PRIOR.expected["mug", "cabinet"] / 2  # a door to open


def test_expert_decisions_win_when_they_are_played() -> None:
    for problem in DOMAIN.problems("valid_train"):
        decisions = list(DOMAIN.expert(problem))
        episode = DOMAIN.episode(problem)
        _, info = episode.reset()
        for decision in decisions:
            assert info["prompt"] == decision.prompt
            command = info["admissible_commands"][decision.candidates.index(decision.target)]
            _, _, done, _, info = episode.step(command)
        assert done
        assert decisions[0].rationale


def test_searcher_does_better_than_a_random_order_of_search() -> None:
    def mean_steps(prior: LocationPrior) -> float:
        steps = []
        for problem in DOMAIN.problems("valid_train"):
            try:
                steps.append(len(list(Household(GAMES, prior).expert(problem))))
            except GameError:
                steps.append(MAX_STEPS)
        return float(np.mean(steps))

    assert mean_steps(PRIOR) < mean_steps(LocationPrior({}, frozenset()))


def test_a_lost_game_is_an_error_that_names_it() -> None:
    problem = as_problem(GAMES[0])
    lost = Household(GAMES, PRIOR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Searcher, "_wishes", lambda *_: iter(()))
        with pytest.raises(GameError, match=problem.id):
            list(lost.expert(problem))


def test_check_step_and_score_follow_the_engine() -> None:
    problem = DOMAIN.problems("train")[0]
    episode = HouseholdEpisode(problem.payload)
    _, info = episode.reset()
    assert DOMAIN.check_step(problem, [info["admissible_commands"][0]])
    assert not DOMAIN.check_step(problem, ["take moon 1 from sky 1"])
    assert DOMAIN.score(problem, []) == 0.0


def test_an_episode_ends_at_its_limit_of_steps() -> None:
    episode = HouseholdEpisode(GAMES[0], max_steps=3)
    episode.reset()
    assert [episode.step("look")[3] for _ in range(3)] == [False, False, True]


@needs_real_games
def test_searcher_wins_nearly_all_real_games() -> None:
    games = load_games(REAL_GAMES, {"train": 200, "valid_unseen": 71})
    domain = Household(games, LocationPrior.learn(g for g in games if g.split == "train"))
    won = 0
    for problem in domain.problems("valid_unseen"):
        try:
            list(domain.expert(problem))
            won += 1
        except GameError:
            continue
    assert won >= 68
