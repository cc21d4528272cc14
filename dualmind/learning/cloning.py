"""Behaviour cloning: cross-entropy of the expert's command among the admissible ones (Pomerleau 1991)."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from accelerate import Accelerator
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor
from torch.nn import functional as F

from dualmind.errors import ParamsError
from dualmind.learning.augment import Renaming
from dualmind.learning.batching import TokenizedDecisions, batches
from dualmind.learning.optim import build_optimizers, learning_rate
from dualmind.models.system1 import System1
from dualmind.progress import Progress

_EVERY = 10  # steps between points of the learning curve


class CloningParams(BaseModel):
    """How a policy is cloned."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: PositiveInt  # optimiser steps; never a time, or runs would not be reproducible
    batch_size: PositiveInt  # decisions a step, over all processes together
    optimizer: Literal["muon", "adamw"]
    muon_lr: PositiveFloat  # peak rate for hidden matrices
    adamw_lr: PositiveFloat  # peak rate for the rest
    warmup_steps: NonNegativeInt
    final_lr_fraction: Annotated[float, Field(ge=0, le=1)]  # of the peak, at the last step
    gradient_clip: PositiveFloat  # largest norm of the gradient
    rename_probability: Annotated[float, Field(ge=0, le=1)]  # share of decisions whose object words are permuted
    precision: Literal["fp32", "bf16"]  # measured: bf16 makes small models slower on a CPU


@dataclass(frozen=True, slots=True)
class CloningReport:
    """What training did."""

    curve: list[tuple[int, float]]  # (step, mean loss over the last steps), nats
    valid_loss: float
    valid_accuracy: float  # share of validation decisions in which the best command is the expert's


def clone(
    system1: System1,
    train: TokenizedDecisions,
    valid: TokenizedDecisions,
    params: CloningParams,
    *,
    renameable: frozenset[int],
    seed: int,
) -> CloningReport:
    """Train ``system1`` in place on an expert's decisions.

    Runs as it is on one process, on several (``accelerate launch``) or on a GPU: every process draws the same global
    batch and takes its own part of it, and gradients are averaged.

    Args:
        system1: the policy.
        train: what it learns from.
        valid: what it is measured on, at the end.
        params: how.
        renameable: token ids that may change places (see :class:`~dualmind.learning.augment.Renaming`).
        seed: of order and renaming.
    """
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    rank, world = accelerator.process_index, accelerator.num_processes
    if min(params.batch_size, len(train)) % world:
        raise ParamsError(
            f"batches of {min(params.batch_size, len(train))} decisions cannot be shared equally by {world} processes; "
            "choose a cloning.batch_size that is a multiple, or another number of processes"
        )
    order, names = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    renaming = Renaming(renameable, len(system1.tokenizer), params.rename_probability, names)
    optimizers = build_optimizers(system1.model, params.optimizer, muon_lr=params.muon_lr, adamw_lr=params.adamw_lr)
    peaks = [optimizer.param_groups[0]["lr"] for optimizer in optimizers]
    with torch.random.fork_rng():  # published checkpoints drop out by the global generator
        torch.manual_seed(seed * world + rank)
        scorer = accelerator.prepare(system1.scorer.train())
        lengths = [len(prompt) for prompt in train.prompts]
        progress = Progress("cloning", params.steps)
        curve: list[tuple[int, float]] = []
        recent: list[Tensor] = []
        for step, indices in enumerate(batches(lengths, params.batch_size, params.steps, order)):
            rate = learning_rate(step, params.steps, params.warmup_steps, params.final_lr_fraction)
            for optimizer, peak in zip(optimizers, peaks, strict=True):
                optimizer.param_groups[0]["lr"] = peak * rate
            tables = renaming.draw(len(indices))
            batch, chosen = train.batch(indices[rank::world].tolist(), tables[rank::world])
            with torch.autocast(accelerator.device.type, torch.bfloat16, enabled=params.precision == "bf16"):
                loss = F.cross_entropy(scorer(batch.to(accelerator.device)), chosen.to(accelerator.device))
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(scorer.parameters(), params.gradient_clip)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            recent.append(loss.detach())
            if (step + 1) % _EVERY == 0 or step + 1 == params.steps:
                curve.append((step + 1, float(torch.stack(recent).mean())))
                recent.clear()
                if accelerator.is_main_process:
                    progress.update(step + 1, f"loss {curve[-1][1]:.3f}")
    system1.scorer.eval()
    return CloningReport(curve, *judge(system1, valid))


@torch.inference_mode()
def judge(system1: System1, decisions: TokenizedDecisions, batch_size: int = 256) -> tuple[float, float]:
    """Mean loss in nats, and accuracy of the best command, over decisions."""
    losses, hits = [], 0
    order = np.argsort([len(prompt) for prompt in decisions.prompts], kind="stable")
    for start in range(0, len(order), batch_size):
        batch, chosen = decisions.batch(order[start : start + batch_size].tolist())
        logits = system1.scorer(batch.to(system1.model.device)).cpu()
        losses.append(F.cross_entropy(logits, chosen, reduction="sum"))
        hits += int((logits.argmax(-1) == chosen).sum())
    return float(torch.stack(losses).sum()) / len(order), hits / len(order)
