"""Muon in float32, batched over matrices of one shape.

``torch.optim.Muon`` orthogonalises in bfloat16, one matrix after the other. On a CPU without bfloat16 units that takes
twenty times as long as float32 and was a third of a training step; a test compares the two.
"""

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn

_QUINTIC = (3.4445, -4.7750, 2.0315)  # coefficients of the Newton-Schulz iteration (Jordan et al. 2024)
_ITERATIONS = 5


class Muon(torch.optim.Optimizer):
    """Momentum orthogonalised by Newton-Schulz (Jordan et al. 2024), with Nesterov momentum.

    Args:
        parameters: matrices (rows, columns).
        lr: rate, > 0; scaled by sqrt(max(1, rows / columns)) as in the original.
        momentum: decay of the running mean of gradients, in [0, 1).
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, momentum: float = 0.95) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # we never re-evaluate the loss
        """Update all matrices that have a gradient."""
        assert closure is None
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape[parameter.shape].append(parameter)
            for shape, parameters in by_shape.items():
                updates = torch.stack([self._momentum(p, group["momentum"]) for p in parameters])  # (N, rows, columns)
                rate = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                for parameter, update in zip(parameters, orthogonalize(updates), strict=True):
                    parameter.add_(update.to(parameter.dtype), alpha=-rate)

    def _momentum(self, parameter: nn.Parameter, momentum: float) -> Tensor:
        state = self.state[parameter]
        assert parameter.grad is not None
        gradient = parameter.grad
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(gradient)
        buffer: Tensor = state["momentum_buffer"]
        buffer.lerp_(gradient, 1 - momentum)
        return gradient.lerp(buffer, momentum)


def orthogonalize(matrices: Tensor) -> Tensor:
    """Nearest (semi-)orthogonal matrices, roughly: singular values end between 0.7 and 1.2.

    Args:
        matrices: (N, rows, columns).
    """
    a, b, c = _QUINTIC
    x: Tensor = matrices.float()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.transpose(-1, -2)
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.transpose(-1, -2)
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.transpose(-1, -2) if tall else x
