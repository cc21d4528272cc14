"""Weights of 8 bits with one scale a row, kept so in memory: a quarter of float32.

Symmetric, per output channel, weights only, as torchao's ``Int8WeightOnlyConfig`` (whose scales differ by under 1 %).
torchao itself is not used where a model runs: importing it takes 10 s and 85 MB here, more than the weights it saves.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dualmind.models.experts import MixtureOfExperts

_MAX = 127
_KEPT = ("router", "command_head", "lm_head", "halt", "valid")  # tiny, decisive, or tied to the embedding


def quantize(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Integers in -127..127 of the same shape, and the scale of each row: (..., R, C) to (..., R, C) and (..., R)."""
    scale = weight.abs().amax(-1).float() / _MAX
    scale = scale.clamp_min(torch.finfo(torch.float32).tiny)  # a row of zeros
    integers = (weight.float() / scale[..., None]).round().clamp(-_MAX, _MAX).to(torch.int8)
    return integers, scale


def dequantize(integers: Tensor, scale: Tensor) -> Tensor:
    """Float32 weights (..., R, C)."""
    return integers.float() * scale[..., None]


def _frozen(tensor: Tensor) -> nn.Parameter:
    return nn.Parameter(tensor, requires_grad=False)


class Int8Linear(nn.Module):
    """A linear layer whose weight is int8; gradients flow through it to its input, not to its weight."""

    def __init__(self, integers: Tensor, scale: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.integers, self.scale = _frozen(integers), _frozen(scale)  # (out, in), (out,)
        self.bias = None if bias is None else nn.Parameter(bias)

    @classmethod
    def of(cls, linear: nn.Linear) -> "Int8Linear":
        """The same layer in int8."""
        return cls(*quantize(linear.weight.detach()), None if linear.bias is None else linear.bias.detach())

    @property
    def weight(self) -> Tensor:
        """The weight in float32 (out, in), made anew each time."""
        return dequantize(self.integers, self.scale)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) to (..., out)."""
        out = F.linear(x, self.integers.to(x.dtype)) * self.scale.to(x.dtype)
        return out if self.bias is None else out + self.bias


class Int8Experts(MixtureOfExperts):
    """A mixture whose experts are int8; one expert at a time is made float."""

    def __init__(self, router: nn.Linear, up: tuple[Tensor, Tensor], down: tuple[Tensor, Tensor]) -> None:
        nn.Module.__init__(self)
        self.router, self.routing = router, None
        self.up, self.up_scale = map(_frozen, up)  # (E, F, D), (E, F)
        self.down, self.down_scale = map(_frozen, down)  # (E, D, F), (E, D)

    @classmethod
    def of(cls, mixture: MixtureOfExperts) -> "Int8Experts":
        """The same mixture in int8."""
        return cls(mixture.router, quantize(mixture.up.detach()), quantize(mixture.down.detach()))

    def plain(self) -> MixtureOfExperts:
        """A mixture of the rounded weights in float32."""
        mixture = MixtureOfExperts(self.up.shape[2], self.up.shape[1], self.up.shape[0])
        mixture.router = self.router
        mixture.up = nn.Parameter(dequantize(self.up, self.up_scale))
        mixture.down = nn.Parameter(dequantize(self.down, self.down_scale))
        return mixture

    def matrices(self, expert: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Both matrices of one expert (F, D) and (D, F)."""
        up = dequantize(self.up[expert], self.up_scale[expert])
        return up.to(dtype), dequantize(self.down[expert], self.down_scale[expert]).to(dtype)


def to_int8(model: nn.Module) -> None:
    """Make the linear layers and experts of a model int8, in place, one after the other.

    Embeddings, norms and heads stay as they are.
    """
    for name, module in list(model.named_modules()):
        if isinstance(module, Int8Linear | Int8Experts):
            continue
        if isinstance(module, MixtureOfExperts):
            replace_module(model, name, Int8Experts.of(module))
        elif is_linear(name, module):
            assert isinstance(module, nn.Linear)
            replace_module(model, name, Int8Linear.of(module))


def is_linear(name: str, module: nn.Module) -> bool:
    """Is this one of the linear layers that become int8?"""
    return isinstance(module, nn.Linear) and name.rsplit(".", 1)[-1] not in _KEPT


def replace_module(model: nn.Module, name: str, module: nn.Module) -> None:
    """Put a module in the place of the one of that name."""
    parent, _, child = name.rpartition(".")
    module.train(model.training)
    setattr(model.get_submodule(parent), child, module)
