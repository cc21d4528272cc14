"""Optimisers: Muon for the matrices of hidden layers, AdamW for the rest, on one schedule."""

from typing import Literal

import torch
from torch import nn

from dualmind.learning.muon import Muon

Optimizer = Literal["muon", "adamw"]


def build_optimizers(
    model: nn.Module, kind: Optimizer, *, muon_lr: float, adamw_lr: float
) -> list[torch.optim.Optimizer]:
    """Optimisers that together cover every parameter once.

    Muon (Jordan et al. 2024) takes the matrices of linear layers, on which it learns small models from scratch several
    times faster than AdamW; embeddings, norms, convolutions and heads go to AdamW. For published checkpoints
    choose ``adamw`` alone: their weights were not made by Muon.

    Args:
        model: what is trained.
        kind: ``muon`` for the pair, ``adamw`` for AdamW alone.
        muon_lr: peak rate of Muon, > 0.
        adamw_lr: peak rate of AdamW, > 0.
    """
    heads = ("lm_head.weight", "command_head.weight")
    linear = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    matrices: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        hidden = kind == "muon" and name in linear and not name.endswith(heads)
        (matrices if hidden else rest).append(parameter)
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(rest, lr=adamw_lr, betas=(0.9, 0.98), weight_decay=0.0)
    ]
    if matrices:
        optimizers.append(Muon(matrices, lr=muon_lr))
    return optimizers


def learning_rate(step: int, num_steps: int, warmup_steps: int, final_fraction: float) -> float:
    """Share of the peak rate at ``step``: linear warm-up, then linear to ``final_fraction`` at the last step."""
    warm = min(1.0, (step + 1) / max(warmup_steps, 1))
    progress = step / max(num_steps - 1, 1)
    return warm * (1.0 - (1.0 - final_fraction) * progress)
