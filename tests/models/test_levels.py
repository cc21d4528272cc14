import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

from dualmind.models.config import ReasonerConfig
from dualmind.models.experts import MixtureOfExperts, routings
from dualmind.models.levels import Levels
from dualmind.models.reasoner import ReasonerForConditionalGeneration

SIZES = {
    "vocab_size": 60, "d_model": 32, "d_ff": 48, "num_heads": 4, "encoder_layers": 2, "decoder_layers": 2,
    "num_experts": 3, "num_slots": 3, "reasoning_steps": 5,
}  # fmt: skip


def model(**changes: object) -> ReasonerForConditionalGeneration:
    torch.manual_seed(0)
    return ReasonerForConditionalGeneration(ReasonerConfig(**{**SIZES, **changes})).eval()


def prompts() -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(4, 60, (3, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    return ids, mask


def test_an_expert_layer_is_what_each_position_s_own_expert_computes() -> None:
    torch.manual_seed(0)
    layer = MixtureOfExperts(8, 12, 3)
    torch.nn.init.normal_(layer.up)
    torch.nn.init.normal_(layer.down)
    x = torch.randn(2, 7, 8)
    found = layer(x)
    for position, own in zip(x.flatten(0, 1), found.flatten(0, 1), strict=True):
        probability = layer.router(position).softmax(-1)
        expert = int(probability.argmax())
        hidden = torch.relu(layer.up[expert] @ position).square()
        torch.testing.assert_close(own, probability[expert] * (layer.down[expert] @ hidden))


def test_balance_is_one_where_experts_share_alike_and_their_number_where_one_does_all() -> None:
    layer = MixtureOfExperts(4, 4, 4).train()
    torch.nn.init.normal_(layer.up)
    torch.nn.init.normal_(layer.down)
    with torch.no_grad():
        layer.router.weight.copy_(50 * torch.eye(4))
    layer(torch.eye(4))
    assert float(routings(layer)[0].imbalance.detach()) == pytest.approx(1.0, abs=1e-4)
    layer(torch.eye(4)[:1].expand(8, 4))
    assert float(routings(layer)[0].imbalance.detach()) == pytest.approx(4.0, abs=1e-3)


def test_padding_changes_nothing_that_is_thought() -> None:
    reasoner = model()
    ids, mask = prompts()
    together = reasoner.encoder.think(ids, mask, early_stop=False)
    alone = reasoner.encoder.think(ids[1:2, :5], mask[1:2, :5], early_stop=False)
    assert together is not None
    assert alone is not None
    torch.testing.assert_close(together.conclusions[1:2], alone.conclusions, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(together.memory[1:2, 9:], alone.memory[:, 5:], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("off", ["concept", "relation", "reasoning", "verification"])
def test_each_level_can_be_turned_off_and_then_has_no_weights(off: str) -> None:
    full, less = model(), model(**{off: False})
    assert any(f"levels.{off}." in name for name, _ in full.named_parameters())
    assert not any(f"levels.{off}." in name for name, _ in less.named_parameters())
    ids, mask = prompts()
    thought = less.encoder.think(ids, mask)
    assert thought is not None
    assert (thought.validity is None) == (off == "verification")
    assert bool((thought.steps == 0).all()) == (off == "reasoning")


def test_without_levels_it_is_a_plain_encoder_decoder() -> None:
    plain = model(concept=False, relation=False, reasoning=False, verification=False)
    ids, mask = prompts()
    assert plain.encoder.think(ids, mask) is None
    assert plain.encoder(ids, mask)[0].shape == (3, 9, 32)


def test_halting_stops_each_input_on_its_own_and_freezes_it() -> None:
    reasoner = model(verification=False)
    ids, mask = prompts()
    levels = reasoner.encoder.levels
    assert isinstance(levels, Levels)
    full = reasoner.encoder.think(ids, mask, early_stop=False)
    assert full is not None
    with torch.no_grad():  # a head that halts where the conclusions of step 2 say so for the first input alone
        levels.halt.weight.zero_()
        levels.halt.bias.fill_(-1.0)
    stopped = reasoner.encoder.think(ids, mask, early_stop=True)
    assert stopped is not None
    assert stopped.steps.tolist() == [5, 5, 5]
    torch.testing.assert_close(stopped.memory, full.memory)
    with torch.no_grad():
        levels.halt.bias.fill_(1.0)
    at_once = reasoner.encoder.think(ids, mask, early_stop=True)
    assert at_once is not None
    assert at_once.steps.tolist() == [1, 1, 1]


def test_an_invalid_conclusion_is_sent_back_once() -> None:
    ids, mask = prompts()
    never, always = model(validity_cutoff=-1e9), model(validity_cutoff=1e9)
    for reasoner, runs in ((never, 1), (always, 2)):
        assert isinstance(reasoner.encoder.levels, Levels)
        with torch.no_grad():
            reasoner.encoder.levels.halt.weight.zero_()
            reasoner.encoder.levels.halt.bias.fill_(-1.0)
        thought = reasoner.encoder.think(ids, mask)
        assert thought is not None
        assert thought.steps.tolist() == [5 * runs] * 3


def test_it_is_saved_and_loaded_as_any_model_of_transformers(tmp_path: object) -> None:
    reasoner = model()
    reasoner.save_pretrained(str(tmp_path))
    again = AutoModelForSeq2SeqLM.from_pretrained(str(tmp_path))
    assert isinstance(again, ReasonerForConditionalGeneration)
    first, second = reasoner.state_dict(), again.state_dict()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("changes", [{"reasoning_steps": 0}, {"reasoning_steps": 8}, {"num_slots": 0}])
def test_impossible_sizes_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"must be in 1\.\.7"):
        ReasonerConfig(**{**SIZES, **changes})
