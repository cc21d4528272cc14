import pytest
import torch
from torch import nn

from dualmind.learning.muon import Muon, orthogonalize
from dualmind.learning.optim import build_optimizers, learning_rate
from dualmind.models.config import CompactConfig
from dualmind.models.encoder_decoder import CompactForConditionalGeneration


@pytest.mark.parametrize("shape", [(16, 16), (48, 16), (16, 48)])
def test_muon_follows_the_one_of_torch(shape: tuple[int, int]) -> None:
    """Torch orthogonalises in bfloat16 (8 bits of mantissa), so steps agree to a few per cent of their size."""
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(shape, generator=generator)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    a = Muon([ours], lr=0.1)
    b = torch.optim.Muon([theirs], lr=0.1, weight_decay=0.0, adjust_lr_fn="original")
    for _ in range(5):
        gradient = torch.randn(shape, generator=generator)
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        a.step()
        b.step()
    moved = (theirs - start).norm()
    assert (ours - theirs).norm() < 0.05 * moved


def test_orthogonalized_matrices_have_singular_values_near_one() -> None:
    matrices = torch.randn(3, 40, 24, generator=torch.Generator().manual_seed(1))
    values = torch.linalg.svdvals(orthogonalize(matrices))
    assert values.min() > 0.6
    assert values.max() < 1.3


def test_every_parameter_is_trained_by_exactly_one_optimizer() -> None:
    model = CompactForConditionalGeneration(CompactConfig(vocab_size=50))
    for kind in ("muon", "adamw"):
        optimizers = build_optimizers(model, kind, muon_lr=0.02, adamw_lr=0.001)
        trained = [p for o in optimizers for group in o.param_groups for p in group["params"]]
        assert len(trained) == len({id(p) for p in trained}) == len(list(model.parameters()))
    muon = build_optimizers(model, "muon", muon_lr=0.02, adamw_lr=0.001)[1]
    heads = {id(model.lm_head.weight), id(model.command_head.weight), id(model.encoder.embedding.weight)}
    assert not heads & {id(p) for p in muon.param_groups[0]["params"]}


def test_learning_rate_warms_up_and_ends_at_its_fraction() -> None:
    rates = [learning_rate(step, 100, 10, 0.05) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates.index(max(rates)) == 9
    assert rates[-1] == pytest.approx(0.05)
    assert learning_rate(0, 1, 0, 0.05) == 1.0
