"""Weights on disk in fewer bytes: int8 with a scale a row, and of sparse ones a bitmask and what is not zero.

A weight ``W`` is stored as one of

    W                                       float32, as it is
    W#integers, W#scale                     int8
    W#values, W#mask, W#scale               int8 where the mask has a 1, eight positions a byte; else zero

A bitmask costs an eighth of a byte a weight whatever the sparsity; indices (CSR) would cost more below 94 % of zeros.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from dualmind.models.int8 import Int8Experts, Int8Linear, dequantize, quantize

_DENSE = 7 / 8  # share of non-zeros above which a bitmask saves nothing
_INT8_NAMES = {"integers": "scale", "up": "up_scale", "down": "down_scale"}  # of int8 modules, and their scales


def pack(model: nn.Module) -> dict[str, Tensor]:
    """Tensors of a model, smaller: int8 modules, and embeddings; the rest as it is.

    Tied tensors are stored once, under their first name.
    """
    packed: dict[str, Tensor] = {}
    seen: set[int] = set()
    modules = dict(model.named_modules())
    state = model.state_dict()
    for name, tensor in state.items():
        if tensor.data_ptr() in seen:
            continue
        seen.add(tensor.data_ptr())
        parent, _, leaf = name.rpartition(".")
        module = modules[parent]
        if isinstance(module, Int8Linear | Int8Experts) and leaf in (*_INT8_NAMES, *_INT8_NAMES.values()):
            if leaf in _INT8_NAMES:
                packed |= _pack(name, tensor, state[f"{parent}.{_INT8_NAMES[leaf]}"])
        elif isinstance(module, nn.Embedding):
            packed |= _pack(name, *quantize(tensor))
        else:
            packed[name] = tensor.contiguous()
    return packed


def unpack(stored: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """A state dict for ``model``, whose int8 modules stand already; inverse of :func:`pack` but for the embeddings.

    Raises:
        KeyError: a part of a weight is missing.
        ValueError: parts of a weight do not fit together.
    """
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    modules = dict(model.named_modules())
    state: dict[str, Tensor] = {}
    for key, tensor in stored.items():
        name, _, form = key.partition("#")
        if form in ("scale", "mask"):
            continue
        if not form:
            state[name] = tensor
            continue
        if name not in shapes:
            raise ValueError(f"{name} is no weight of this model")
        parent, _, leaf = name.rpartition(".")
        scale = stored[f"{name}#scale"]
        integers = tensor if form == "integers" else _spread(tensor, stored[f"{name}#mask"], shapes[name])
        if isinstance(modules[parent], nn.Embedding):
            state[name] = dequantize(integers, scale)
        else:
            state[name], state[f"{parent}.{_INT8_NAMES[leaf]}"] = integers, scale
    return state


def int8_names(stored: Mapping[str, Tensor]) -> set[str]:
    """Names of the weights that are stored in int8."""
    return {key.partition("#")[0] for key in stored if "#" in key}


def _pack(name: str, integers: Tensor, scale: Tensor) -> dict[str, Tensor]:
    used = integers != 0
    if float(used.float().mean()) > _DENSE:
        return {f"{name}#integers": integers.contiguous(), f"{name}#scale": scale.contiguous()}
    mask = torch.from_numpy(np.packbits(used.flatten().numpy()))
    return {f"{name}#values": integers[used], f"{name}#mask": mask, f"{name}#scale": scale.contiguous()}


def _spread(values: Tensor, mask: Tensor, shape: torch.Size) -> Tensor:
    """Put values where the mask has a 1."""
    used = torch.from_numpy(np.unpackbits(mask.numpy(), count=shape.numel()).astype(np.bool_))
    if int(used.sum()) != len(values) or mask.numel() != (shape.numel() + 7) // 8:
        raise ValueError(f"a mask of {int(used.sum())} ones does not fit {len(values)} values of shape {tuple(shape)}")
    integers = torch.zeros(shape.numel(), dtype=torch.int8)
    integers[used] = values
    return integers.view(shape)
