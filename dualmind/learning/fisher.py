"""The diagonal of the Fisher information, from the gradients of single examples.

The mean of the squared gradients of single examples is wanted. The square of a batch's mean gradient, which is often
taken in its place, falls with the batch size and is another quantity (Kunstner et al. 2019; van de Ven 2025).
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from dualmind.errors import ConsolidationError
from dualmind.learning.stream import Task
from dualmind.learning.writing import IGNORED
from dualmind.storage import atomic_path

Mode = Literal["exact", "sampled", "empirical"]
_KEY = "fisher"  # one header entry only: the order of several changes from run to run, and with it the bytes


class FisherMeta(BaseModel):
    """What a Fisher information was made of, and whose it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Mode
    num_examples: int
    weights: str  # MD5 of the model's parameters (see weights_digest)


@dataclass(frozen=True, slots=True)
class Fisher:
    """A diagonal Fisher information in float32, one tensor a parameter."""

    meta: FisherMeta
    values: dict[str, Tensor]

    def save(self, path: Path) -> None:
        """Write it, atomically.

        Raises:
            StorageError: the file cannot be written; what was there is unchanged.
        """
        with atomic_path(path) as temporary:
            save_file(self.values, temporary, metadata={_KEY: json.dumps(self.meta.model_dump(), sort_keys=True)})

    @classmethod
    def load(cls, path: Path, module: nn.Module) -> "Fisher":
        """Read the Fisher information of a model.

        Raises:
            ConsolidationError: it is missing or damaged, or belongs to another model.
        """
        try:
            with safe_open(path, "pt") as file:
                meta = FisherMeta.model_validate_json((file.metadata() or {}).get(_KEY, ""))
                values = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # no mapping
        except (OSError, SafetensorError, ValidationError) as error:
            raise ConsolidationError(
                f"{path} is no Fisher information ({str(error)[:300]}); make it again from the model and its data"
            ) from error
        found = cls(meta, values)
        found.check(module)
        return found

    def check(self, module: nn.Module) -> None:
        """Does it belong to this model as it is now?

        Raises:
            ConsolidationError: it does not.
        """
        shapes = {name: p.shape for name, p in trained(module).items()}
        if {name: value.shape for name, value in self.values.items()} != shapes:
            raise ConsolidationError(
                f"a Fisher information of {len(self.values)} tensors does not fit a model of {len(shapes)}: names or "
                "shapes differ; compute it from this model"
            )
        if (own := weights_digest(module)) != self.meta.weights:
            raise ConsolidationError(
                f"this Fisher information belongs to weights {self.meta.weights}, not to {own}; "
                "compute it from this model after its training"
            )


def trained(module: nn.Module) -> dict[str, nn.Parameter]:
    """Parameters that are trained, by name; shared ones once."""
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


def weights_digest(module: nn.Module) -> str:
    """MD5 over names and bytes of the trained parameters."""
    digest = hashlib.md5(usedforsecurity=False)
    for name, parameter in trained(module).items():
        digest.update(name.encode())
        digest.update(parameter.detach().cpu().float().contiguous().numpy().tobytes())
    return digest.hexdigest()


def diagonal_fisher(
    task: Task,
    mode: Mode,
    *,
    batch_size: int,
    generator: torch.Generator,
    num_examples: int | None = None,
    vectorized: bool = True,
) -> Fisher:
    """Mean over examples x of E[(d log p(y | x) / d theta)^2] for each parameter.

    ``exact`` takes the expectation over the model's own distribution of y (Martens 2020, Eq. 5, its diagonal); its
    price is one gradient a class. ``sampled`` draws one y an example from it; ``empirical`` takes the example's label,
    which is no Fisher information but is often used as one. For texts, words are drawn given the text before them, so
    that ``sampled`` and ``exact`` agree in expectation: gradients of different positions are uncorrelated.

    Args:
        task: model and examples; the model is put in evaluation mode while this runs.
        mode: see above.
        batch_size: examples whose gradients are held at a time; changes nothing but memory and speed.
        generator: draws the examples, where fewer than all are wanted, and the outcomes.
        num_examples: examples at most; None for all.
        vectorized: compute the gradients of a batch at once; not possible where a model's path depends on the data
            (mixtures of experts, halting).
    """
    chosen = torch.randperm(len(task), generator=generator)[:num_examples].sort().values
    luck = torch.rand(len(chosen), *task.labels.shape[1:], generator=generator, dtype=torch.float64)
    parameters = {name: p.detach() for name, p in trained(task.module).items()}
    total = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in parameters.items()}
    gradients = _gradients(task.module, parameters, vectorized)
    training = task.module.training
    task.module.eval()
    for rows in torch.arange(len(chosen)).split(batch_size):
        inputs, labels = tuple(x[chosen[rows]] for x in task.inputs), task.labels[chosen[rows]]
        for outcome, weight in _outcomes(task.module, inputs, labels, luck[rows], mode):
            for name, own in gradients(inputs, outcome).items():  # (B, ...)
                scale = weight.reshape(-1, *[1] * (own.ndim - 1))
                total[name] += (own.double().square() * scale).sum(0)
    task.module.train(training)
    meta = FisherMeta(mode=mode, num_examples=len(chosen), weights=weights_digest(task.module))
    return Fisher(meta, {name: (value / len(chosen)).float() for name, value in total.items()})


def _gradients(
    module: nn.Module, parameters: Mapping[str, Tensor], vectorized: bool
) -> Callable[[tuple[Tensor, ...], Tensor], dict[str, Tensor]]:
    """A function that gives the gradient of each example's log-likelihood, (B, ...) by name."""

    def log_likelihood(values: Mapping[str, Tensor], inputs: tuple[Tensor, ...], labels: Tensor) -> Tensor:
        logits = functional_call(module, dict(values), tuple(x[None] for x in inputs))[0]  # (C,) or (T, V)
        said = logits.float().log_softmax(-1).gather(-1, labels.clamp_min(0)[..., None]).squeeze(-1)
        return torch.where(labels == IGNORED, 0.0, said).sum()

    single: Any = grad(log_likelihood)
    if vectorized:
        together = vmap(single, in_dims=(None, 0, 0))
        return lambda inputs, labels: together(parameters, inputs, labels)

    def one_by_one(inputs: tuple[Tensor, ...], labels: Tensor) -> dict[str, Tensor]:
        found = [single(parameters, tuple(x[i] for x in inputs), labels[i]) for i in range(len(labels))]
        return {name: torch.stack([own[name] for own in found]) for name in parameters}

    return one_by_one


@torch.no_grad()
def _outcomes(
    module: nn.Module, inputs: tuple[Tensor, ...], labels: Tensor, luck: Tensor, mode: Mode
) -> Iterator[tuple[Tensor, Tensor]]:
    """Outcomes y (B,) or (B, T), and the weight of each example's squared gradient (B,)."""
    if mode == "empirical":
        yield labels, torch.ones(len(labels), dtype=torch.float64)
        return
    probabilities = module(*inputs).double().softmax(-1)  # (B, C) or (B, T, V)
    if mode == "sampled":
        drawn = (probabilities.cumsum(-1) < luck[..., None]).sum(-1).clamp_max(probabilities.shape[-1] - 1)
        yield drawn.masked_fill(labels == IGNORED, IGNORED), torch.ones(len(labels), dtype=torch.float64)
        return
    if labels.ndim == 1:
        for c in range(probabilities.shape[1]):
            yield torch.full_like(labels, c), probabilities[:, c]
        return
    for t in range(labels.shape[1]):
        for word in range(probabilities.shape[2]):
            outcome = torch.full_like(labels, IGNORED)
            outcome[:, t] = word
            yield outcome, probabilities[:, t, word] * (labels[:, t] != IGNORED)
