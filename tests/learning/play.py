"""Small real games and settings to play and learn with."""

import torch

from dualmind.domains.household.expert import LocationPrior
from dualmind.domains.household.generate import generate_games
from dualmind.learning.acting import ActingParams
from dualmind.learning.batching import TokenizedDecisions
from dualmind.learning.cloning import Lessons, clone
from dualmind.learning.dagger import MakeLessons
from dualmind.models.system1 import System1
from dualmind.models.text_model import TextModel
from stages.pretrain import renameable
from tests.learning.demonstrations import demonstrations, small_system1
from tests.learning.test_cloning import PARAMS

GAMES = generate_games({"train": 24}, seed=21)  # those of the demonstrations
PRIOR = LocationPrior.learn(GAMES)
ACTING = ActingParams(mode="sampled", teacher_share=0.0, break_loops=False, batch_size=64, max_steps=20)


def lessons_for(system: TextModel) -> MakeLessons:
    return lambda rows: Lessons(TokenizedDecisions.of(rows, system), None, renameable(rows, system))


def cloned(steps: int, seed: int = 0) -> System1:
    torch.set_num_threads(1)
    system1 = small_system1(seed)
    params = PARAMS.model_copy(update={"steps": steps})
    clone(system1, lessons_for(system1)(demonstrations()), params, seed=seed)
    return system1
