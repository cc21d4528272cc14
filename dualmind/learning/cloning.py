"""Behaviour cloning: cross-entropy of the expert's command among the admissible ones, and of the words it wrote.

(Pomerleau 1991.) One step takes decisions with commands and decisions in free text together, where there are both.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor
from torch.nn import functional as F

from dualmind.errors import ParamsError
from dualmind.learning.augment import Renaming
from dualmind.learning.batching import TokenizedDecisions, batches
from dualmind.learning.learner import Learner, LossWeights
from dualmind.learning.memory import MemoryParams, saving_memory
from dualmind.learning.optim import build_optimizers, learning_rate
from dualmind.learning.writing import TokenizedTexts
from dualmind.models.text_model import TextModel
from dualmind.progress import Progress

_EVERY = 10  # steps between points of the learning curve


class CloningParams(BaseModel):
    """How a policy is cloned."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: PositiveInt  # optimiser steps; never a time, or runs would not be reproducible
    batch_size: PositiveInt  # decisions with commands a step, over all processes together
    writing_batch_size: PositiveInt  # decisions in free text a step, over all processes together
    optimizer: Literal["muon", "adamw"]
    muon_lr: PositiveFloat  # peak rate for hidden matrices
    adamw_lr: PositiveFloat  # peak rate for the rest
    warmup_steps: NonNegativeInt
    final_lr_fraction: Annotated[float, Field(ge=0, le=1)]  # of the peak, at the last step
    gradient_clip: PositiveFloat  # largest norm of the gradient
    rename_probability: Annotated[float, Field(ge=0, le=1)]  # share of decisions whose object words are permuted
    precision: Literal["fp32", "bf16"]  # measured: bf16 makes small models slower on a CPU
    weights: LossWeights
    memory: MemoryParams


@dataclass(frozen=True, slots=True)
class Lessons:
    """What is to be learnt: decisions with commands, decisions in free text, or both."""

    scoring: TokenizedDecisions | None
    writing: TokenizedTexts | None
    renameable: frozenset[int] = frozenset()  # token ids that may change places in decisions with commands


@dataclass(frozen=True, slots=True)
class CloningReport:
    """What training did."""

    curve: list[dict[str, float]]  # step, and the mean of each loss over the last steps, nats


def clone(system: TextModel, lessons: Lessons, params: CloningParams, *, seed: int) -> CloningReport:
    """Train ``system`` in place on an expert's decisions.

    Runs as it is on one process, on several (``accelerate launch``) or on a GPU: every process draws the same global
    batch and takes its own part of it, and gradients are averaged.

    Args:
        system: the policy.
        lessons: what it learns from.
        params: how.
        seed: of order and renaming.

    Raises:
        ParamsError: a batch cannot be shared equally by the processes.
    """
    with saving_memory(system.model, params.memory, seed=seed):
        curve = _train(system, lessons, params, seed)
    system.scorer.eval()
    return CloningReport(curve)


def _train(system: TextModel, lessons: Lessons, params: CloningParams, seed: int) -> list[dict[str, float]]:
    """The steps; returns the learning curve."""
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    rank, world = accelerator.process_index, accelerator.num_processes
    batch_of = _Batches(lessons, params, len(system.tokenizer), seed, rank, world)
    optimizers = build_optimizers(system.model, params.optimizer, muon_lr=params.muon_lr, adamw_lr=params.adamw_lr)
    peaks = [optimizer.param_groups[0]["lr"] for optimizer in optimizers]
    progress = Progress("cloning", params.steps)
    curve: list[dict[str, float]] = []
    recent: list[dict[str, Tensor]] = []
    with torch.random.fork_rng():  # published checkpoints drop out by the global generator
        torch.manual_seed(seed * world + rank)
        learner = accelerator.prepare(Learner(system, params.weights).train())
        for step in range(params.steps):
            rate = learning_rate(step, params.steps, params.warmup_steps, params.final_lr_fraction)
            for optimizer, peak in zip(optimizers, peaks, strict=True):
                optimizer.param_groups[0]["lr"] = peak * rate
            with torch.autocast(accelerator.device.type, torch.bfloat16, enabled=params.precision == "bf16"):
                losses: dict[str, Tensor] = learner(*batch_of.next(accelerator.device))
            accelerator.backward(losses["loss"])
            accelerator.clip_grad_norm_(learner.parameters(), params.gradient_clip)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            recent.append({name: loss.detach() for name, loss in losses.items()})
            if (step + 1) % _EVERY == 0 or step + 1 == params.steps:
                curve.append({"step": step + 1, **_means(recent)})
                recent.clear()
                if accelerator.is_main_process:
                    progress.update(step + 1, f"loss {curve[-1]['loss']:.3f}")
    return curve


class _Batches:
    """This process's part of each step's batch."""

    def __init__(
        self, lessons: Lessons, params: CloningParams, vocab_size: int, seed: int, rank: int, world: int
    ) -> None:
        self._lessons, self._rank, self._world = lessons, rank, world
        names = np.random.default_rng([seed, 1])
        self._renaming = Renaming(lessons.renameable, vocab_size, params.rename_probability, names)
        self._scoring = self._writing = None
        if lessons.scoring is not None:
            lengths = [len(prompt) for prompt in lessons.scoring.prompts]
            self._scoring = self._order("batch_size", lengths, params.batch_size, params.steps, [seed, 0])
        if lessons.writing is not None:
            lengths = lessons.writing.lengths
            size = params.writing_batch_size
            self._writing = self._order("writing_batch_size", lengths, size, params.steps, [seed, 2])

    def _order(
        self, key: str, lengths: list[int], size: int, steps: int, seed: list[int]
    ) -> Iterator[NDArray[np.int64]]:
        if (own := min(size, len(lengths))) % self._world:
            raise ParamsError(
                f"batches of {own} decisions cannot be shared equally by {self._world} processes; "
                f"choose a cloning.{key} that is a multiple, or another number of processes"
            )
        return batches(lengths, size, steps, np.random.default_rng(seed))

    def next(self, device: torch.device) -> tuple[object, Tensor | None, object]:
        """Arguments of :meth:`dualmind.learning.learner.Learner.forward`."""
        scoring = chosen = writing = None
        if self._scoring is not None:
            assert self._lessons.scoring is not None
            indices = next(self._scoring)
            tables = self._renaming.draw(len(indices))
            own = slice(self._rank, None, self._world)
            scoring, chosen = self._lessons.scoring.batch(indices[own].tolist(), tables[own])
            scoring, chosen = scoring.to(device), chosen.to(device)
        if self._writing is not None:
            assert self._lessons.writing is not None
            writing = self._lessons.writing.batch(next(self._writing)[self._rank :: self._world].tolist()).to(device)
        return scoring, chosen, writing


def _means(recent: list[dict[str, Tensor]]) -> dict[str, float]:
    return {name: float(torch.stack([losses[name] for losses in recent]).mean()) for name in recent[0]}


@torch.inference_mode()
def judge(system: TextModel, decisions: TokenizedDecisions, batch_size: int = 256) -> tuple[float, float]:
    """Mean loss in nats, and accuracy of the best command, over decisions."""
    losses, hits = [], 0
    order = np.argsort([len(prompt) for prompt in decisions.prompts], kind="stable")
    for start in range(0, len(order), batch_size):
        batch, chosen = decisions.batch(order[start : start + batch_size].tolist())
        logits = system.scorer(batch.to(system.model.device)).cpu()
        losses.append(F.cross_entropy(logits, chosen, reduction="sum"))
        hits += int((logits.argmax(-1) == chosen).sum())
    return float(torch.stack(losses).sum()) / len(order), hits / len(order)
