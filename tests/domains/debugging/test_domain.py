import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmind.domains.debugging.bugs import generate_bugs, rehearse
from dualmind.domains.debugging.domain import Debugging, DebuggingEpisode
from dualmind.errors import DebuggingError

BUGS = generate_bugs({"train": 6, "valid_unseen": 2}, seed=3)
RESULTS = rehearse(BUGS)


def played(episode: DebuggingEpisode, seed: int) -> list[str]:
    """Commands drawn at random until the episode is over."""
    rng = np.random.default_rng(seed)
    _, info = episode.reset()
    given_ones: list[str] = []
    ended = False
    while not ended:
        given_ones.append(str(rng.choice(info["admissible_commands"])))
        _, _, done, truncated, info = episode.step(given_ones[-1])
        ended = done or truncated
    return given_ones


@settings(max_examples=20, deadline=None)
@given(index=st.integers(0, len(BUGS) - 1), seed=st.integers(0, 2**32), budget=st.integers(1, 40))
def test_no_episode_uses_more_test_runs_than_it_has(index: int, seed: int, budget: int) -> None:
    episode = DebuggingEpisode(BUGS[index], RESULTS[index], budget)
    played(episode, seed)
    assert 1 <= episode.runs <= budget


def test_the_true_repair_solves_and_its_commands_score_one() -> None:
    domain = Debugging(BUGS, budget=200)
    for problem in domain.problems("train"):
        episode = domain.episode(problem)
        episode.reset()
        patches = [command for command in episode.commands if command.startswith("patch")]
        whole = [episode.bug.program.replaced(repair.function, repair.source) for repair in episode.bug.repairs]
        commands = [patches[whole.index(episode.bug.original)]]
        _, reward, done, _, _ = episode.step(commands[0])
        assert (reward, done, domain.score(problem, commands)) == (1.0, True, 1.0)


def test_the_experts_decisions_are_admissible_and_replay_to_the_same_end() -> None:
    domain = Debugging(BUGS)
    for problem in domain.problems("train"):
        commands = []
        for decision in domain.expert(problem):
            assert decision.target in decision.candidates
            commands.append(decision.target)
            assert domain.check_step(problem, commands)
        assert domain.score(problem, commands) in {0.0, 1.0}


def test_a_command_that_cannot_be_given_is_refused_by_name() -> None:
    episode = DebuggingEpisode(BUGS[0], RESULTS[0])
    episode.reset()
    with pytest.raises(DebuggingError, match="run test 99"):
        episode.step("run test 99")
    episode.step("run test 0")
    with pytest.raises(DebuggingError, match="cannot be done now"):
        episode.step("run test 0")  # its result is known


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(DebuggingError, match="at least 1"):
        DebuggingEpisode(BUGS[0], RESULTS[0], 0)


def test_the_prompt_tells_no_result_that_was_not_seen() -> None:
    episode = DebuggingEpisode(BUGS[0], RESULTS[0])
    _, info = episode.reset()
    assert "passed" not in info["prompt"].replace("0 passed", "")
    assert "suspect" not in info["prompt"] or episode.evidence.suspects.all()
