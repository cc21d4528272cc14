import numpy as np
import torch

from dualmind.evaluation.playing import play
from dualmind.learning.acting import act, searcher
from dualmind.learning.channels import visits_of
from dualmind.learning.dagger import DaggerParams, DaggerRound, dagger
from dualmind.learning.steps import StepCounter
from dualmind.models.system1 import System1
from tests.learning.demonstrations import demonstrations
from tests.learning.play import ACTING, GAMES, PRIOR, cloned, lessons_for
from tests.learning.test_cloning import PARAMS

DAGGER = DaggerParams(rounds=2, games=12, acting=ACTING, cloning=PARAMS.model_copy(update={"steps": 60}))


def run(system1: System1, params: DaggerParams = DAGGER) -> tuple[list[DaggerRound], StepCounter]:
    counter = StepCounter({"demonstration": len(demonstrations())})
    rounds = dagger(
        system1, GAMES, searcher(PRIOR), demonstrations(), params, lessons_for(system1), counter, seed=3
    )  # fmt: skip
    return list(rounds), counter


def share_won(system1: System1) -> float:
    outcomes = play(system1, GAMES, "sampled", np.random.default_rng(0), batch_size=64, max_steps=50)
    return float(np.mean([outcome.success for outcome in outcomes]))


def test_corrected_play_wins_more_and_every_step_is_in_the_count() -> None:
    system1 = cloned(15)  # a beginner
    before = share_won(system1)
    rounds, counter = run(system1)
    assert share_won(system1) > before + 0.1
    assert [own.environment_steps for own in rounds] == sorted(own.environment_steps for own in rounds)
    assert rounds[-1].environment_steps == counter.total
    assert counter.to_dict()["demonstration"] == len(demonstrations())
    assert rounds[-1].decisions <= counter.total  # states that stand twice are learnt once
    assert all(0 <= own.agreement <= 1 for own in rounds)


def test_the_same_seed_gives_the_same_weights() -> None:
    params = DAGGER.model_copy(update={"rounds": 1, "cloning": PARAMS.model_copy(update={"steps": 5})})
    states = []
    for _ in range(2):
        system1 = cloned(5)
        run(system1, params)
        states.append(system1.model.state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_a_policy_that_never_wins_is_corrected_all_the_same() -> None:
    params = DAGGER.model_copy(update={"rounds": 1, "acting": ACTING.model_copy(update={"max_steps": 2})})
    rounds, counter = run(cloned(1), params)
    assert rounds[0].success == 0.0
    assert counter.to_dict()["rollout"] == 24
    assert rounds[0].decisions > len(demonstrations())


def test_of_a_teacher_that_may_err_only_won_games_are_believed() -> None:
    played = act(cloned(60), GAMES, ACTING, StepCounter(), np.random.default_rng(0), teacher=searcher(PRIOR))
    all_of_them, won = visits_of(played, "system2", "x"), visits_of(played, "system2", "x", won_only=True)
    names = {own.game.id for own in played if own.outcome.success}
    assert {visit.row.problem_id for visit in won} == names
    assert len(won) < len(all_of_them)
