"""Attention and feed-forward layers: plain attention, which on a CPU is thrice as fast as the fused kernel here."""

import math
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.cache_utils import EncoderDecoderCache

from dualmind.models.config import CompactConfig
from dualmind.models.experts import MixtureOfExperts


def rotate(x: Tensor, offset: int, base: float) -> Tensor:
    """Rotary positions (Su et al. 2021, Eq. 34).

    Args:
        x: queries or keys (B, H, L, d).
        offset: position of the first of the L.
        base: base of the angles.
    """
    half, end = x.shape[-1] // 2, offset + x.shape[-2]
    cos, sin = _angles(half, base, 64 * math.ceil(end / 64), x.device, x.dtype)
    cos, sin = cos[offset:end], sin[offset:end]  # (L, d/2)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


@lru_cache(maxsize=64)
def _angles(half: int, base: float, length: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the first positions (length, half), computed in float32.

    No buffers of a module: those that are not saved are garbage after ``from_pretrained``.
    """
    with torch.inference_mode(mode=False):  # they may be made while answering and used while training
        frequency = base ** (-torch.arange(half, device=device, dtype=torch.float32) / half)  # (d/2,)
        angle = torch.arange(length, device=device, dtype=torch.float32)[:, None] * frequency  # (length, d/2)
        return angle.cos().to(dtype), angle.sin().to(dtype)


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """Scaled dot-product attention (Vaswani et al. 2017, Eq. 1), heads merged at the end.

    Args:
        q: (B, H, Q, d).
        k: (B, H, K, d).
        v: (B, H, K, d).
        bias: added to the scores, broadcast to (B, H, Q, K); a large negative number hides a key.

    Returns:
        (B, Q, H * d).
    """
    scores = (q * (1 / math.sqrt(q.shape[-1]))) @ k.transpose(-1, -2)  # (B, H, Q, K)
    if bias is not None:
        scores = scores + bias
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def hide(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Bias that hides what ``mask`` marks with 0: (B, K) to (B, 1, 1, K)."""
    return (1.0 - mask[:, None, None, :].to(dtype)) * torch.finfo(dtype).min


def cover(mask: Tensor, states: Tensor) -> Tensor:
    """A mask (B, L) as long as the states (B, L + K, D): memory that follows the prompt may always be read."""
    return F.pad(mask, (0, states.shape[1] - mask.shape[1]), value=1)


class SelfAttention(nn.Module):
    """Self-attention with rotary positions."""

    def __init__(self, config: CompactConfig, layer: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model, bias=False)
        self.out = nn.Linear(config.d_model, config.d_model, bias=False)
        self.heads, self.base, self.layer = config.num_heads, config.rope_base, layer

    def forward(self, x: Tensor, bias: Tensor | None, cache: EncoderDecoderCache | None = None) -> Tensor:
        """Mix positions: (B, L, D) to (B, L, D)."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # each (B, H, L, d)
        offset = cache.get_seq_length(self.layer) if cache is not None else 0
        q, k = rotate(q, offset, self.base), rotate(k, offset, self.base)
        if cache is not None:
            k, v = cache.self_attention_cache.update(k, v, self.layer)
        return self.out(attend(q, k, v, bias))

    def step(self, x: Tensor, keys: Tensor, values: Tensor, position: int) -> Tensor:
        """One more position of sequences: x (B, 1, D); keys and values (B, H, T, d) are written at ``position``."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # each (B, H, 1, d)
        keys[:, :, position] = rotate(k, position, self.base)[:, :, 0]
        values[:, :, position] = v[:, :, 0]
        upto = position + 1
        return self.out(attend(rotate(q, position, self.base), keys[:, :, :upto], values[:, :, :upto], None))

    def alone(self, x: Tensor) -> Tensor:
        """What :meth:`forward` gives for sequences of one position, in one pass: (..., D) to (..., D)."""
        value = F.linear(x, self.qkv.weight[2 * x.shape[-1] :])
        return self.out(value)


class CrossAttention(nn.Module):
    """Attention from the decoder to the encoder's states."""

    def __init__(self, config: CompactConfig, layer: int) -> None:
        super().__init__()
        self.q = nn.Linear(config.d_model, config.d_model, bias=False)
        self.kv = nn.Linear(config.d_model, 2 * config.d_model, bias=False)
        self.out = nn.Linear(config.d_model, config.d_model, bias=False)
        self.heads, self.layer = config.num_heads, layer

    def forward(
        self, x: Tensor, states: Tensor, bias: Tensor | None, cache: EncoderDecoderCache | None = None
    ) -> Tensor:
        """Read the prompt: x (B, Q, D), states (B, L, D) to (B, Q, D)."""
        if cache is not None and cache.is_updated.get(self.layer):
            stored = cache.cross_attention_cache.layers[self.layer]
            k, v = stored.keys, stored.values
        else:
            k, v = self.keys_values(states)
            if cache is not None:
                k, v = cache.cross_attention_cache.update(k, v, self.layer)
                cache.is_updated[self.layer] = True
        return self.read(x, k, v, bias)

    def keys_values(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """What queries read: states (B, L, D) to keys and values (B, H, L, d)."""
        k, v = self.kv(states).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return k, v

    def read(self, x: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
        """Read keys and values that were made before: (B, Q, D) to (B, Q, D)."""
        q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, H, Q, d)
        return self.out(attend(q, keys, values, bias))


class FeedForward(nn.Module):
    """Two layers with squared ReLU (So et al. 2021, Primer): as good as gated units, one matrix less."""

    def __init__(self, config: CompactConfig) -> None:
        super().__init__()
        self.up = nn.Linear(config.d_model, config.d_ff, bias=False)
        self.down = nn.Linear(config.d_ff, config.d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each position: (..., D) to (..., D)."""
        return self.down(F.relu(self.up(x)).square())


def feed_forward(config: CompactConfig, layer: int) -> nn.Module:
    """A mixture of experts in every second layer, if there are experts; else a plain feed-forward layer."""
    if config.num_experts and layer % 2 == 1:
        return MixtureOfExperts(config.d_model, config.d_ff, config.num_experts)
    return FeedForward(config)
