"""All losses of a system in one forward pass, so that several processes average their gradients in one place."""

import torch
from pydantic import BaseModel, ConfigDict, NonNegativeFloat
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.modeling_outputs import BaseModelOutput

from dualmind.learning.writing import IGNORED, WritingBatch, thought_losses
from dualmind.models.encoder_decoder import CompactForConditionalGeneration
from dualmind.models.experts import routings
from dualmind.models.reasoner import ReasonerForConditionalGeneration
from dualmind.models.scoring import ScoringBatch
from dualmind.models.text_model import TextModel


class LossWeights(BaseModel):
    """Weights of the losses beside the two that are cloned; they count only where the model has such parts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    balance: NonNegativeFloat  # of the experts' load
    step: NonNegativeFloat  # each reasoning step's conclusion
    halt: NonNegativeFloat  # when the answer has been reached
    verify: NonNegativeFloat  # whether the conclusion is right


class Learner(nn.Module):
    """A system's losses: ``score`` and ``write`` in nats, those of its levels and experts, and their weighted sum."""

    def __init__(self, system: TextModel, weights: LossWeights) -> None:
        super().__init__()
        self.scorer, self.weights = system.scorer, weights

    def forward(
        self, scoring: ScoringBatch | None, chosen: Tensor | None, writing: WritingBatch | None
    ) -> dict[str, Tensor]:
        """Losses by name; ``loss`` is the sum to be minimised.

        Args:
            scoring: prompts with commands, or None.
            chosen: the expert's command of each (B,).
            writing: prompts with texts, or None.
        """
        losses: dict[str, Tensor] = {}
        if scoring is not None:
            assert chosen is not None
            losses["score"] = F.cross_entropy(self.scorer(scoring), chosen)
        if writing is not None:
            losses |= self._write(writing)
        if found := routings(self.scorer):
            losses["balance"] = torch.stack([routing.imbalance for routing in found]).mean()
        weights = self.weights.model_dump()
        losses["loss"] = torch.stack([loss * weights.get(name, 1.0) for name, loss in losses.items()]).sum()
        return losses

    def _write(self, batch: WritingBatch) -> dict[str, Tensor]:
        model = self.scorer.model
        if isinstance(model, CompactForConditionalGeneration):
            return _write_with_ours(model, batch)
        if model.config.is_encoder_decoder:
            out = model(input_ids=batch.prompt_ids, attention_mask=batch.prompt_mask, labels=batch.labels)
            return {"write": out.loss}
        return {"write": _continue(model, batch)}


def _write_with_ours(model: CompactForConditionalGeneration, batch: WritingBatch) -> dict[str, Tensor]:
    losses: dict[str, Tensor] = {}
    thought = None
    if isinstance(model, ReasonerForConditionalGeneration):
        thought = model.encoder.think(batch.prompt_ids, batch.prompt_mask, early_stop=False)
    if thought is None:
        memory = model.encoder(batch.prompt_ids, batch.prompt_mask)[0]
    else:
        memory, losses = thought.memory, thought_losses(thought, batch)
    out = model(
        encoder_outputs=BaseModelOutput(last_hidden_state=memory),
        attention_mask=batch.prompt_mask,
        labels=batch.labels,
    )
    return {"write": out.loss, **losses}


def _continue(model: nn.Module, batch: WritingBatch) -> Tensor:
    """Cross-entropy of the text after its prompt, for a decoder that reads both as one sequence."""
    text = batch.labels.clamp_min(0)  # (B, T)
    ids = torch.cat((batch.prompt_ids, text), 1)  # (B, L + T)
    mask = torch.cat((batch.prompt_mask, (batch.labels != IGNORED).long()), 1)
    positions = (mask.cumsum(1) - 1).clamp_min(0)  # padding between prompt and text takes no position
    logits = model(input_ids=ids, attention_mask=mask, position_ids=positions).logits
    start = batch.prompt_ids.shape[1]
    last = batch.prompt_mask.sum(1) - 1  # (B,), where the prompt's last word stands
    first = logits[torch.arange(len(ids)), last][:, None]  # (B, 1, V), says the text's first word
    said = torch.cat((first, logits[:, start:-1]), 1)  # (B, T, V)
    return F.cross_entropy(said.flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORED)
