"""Four levels of attention over what the encoder has read: concept, relation, reasoning, verification.

The levels keep their state in a few memory slots. *Concept*: learned queries read the input into the slots.
*Relation*: the slots attend to each other. *Reasoning*: one block with shared weights updates the slots, reading the
input anew at each step, until it halts. *Verification*: reads the conclusion against the input; where it finds it
invalid, the reasoning level runs once more. Every level can be turned off.

Recurrence with a learned halt follows Graves 2016 (adaptive computation) and Dehghani et al. 2019 (universal
transformers); a few slots in place of all positions follow Jaegle et al. 2021 (Perceiver). Each reasoning step is
supervised, and each is told what the step before it concluded.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dualmind.models.config import ReasonerConfig
from dualmind.models.layers import CrossAttention, FeedForward, attend, hide


@dataclass(frozen=True, slots=True)
class Thought:
    """What the levels made of B inputs of L words. T reasoning steps were run, K slots are kept.

    Attributes:
        memory: encoder states and slots, for the decoder to read (B, L + K, D).
        mask: 1 for what may be read (B, L + K).
        conclusions: logits over words of what each step concludes (B, T, vocab_size).
        halts: logits that the answer has been reached, at each step (B, T).
        validity: logit that the last conclusion is valid (B,), or None without the verification level.
        steps: reasoning steps that each input took (B,).
    """

    memory: Tensor
    mask: Tensor
    conclusions: Tensor
    halts: Tensor
    validity: Tensor | None
    steps: Tensor


class SlotAttention(nn.Module):
    """Slots attend to each other; they have no order, so there are no positions."""

    def __init__(self, config: ReasonerConfig) -> None:
        super().__init__()
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model, bias=False)
        self.out = nn.Linear(config.d_model, config.d_model, bias=False)
        self.heads = config.num_heads

    def forward(self, x: Tensor) -> Tensor:
        """Mix slots: (B, K, D) to (B, K, D)."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # each (B, H, K, d)
        return self.out(attend(q, k, v, None))


class SlotBlock(nn.Module):
    """Slots read the input, attend to each other (or not) and are transformed."""

    def __init__(self, config: ReasonerConfig, *, read: bool, mix: bool) -> None:
        super().__init__()
        self.read = CrossAttention(config, 0) if read else None
        self.mix = SlotAttention(config) if mix else None
        self.feed_forward = FeedForward(config)
        self.norm_read, self.norm_mix = nn.RMSNorm(config.d_model, 1e-6), nn.RMSNorm(config.d_model, 1e-6)
        self.norm_ff = nn.RMSNorm(config.d_model, 1e-6)

    def look_at(self, states: Tensor) -> tuple[Tensor, Tensor] | None:
        """Keys and values of the input (B, L, D): made once, however often the block runs; None if it reads nothing."""
        return None if self.read is None else self.read.keys_values(states)

    def forward(self, slots: Tensor, seen: tuple[Tensor, Tensor] | None, bias: Tensor) -> Tensor:
        """Slots (B, K, D), what :meth:`look_at` gave, bias (B, 1, 1, L) to (B, K, D)."""
        if self.read is not None:
            assert seen is not None
            slots = slots + self.read.read(self.norm_read(slots), *seen, bias)
        if self.mix is not None:
            slots = slots + self.mix(self.norm_mix(slots))
        return slots + self.feed_forward(self.norm_ff(slots))


class Levels(nn.Module):
    """The four levels.

    Args:
        config: sizes, and which levels are on.
        embedding: of words, shared with the encoder, by which conclusions are read out and fed back.
    """

    def __init__(self, config: ReasonerConfig, embedding: nn.Embedding) -> None:
        super().__init__()
        self.config = config
        self._embedding = [embedding]  # in a list, so that the shared weights are registered once, in the encoder
        self.slots = nn.Parameter(torch.empty(config.num_slots, config.d_model))
        self.concept = SlotBlock(config, read=True, mix=False) if config.concept else None
        self.relation = SlotBlock(config, read=False, mix=True) if config.relation else None
        self.reasoning = SlotBlock(config, read=True, mix=True) if config.reasoning else None
        self.verification = SlotBlock(config, read=True, mix=False) if config.verification else None
        self.norm = nn.RMSNorm(config.d_model, 1e-6)
        self.halt = nn.Linear(config.d_model, 1)
        self.valid = nn.Linear(config.d_model, 1)

    def forward(self, states: Tensor, mask: Tensor, max_steps: int, *, early_stop: bool) -> Thought:
        """Think about what was read.

        Args:
            states: the encoder's output (B, L, D).
            mask: 1 for words (B, L).
            max_steps: reasoning steps at most, in 0..7.
            early_stop: stop where the halting head says so and check the conclusion; else run all steps, to train.
        """
        bias = hide(mask, states.dtype)
        slots = self.slots.to(states.dtype).expand(len(states), -1, -1)  # (B, K, D)
        for level in (self.concept, self.relation):
            if level is not None:
                slots = level(slots, level.look_at(states), bias)
        run = self._reason(slots, states, bias, max_steps, early_stop)
        validity = self._verify(run[0], run[1], states, bias)
        if early_stop and validity is not None and self.reasoning is not None and max_steps:
            again = validity < self.config.validity_cutoff
            if bool(again.any()):  # sent back once: the level goes on from its own conclusion
                run = self._join(run, self._reason(run[0], states, bias, max_steps, early_stop), again)
                validity = self._verify(run[0], run[1], states, bias)
        slots, conclusions, halts, steps = run
        memory = torch.cat((states, slots), 1)
        ones = mask.new_ones(len(mask), slots.shape[1])
        return Thought(memory, torch.cat((mask, ones), 1), conclusions, halts, validity, steps)

    def conclude(self, slots: Tensor) -> Tensor:
        """Logits over words from the first slot: (B, K, D) to (B, vocab_size)."""
        return self.norm(slots[:, 0]) @ self._embedding[0].weight.T.to(slots.dtype)

    def _reason(
        self, slots: Tensor, states: Tensor, bias: Tensor, max_steps: int, early_stop: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Slots, conclusions (B, T, V), halts (B, T) and steps (B,) of one run of the reasoning level."""
        seen = None if self.reasoning is None else self.reasoning.look_at(states)
        conclusions: list[Tensor] = []
        halts: list[Tensor] = []
        active = torch.ones(len(slots), dtype=torch.bool, device=slots.device)
        steps = torch.zeros(len(slots), dtype=torch.long, device=slots.device)
        for _ in range(max_steps if self.reasoning is not None else 0):
            new = self.reasoning(slots, seen, bias)  # type: ignore[misc]  # the range is empty where it is None
            said = self.conclude(new)  # (B, V)
            if conclusions:  # what has halted says what it said
                said = torch.where(active[:, None], said, conclusions[-1])
            word = self._embedding[0].weight.to(new.dtype)[said.argmax(-1)]  # (B, D), fed back without a gradient
            new = torch.cat((new[:, :1] + word.detach()[:, None], new[:, 1:]), 1)
            slots = torch.where(active[:, None, None], new, slots)
            steps = steps + active
            conclusions.append(said)
            halts.append(self.halt(self.norm(slots[:, 0])).squeeze(-1))  # of what has halted: as before
            if early_stop:
                active = active & (halts[-1] < 0)
                if not bool(active.any()):
                    break
        if not conclusions:
            said = self.conclude(slots)
            return slots, said[:, None], self.halt(self.norm(slots[:, 0])), steps
        return slots, torch.stack(conclusions, 1), torch.stack(halts, 1), steps

    def _verify(self, slots: Tensor, conclusions: Tensor, states: Tensor, bias: Tensor) -> Tensor | None:
        """Logit of validity (B,): the last conclusion's word, read against the input."""
        if self.verification is None:
            return None
        word = self._embedding[0].weight.to(slots.dtype)[conclusions[:, -1].argmax(-1)]  # (B, D)
        query = (slots[:, 0] + word).detach()[:, None]  # (B, 1, D); judging must not change what is judged
        return self.valid(self.norm(self.verification(query, self.verification.look_at(states), bias)[:, 0])).squeeze(
            -1
        )

    @staticmethod
    def _join(
        first: tuple[Tensor, Tensor, Tensor, Tensor], second: tuple[Tensor, Tensor, Tensor, Tensor], again: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The second run where ``again`` holds, else the first; runs of fewer steps repeat their last conclusion."""
        longest = max(first[1].shape[1], second[1].shape[1])

        def stretch(x: Tensor) -> Tensor:
            return torch.cat((x, x[:, -1:].expand(-1, longest - x.shape[1], *x.shape[2:])), 1)

        slots = torch.where(again[:, None, None], second[0], first[0])
        conclusions = torch.where(again[:, None, None], stretch(second[1]), stretch(first[1]))
        halts = torch.where(again[:, None], stretch(second[2]), stretch(first[2]))
        return slots, conclusions, halts, first[3] + second[3] * again
