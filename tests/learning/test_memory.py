import pytest
import torch
from torch import nn

from dualmind.learning.batching import TokenizedDecisions
from dualmind.learning.cloning import Lessons, clone
from dualmind.learning.learner import Learner
from dualmind.learning.memory import Int8Adapted, MemoryParams, saving_memory
from dualmind.learning.writing import TokenizedTexts
from dualmind.models.int8 import Int8Linear
from dualmind.models.system1 import System1
from dualmind.models.system2 import System2
from tests.learning.demonstrations import demonstrations, small_system1
from tests.learning.test_cloning import PARAMS
from tests.models.test_compression import small_system2

CHECKPOINTING = MemoryParams(gradient_checkpointing=True, base="float32", adapter_rank=4)
ADAPTERS = MemoryParams(gradient_checkpointing=True, base="int8", adapter_rank=4)


def gradients(system: System1 | System2) -> dict[str, torch.Tensor]:
    rows = demonstrations()[:6]
    scoring, chosen = TokenizedDecisions.of(rows, system).batch(range(6))
    writing = TokenizedTexts.of([r.prompt for r in rows], [r.rationale for r in rows], system.tokenizer).batch(range(6))
    learner = Learner(system, PARAMS.weights).train()
    learner(scoring, chosen, writing)["loss"].backward()
    return {n: p.grad.clone() for n, p in system.model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("build", [small_system1, small_system2])
def test_gradients_with_checkpointing_are_those_without(build: object) -> None:
    assert callable(build)
    plain, saving = build(), build()
    want = gradients(plain)
    with saving_memory(saving.model, CHECKPOINTING, seed=0):
        found = gradients(saving)
    assert found.keys() == want.keys()
    for name, value in want.items():
        torch.testing.assert_close(found[name], value)


def saved_bytes(system: System1, params: MemoryParams | None) -> int:
    """Bytes that the forward pass keeps for the way back."""
    seen: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        seen[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    scoring, chosen = TokenizedDecisions.of(demonstrations()[:16], system).batch(range(16))
    learner = Learner(system, PARAMS.weights).train()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        if params is None:
            learner(scoring, chosen, None)
        else:
            with saving_memory(system.model, params, seed=0):
                learner(scoring, chosen, None)
    return sum(seen.values())


def test_checkpointing_keeps_less_for_the_way_back() -> None:
    assert saved_bytes(small_system1(), CHECKPOINTING) < 0.6 * saved_bytes(small_system1(), None)


def test_an_adapted_layer_starts_as_its_int8_layer_and_merges_into_a_plain_one() -> None:
    linear = nn.Linear(8, 6)
    adapted = Int8Adapted(linear, 2, torch.Generator().manual_seed(0))
    x = torch.randn(3, 8)
    torch.testing.assert_close(adapted(x), Int8Linear.of(linear)(x))
    nn.init.normal_(adapted.up)
    torch.testing.assert_close(adapted.merged()(x), adapted(x))


@pytest.mark.parametrize("build", [small_system1, small_system2])
def test_adapters_learn_and_leave_a_plain_model(build: object) -> None:
    assert callable(build)
    system = build()
    shapes = {n: p.shape for n, p in system.model.named_parameters()}
    decisions = TokenizedDecisions.of(demonstrations(), system)
    with saving_memory(system.model, ADAPTERS, seed=0) as model:
        layers = [m for m in model.modules() if isinstance(m, Int8Adapted)]
        before = layers[0].integers.clone()
        report = clone(system, Lessons(decisions, None), PARAMS.model_copy(update={"steps": 40}), seed=0)
        assert torch.equal(layers[0].integers, before)
        assert layers[0].integers.grad is None
        assert bool(layers[0].up.any())
    assert report.curve[-1]["score"] < 0.9 * report.curve[0]["score"]
    assert {n: p.shape for n, p in system.model.named_parameters()} == shapes
    assert "forward" not in system.model.encoder.layers[0].__dict__
    gradients(system)  # it can be trained further


def test_the_trained_numbers_are_few() -> None:
    system = small_system1()
    everything = sum(p.numel() for p in system.model.parameters())
    embedding = system.model.get_input_embeddings().weight.numel()
    with saving_memory(system.model, ADAPTERS, seed=0):
        trained = sum(p.numel() for p in system.model.parameters() if p.requires_grad)
    assert trained - embedding < 0.4 * (everything - embedding)
