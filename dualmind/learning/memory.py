"""Training in less memory: activations made twice instead of kept, and 8-bit base weights with small adapters.

Gradient checkpointing (Chen et al. 2016) keeps the input of each layer and computes the rest again on the way back.
With adapters (Hu et al. 2022, LoRA) on frozen int8 weights (as QLoRA, Dettmers et al. 2023, with 4 bits) neither a
gradient nor a state of the optimiser is held for the base weights. Batches by length, the third saving, are what
:func:`dualmind.learning.batching.batches` always makes.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, PositiveInt
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from dualmind.models.encoder_decoder import DecoderLayer, EncoderLayer
from dualmind.models.experts import MixtureOfExperts
from dualmind.models.int8 import Int8Experts, Int8Linear, dequantize, is_linear, quantize, replace_module


class MemoryParams(BaseModel):
    """What is done to train in less memory."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    gradient_checkpointing: bool
    base: Literal["float32", "int8"]  # int8: base weights are frozen, adapters are trained
    adapter_rank: PositiveInt  # of the adapters, where the base is int8


class Int8Adapted(Int8Linear):
    """A frozen int8 layer and a trained correction of low rank: ``y = W x + B A x`` (Hu et al. 2022, Eq. 3)."""

    def __init__(self, linear: nn.Linear, rank: int, generator: torch.Generator) -> None:
        super().__init__(*quantize(linear.weight.detach()), None if linear.bias is None else linear.bias.detach())
        down = torch.randn(rank, linear.in_features, generator=generator) / math.sqrt(linear.in_features)
        self.down = nn.Parameter(down)  # A, (rank, in)
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank))  # B, (out, rank); starts as no correction

    @property
    def weight(self) -> Tensor:
        """The corrected weight in float32 (out, in)."""
        return dequantize(self.integers, self.scale) + self.up @ self.down

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) to (..., out)."""
        correction = (x @ self.down.T.to(x.dtype)) @ self.up.T.to(x.dtype)
        return super().forward(x) + correction

    def merged(self) -> nn.Linear:
        """A plain layer with the corrected weight."""
        linear = nn.Linear(self.integers.shape[1], self.integers.shape[0], bias=self.bias is not None, device="meta")
        linear.weight = nn.Parameter(self.weight.detach())
        if self.bias is not None:
            linear.bias = nn.Parameter(self.bias.detach())
        return linear


@contextmanager
def saving_memory(model: nn.Module, params: MemoryParams, *, seed: int) -> Iterator[nn.Module]:
    """Train ``model`` inside this context in less memory; afterwards it is a plain model again.

    With an int8 base the experts are frozen as well, without adapters; embeddings, norms, routers and heads are trained
    as ever.

    Args:
        model: changed in place; published ones have their own gradient checkpointing.
        params: what is done.
        seed: of the adapters' start.
    """
    if params.base == "int8":
        _adapt(model, params.adapter_rank, torch.Generator().manual_seed(seed))
    with _checkpointing(model) if params.gradient_checkpointing else nullcontext():
        try:
            yield model
        finally:
            if params.base == "int8":
                _merge(model)


@contextmanager
def _checkpointing(model: nn.Module) -> Iterator[None]:
    """Layers keep their inputs alone, and run again on the way back."""
    layers = [m for m in model.modules() if isinstance(m, EncoderLayer | DecoderLayer)]
    published = model if isinstance(model, PreTrainedModel) and model.supports_gradient_checkpointing else None
    if published is not None:
        published.gradient_checkpointing_enable({"use_reentrant": False})
    for layer in layers:
        for name in ("forward", "alone"):
            if hasattr(layer, name):
                setattr(layer, name, partial(checkpoint, getattr(layer, name), use_reentrant=False))
    try:
        yield
    finally:
        for layer in layers:
            for name in ("forward", "alone"):
                layer.__dict__.pop(name, None)
        if published is not None:
            published.gradient_checkpointing_disable()


def _adapt(model: nn.Module, rank: int, generator: torch.Generator) -> None:
    """Freeze linear layers and experts in int8, one after the other; give the layers adapters."""
    for name, module in list(model.named_modules()):
        if isinstance(module, MixtureOfExperts):
            replace_module(model, name, Int8Experts.of(module))
        elif is_linear(name, module):
            assert isinstance(module, nn.Linear)
            replace_module(model, name, Int8Adapted(module, rank, generator))


def _merge(model: nn.Module) -> None:
    """Plain float32 layers in place of the adapted ones."""
    for name, module in list(model.named_modules()):
        if isinstance(module, Int8Adapted):
            replace_module(model, name, module.merged())
        elif isinstance(module, Int8Experts):
            replace_module(model, name, module.plain())
