"""Counted costs against torch's own counter of floating-point operations."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dualmind.agent.cost import encoder_flops, levels_flops, scoring_flops, writing_flops
from dualmind.models.config import ReasonerConfig
from dualmind.models.reasoner import ReasonerForConditionalGeneration
from dualmind.models.scoring import CommandScorer

WORDS, COMMANDS = 40, 24
CONFIG = ReasonerConfig(
    vocab_size=300, d_model=64, d_ff=128, num_heads=4, encoder_layers=2, decoder_layers=2, num_experts=4, num_slots=4,
    reasoning_steps=5,
)  # fmt: skip


@pytest.fixture(scope="module")
def model() -> ReasonerForConditionalGeneration:
    torch.manual_seed(0)
    return ReasonerForConditionalGeneration(CONFIG).eval().requires_grad_(False)


def counted(call: object) -> int:
    assert callable(call)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        call()
    return int(counter.get_total_flops())


def test_reading_and_thinking(model: ReasonerForConditionalGeneration) -> None:
    ids, mask = torch.randint(4, 300, (1, WORDS)), torch.ones(1, WORDS, dtype=torch.long)
    found = counted(lambda: model.encoder.think(ids, mask, 5, early_stop=False))
    assert encoder_flops(CONFIG, WORDS) + levels_flops(CONFIG, WORDS, 5) == pytest.approx(found, rel=0.06)


def test_scoring(model: ReasonerForConditionalGeneration) -> None:
    scorer = CommandScorer(model)
    states, positions = torch.randn(1, WORDS + 4, 64), torch.randn(1, COMMANDS, 64)
    mask = torch.ones(1, WORDS + 4, dtype=torch.long)
    found = counted(lambda: scorer.model.command_head(scorer.model.command_states(positions, states, mask)))
    assert scoring_flops(CONFIG, WORDS + 4, COMMANDS) == pytest.approx(found, rel=0.06)


def test_writing(model: ReasonerForConditionalGeneration) -> None:
    from dualmind.models.decoding import write

    memory, mask = torch.randn(1, WORDS + 4, 64), torch.ones(1, WORDS, dtype=torch.long)
    written = 0

    def call() -> None:
        nonlocal written
        text = write(model, memory, mask, max_words=12)[0][0]
        written = len(text.ids) + 1

    found = counted(call)
    assert writing_flops(CONFIG, WORDS + 4, written) == pytest.approx(found, rel=0.06)
