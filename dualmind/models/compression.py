"""Pruning: whole experts by how much they are used, then single weights by their size."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from transformers import PreTrainedModel

from dualmind.errors import ParamsError
from dualmind.models.config import CompactConfig
from dualmind.models.experts import MixtureOfExperts
from dualmind.models.int8 import is_linear


def expert_use(model: nn.Module, run: Iterator[object]) -> list[Tensor]:
    """Mean share of positions that each expert takes, one tensor (E,) a mixture, while ``run`` is exhausted.

    Args:
        model: in training mode its mixtures count; it is put back afterwards.
        run: passes data through the model, one batch an item.
    """
    mixtures = [m for m in model.modules() if isinstance(m, MixtureOfExperts)]
    totals = [torch.zeros(len(m.up)) for m in mixtures]
    training = model.training
    model.train()
    with torch.no_grad():
        for _ in run:
            for total, mixture in zip(totals, mixtures, strict=True):
                assert mixture.routing is not None
                total.add_(mixture.routing.share.cpu())
    model.train(training)
    return [total / total.sum().clamp_min(1e-9) for total in totals]


def prune_experts(model: PreTrainedModel, use: Sequence[Tensor], keep: int) -> PreTrainedModel:
    """A copy of one of our models with the ``keep`` most used experts of each mixture.

    Args:
        model: with mixtures of experts, or without any, which changes nothing.
        use: of each mixture's experts (see :func:`expert_use`).
        keep: experts of each mixture.

    Raises:
        ParamsError: no expert or only one would be left, or more than there are.
    """
    smaller = copy.deepcopy(model)
    mixtures = [m for m in smaller.modules() if isinstance(m, MixtureOfExperts)]
    if not mixtures:
        return smaller
    assert isinstance(smaller.config, CompactConfig), "only our own models have these mixtures"
    if not 2 <= keep <= smaller.config.num_experts:
        raise ParamsError(
            f"keep_experts = {keep} of {smaller.config.num_experts}: a mixture needs at least 2 and has no more than "
            "it has; give a number in between"
        )
    for mixture, own in zip(mixtures, use, strict=True):
        best = own.argsort(descending=True, stable=True)[:keep].sort().values
        mixture.up, mixture.down = nn.Parameter(mixture.up[best].detach()), nn.Parameter(mixture.down[best].detach())
        router = nn.Linear(mixture.router.in_features, keep, bias=False)
        router.weight = nn.Parameter(mixture.router.weight[best].detach())
        mixture.router = router
        mixture.routing = None
    smaller.config.num_experts = keep
    return smaller


class Mask(nn.Module):
    """Keeps some weights at zero while the others are trained."""

    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, weight: Tensor) -> Tensor:
        """The weight with its zeros."""
        return weight * self.mask


@contextmanager
def sparse(model: nn.Module, sparsity: float) -> Iterator[nn.Module]:
    """Set the smallest weights of each matrix to zero, and keep them there for as long as the context lasts.

    Magnitude pruning with retraining (Han et al. 2015): train the model inside the context. Linear layers and experts
    are pruned; embeddings, norms and heads are not.

    Args:
        model: changed in place.
        sparsity: share of each matrix that becomes zero, >= 0 and < 1.

    Raises:
        ParamsError: everything, or a negative share, would be pruned.
    """
    if not 0 <= sparsity < 1:
        raise ParamsError(f"sparsity = {sparsity}: give a share of at least 0 and below 1; at 1 no weight is left")
    pruned = [
        (module, leaf)
        for name, module in list(model.named_modules())
        for leaf in (
            ("up", "down") if isinstance(module, MixtureOfExperts) else ("weight",) if is_linear(name, module) else ()
        )
    ]
    for module, leaf in pruned:
        mask = largest(getattr(module, leaf).detach(), sparsity)
        parametrize.register_parametrization(module, leaf, Mask(mask))
    try:
        yield model
    finally:
        for module, leaf in pruned:
            parametrize.remove_parametrizations(module, leaf, leave_parametrized=True)


def largest(weight: Tensor, sparsity: float) -> Tensor:
    """1 for the weights that stay, of each matrix (..., R, C) all but the ``sparsity`` of least magnitude.

    A matrix keeps at least one weight.
    """
    flat = weight.abs().flatten(-2)  # (..., R * C)
    keep = max(1, round(flat.shape[-1] * (1 - sparsity)))
    mask = torch.zeros_like(flat).scatter_(-1, flat.topk(keep, -1).indices, 1.0)
    return mask.view_as(weight)


def sparsity_of(model: nn.Module) -> float:
    """Share of zeros among the weights that can be pruned or made int8."""
    matrices = [
        weight
        for name, module in model.named_modules()
        for weight in (
            (module.up, module.down)
            if isinstance(module, MixtureOfExperts)
            else (module.weight,)
            if is_linear(name, module)
            else ()
        )
    ]
    zeros = sum(int((weight == 0).sum()) for weight in matrices)
    return zeros / max(sum(weight.numel() for weight in matrices), 1)
