"""A mixture of experts in place of a feed-forward layer (Switch, Fedus et al. 2022): a position goes to one expert."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_FEW = 8  # positions for which weights are gathered


@dataclass(frozen=True, slots=True)
class Routing:
    """Where the positions of one pass went, of E experts."""

    share: Tensor  # (E,), share of positions that each expert took
    probability: Tensor  # (E,), mean probability that the router gave each expert

    @property
    def imbalance(self) -> Tensor:
        """Load-balancing loss (Fedus et al. 2022, Eq. 4): 1 where all experts are used alike, E where one does all."""
        return len(self.share) * (self.share * self.probability).sum()


class MixtureOfExperts(nn.Module):
    """Top-1 mixture of experts with squared ReLU.

    Args:
        d_model: width of the residual stream.
        d_ff: width of one expert.
        num_experts: E, >= 2.
    """

    def __init__(self, d_model: int, d_ff: int, num_experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(d_model, num_experts, bias=False)
        self.up = nn.Parameter(torch.empty(num_experts, d_ff, d_model))
        self.down = nn.Parameter(torch.empty(num_experts, d_model, d_ff))
        self.routing: Routing | None = None  # of the last pass while training

    def forward(self, x: Tensor) -> Tensor:
        """Transform each position by its expert, weighted by the router's probability: (..., D) to (..., D)."""
        flat = x.reshape(-1, x.shape[-1])  # (N, D)
        probability = self.router(flat.float()).softmax(-1)  # (N, E), in float32 as Switch does
        best, chosen = probability.max(-1)  # (N,), (N,)
        if self.training:
            share = F.one_hot(chosen, probability.shape[1]).float().mean(0)
            self.routing = Routing(share, probability.mean(0))
        if len(flat) <= _FEW:  # words that are written one by one: two products in place of a search for each expert
            hidden = F.relu(torch.bmm(self.up[chosen].to(x.dtype), flat[:, :, None])).square()  # (N, F, 1)
            value = torch.bmm(self.down[chosen].to(x.dtype), hidden).squeeze(-1) * best[:, None].to(x.dtype)
            return value.view_as(x)
        out = torch.zeros_like(flat)
        for expert in range(probability.shape[1]):
            rows = (chosen == expert).nonzero().squeeze(-1)  # (n,)
            if len(rows):
                up, down = self.matrices(expert, x.dtype)
                hidden = F.relu(F.linear(flat[rows], up)).square()
                value = F.linear(hidden, down) * best[rows, None].to(x.dtype)
                out = out.index_add(0, rows, value.to(out.dtype))
        return out.view_as(x)

    def matrices(self, expert: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Both matrices of one expert (F, D) and (D, F)."""
        return self.up[expert].to(dtype), self.down[expert].to(dtype)


def routings(model: nn.Module) -> list[Routing]:
    """Routings of the last training pass, one a mixture."""
    return [m.routing for m in model.modules() if isinstance(m, MixtureOfExperts) and m.routing is not None]
