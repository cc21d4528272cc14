import numpy as np
import pytest

from dualmind.agent.macro import (
    HOUSEHOLD_SKILLS,
    SKILLS,
    WIDTHS,
    Direction,
    Net,
    Play,
    command_roles,
    commands_of,
    play_flat,
    play_macro,
)
from dualmind.agent.skills import ROLES, SkillLibrary
from dualmind.domains.debugging.bugs import generate_bugs, rehearse
from dualmind.domains.debugging.domain import BUDGET, DebuggingEpisode
from dualmind.learning.options import Player, build, num_parameters, roll, train

BUGS = generate_bugs({"train": 8, "valid_unseen": 4}, seed=5)
EPISODES = [DebuggingEpisode(bug, results) for bug, results in zip(BUGS, rehearse(BUGS), strict=True)]


def macro(episode: DebuggingEpisode) -> Play:
    return play_macro(episode, SkillLibrary([*SKILLS, *HOUSEHOLD_SKILLS]))


@pytest.mark.parametrize("player", [play_flat, macro])
def test_every_episode_ends_within_its_budget(player: Player) -> None:
    ended, choices = roll(EPISODES, player, {}, np.random.default_rng(0))
    assert len(ended) == len(EPISODES)
    assert all(0 < own.runs <= BUDGET for own in ended)
    assert all(choice.ask.features.shape[1] == WIDTHS[choice.ask.net] for choice in choices)


def test_macro_and_micro_together_have_as_many_parameters_as_the_flat_policy() -> None:
    ours, flat = num_parameters(build(("macro", "micro"), 0)), num_parameters(build(("flat",), 0))
    assert abs(ours - flat) <= 0.05 * flat


def test_a_skill_takes_only_admissible_commands_of_its_roles() -> None:
    episode = EPISODES[0]
    episode.reset()
    roles = command_roles(episode)
    for skill in (*SKILLS, *HOUSEHOLD_SKILLS):
        taken = commands_of(Direction(skill, 0), episode, roles)
        assert not (taken & ~episode.admissible()).any()
        assert {ROLES[role] for role in roles[taken]} <= set(skill.roles)


@pytest.mark.parametrize(("player", "nets"), [(play_flat, ("flat",)), (macro, ("macro", "micro"))])
def test_training_gives_the_same_weights_for_the_same_seed(player: Player, nets: tuple[Net, ...]) -> None:
    def weights() -> list[float]:
        choosers = build(nets, 1)
        train(
            choosers, EPISODES[:4], player, np.random.default_rng(2), updates=2, group=2, copies=2, after=lambda _: None
        )
        return [float(weight.detach().sum()) for own in choosers.values() for weight in own.parameters()]

    fresh = [float(weight.detach().sum()) for own in build(nets, 1).values() for weight in own.parameters()]
    assert weights() == weights() != fresh
