import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from accelerate.state import AcceleratorState

from dualmind.learning.batching import TokenizedDecisions
from dualmind.learning.cloning import CloningParams, CloningReport, clone, command_loss
from dualmind.models.system1 import System1
from tests.learning.demonstrations import demonstrations, small_system1


@pytest.fixture(autouse=True)
def fresh_accelerator() -> Iterator[None]:
    """Accelerate keeps its precision for the whole process; a stage is a process of its own, tests are not."""
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


PARAMS = CloningParams(
    steps=40, batch_size=16, optimizer="muon", muon_lr=0.02, adamw_lr=0.003, warmup_steps=5, final_lr_fraction=0.1,
    gradient_clip=1.0, rename_probability=0.5, precision="fp32",
)  # fmt: skip


def train(params: CloningParams, seed: int = 0) -> tuple[System1, CloningReport]:
    torch.set_num_threads(1)
    system1 = small_system1()
    decisions = TokenizedDecisions.of(demonstrations(), system1)
    report = clone(system1, decisions, decisions, params, renameable=frozenset(), seed=seed)
    return system1, report


def test_cloning_learns_what_the_expert_does() -> None:
    before = TokenizedDecisions.of(demonstrations(), small_system1())
    _, report = train(PARAMS.model_copy(update={"steps": 150}))
    assert len(before) == len(demonstrations())
    assert report.curve[0][1] > 2.0  # some 30 commands, ln 30 = 3.4
    assert report.curve[-1][1] < 0.6 * report.curve[0][1]
    assert report.valid_accuracy > 0.5  # chance: 0.03


def test_a_seed_gives_the_same_weights_to_the_bit_and_another_seed_others() -> None:
    first, again, other = (train(PARAMS, seed)[0].model.state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_bf16_trains_too() -> None:
    _, report = train(PARAMS.model_copy(update={"precision": "bf16", "steps": 60}))
    assert report.curve[-1][1] < 0.8 * report.curve[0][1]


_TWO = """
import sys, torch
from accelerate import PartialState
from tests.learning.test_cloning import PARAMS, train
system1, report = train(PARAMS.model_copy(update={"rename_probability": 0.0}))
weights = torch.cat([p.detach().flatten() for p in system1.model.parameters()])
rank = PartialState().process_index
torch.save(weights, f"{sys.argv[1]}/{rank}.pt")
"""


@pytest.mark.timeout(900)
def test_two_processes_learn_what_one_does(tmp_path: Path) -> None:
    script = tmp_path / "two.py"
    script.write_text(_TWO)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--master_addr=127.0.0.1"]
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd()), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    done = subprocess.run(
        [*command, "--master_port=0", "--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:0", str(script), str(tmp_path)],
        env=environment, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1)]
    assert torch.equal(*ranks)
    alone, _ = train(PARAMS.model_copy(update={"rename_probability": 0.0}))
    weights = torch.cat([p.detach().flatten() for p in alone.model.parameters()])
    start = torch.cat([p.detach().flatten() for p in small_system1().model.parameters()])
    # sums in another order differ in the last bits, which training then grows
    assert (weights - ranks[0]).norm() < 0.05 * (weights - start).norm()


def test_loss_is_cross_entropy_where_one_command_is_right_and_sums_over_several() -> None:
    logits = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    one = torch.tensor([0, 5, 2, 2])
    mask = torch.nn.functional.one_hot(one, 6).bool()
    torch.testing.assert_close(command_loss(logits, mask), torch.nn.functional.cross_entropy(logits, one))
    mask[:, 1] = True
    expected = -logits.softmax(-1).masked_fill(~mask, 0.0).sum(-1).log().mean()
    torch.testing.assert_close(command_loss(logits, mask), expected)
