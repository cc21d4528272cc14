"""Small real data for tests: the searcher's decisions on generated games."""

from functools import lru_cache

from dualmind.data.decisions import DecisionRow
from dualmind.domains.base import Split
from dualmind.domains.household.domain import Household
from dualmind.domains.household.expert import LocationPrior
from dualmind.domains.household.generate import generate_games
from dualmind.models.system1 import CompactParams, System1
from stages.prepare import demonstrate
from stages.pretrain import texts

SMALL = CompactParams(kind="compact", d_model=32, d_ff=64, num_heads=4, encoder_layers=1, decoder_layers=1)


@lru_cache
def demonstrations(split: Split = "train", number: int = 24) -> tuple[DecisionRow, ...]:
    games = generate_games({split: number}, seed=21)
    domain = Household(games, LocationPrior.learn(games))
    rows, lost = demonstrate(domain, domain.problems(split))
    assert not lost
    return tuple(rows)


def small_system1(seed: int = 0) -> System1:
    return System1.build(SMALL, texts(demonstrations()), seed)
