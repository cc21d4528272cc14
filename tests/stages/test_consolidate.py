import json
from pathlib import Path

import pytest
import torch

from dualmind.errors import ConsolidationError, ParamsError
from dualmind.learning.decision_tasks import decision_task
from dualmind.learning.fisher import diagonal_fisher
from dualmind.models.system1 import System1
from dualmind.models.system2 import System2
from dualmind.storage import md5_file
from stages.consolidate import ConsolidateParams, consolidate_system
from tests.learning.demonstrations import demonstrations, small_system1
from tests.learning.test_consolidation import PARAMS as LEARNING
from tests.models.test_compression import small_system2
from tests.stages.small import RUN, SYSTEM1, SYSTEM2, data, pair

PARAMS = ConsolidateParams(
    stream=["household/look_at_obj_in_light", "household/pick_and_place_simple", "reasoning/swaps"],
    known=0, from_scratch=True, method="ewc_replay", controls=["sequential"], max_examples=40, max_judged=40,
    tolerance=1.0 - 1e-9,
    learning=LEARNING.model_copy(
        update={
            "steps": 6, "batch_size": 8,
            "ewc": LEARNING.ewc.model_copy(update={"fisher": "sampled", "fisher_examples": 8}),
            "replay": LEARNING.replay.model_copy(update={"share": 0.5}),
        }
    ),
)  # fmt: skip

CLONED = (SYSTEM1, SYSTEM2)
KNOWN = {"stream": ["household", "reasoning", "reasoning/swaps"], "known": 2, "from_scratch": False}


@pytest.mark.parametrize("system", [0, 1])
def test_a_stream_gives_a_checkpoint_a_matrix_and_the_same_bytes_again(system: int, tmp_path: Path) -> None:
    parent = pair()[system]
    first, again = (
        consolidate_system(
            PARAMS, CLONED[system], RUN, parent, data()["decisions"], data()["problems"], tmp_path / name
        )
        for name in "ab"
    )
    assert first.digest == again.digest
    assert first.meta.parents[parent.meta.kind] == parent.digest
    assert first.meta.steps == 18
    found = json.loads((tmp_path / "a.json").read_text())
    assert set(found["methods"]) == {"ewc_replay", "sequential"}
    after = found["accuracies"]["sequential"]["after"]
    assert len(after) == (3, 5)[system]  # System 2 also plans in household tasks
    assert all(0 <= share <= 1 for row in after for share in row)
    assert "<svg" in (tmp_path / "a.html").read_text()
    assert found["kept_input"] == 0
    (System1, System2)[system].load(first.path)


@pytest.mark.parametrize("system", [0, 1])
def test_what_is_known_takes_no_steps_and_a_domain_is_all_of_it_but_what_is_named(system: int, tmp_path: Path) -> None:
    params = PARAMS.model_copy(update={**KNOWN, "controls": []})
    saved = consolidate_system(
        params, CLONED[system], RUN, pair()[system], data()["decisions"], data()["problems"], tmp_path / "x"
    )
    found = json.loads((tmp_path / "x.json").read_text())
    matrix = found["accuracies"]["ewc_replay"]
    names = ["household", "household, plans", "reasoning", "reasoning/swaps"]
    assert matrix["tasks"] == [name for name in names if system or "plans" not in name]
    assert matrix["after"][:-1] == [matrix["before"]] * (len(matrix["tasks"]) - 1)
    assert found["kept_input"] == int(found["after"] == found["before"])
    assert saved.meta.steps == (0 if found["kept_input"] else PARAMS.learning.steps)


def test_a_system_that_loses_what_it_knew_is_handed_on_as_it_came(tmp_path: Path) -> None:
    parent = pair()[0]
    learning = PARAMS.learning.model_copy(update={"lr": 30.0, "gradient_clip": 1000.0})  # ruins it
    params = PARAMS.model_copy(
        update={**KNOWN, "controls": [], "method": "sequential", "tolerance": 0.01, "learning": learning}
    )
    saved = consolidate_system(params, SYSTEM1, RUN, parent, data()["decisions"], data()["problems"], tmp_path / "x")
    found = json.loads((tmp_path / "x.json").read_text())
    assert found["kept_input"] == 1
    assert found["after"] == found["before"]
    assert saved.meta.steps == 0
    assert saved.meta.parents["system1"] == parent.digest
    assert md5_file(saved.path / "model.safetensors") == md5_file(parent.path / "model.safetensors")
    assert "handed on as it came" in (tmp_path / "x.html").read_text()


def test_a_task_that_is_not_in_the_data_is_named(tmp_path: Path) -> None:
    params = PARAMS.model_copy(update={"stream": ["household/fly"]})
    with pytest.raises(
        ParamsError, match=r"'household/fly', of which there are no decisions; there are: household, household/"
    ):
        consolidate_system(params, SYSTEM1, RUN, pair()[0], data()["decisions"], data()["problems"], tmp_path / "x")


def test_a_buffer_smaller_than_its_part_of_a_batch_stops_the_stage(tmp_path: Path) -> None:
    replay = PARAMS.learning.replay.model_copy(update={"share": 0.01, "part": 0.9})
    params = PARAMS.model_copy(update={"learning": PARAMS.learning.model_copy(update={"replay": replay})})
    with pytest.raises(ConsolidationError, match=r"raise replay\.share"):
        consolidate_system(params, SYSTEM1, RUN, pair()[0], data()["decisions"], data()["problems"], tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_decision_s_logits_as_a_task_are_those_of_the_scorer() -> None:
    system = small_system1()
    rows = demonstrations()[:9]
    task = decision_task("all", rows, system)
    logits = task.logits(torch.arange(9)).detach().log_softmax(-1)
    for own, want in zip(logits, system.score([r.prompt for r in rows], [r.candidates for r in rows]), strict=True):
        torch.testing.assert_close(own[: len(want)], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("build", [small_system1, small_system2])
def test_the_fisher_of_a_system_does_not_depend_on_the_batch_size(build: object) -> None:
    assert callable(build)
    system = build()
    task = decision_task("all", demonstrations()[:8], system)

    def fisher(batch_size: int, vectorized: bool) -> torch.Tensor:
        generator = torch.Generator().manual_seed(0)
        found = diagonal_fisher(task, "sampled", batch_size=batch_size, generator=generator, vectorized=vectorized)
        return torch.cat([value.flatten() for value in found.values.values()])

    one, many = fisher(1, False), fisher(8, isinstance(system, System1))
    assert float(one.norm()) > 0
    assert float((one - many).norm() / one.norm()) < 1e-5
