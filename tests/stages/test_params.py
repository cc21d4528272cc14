from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field

from dualmind.data.suites import SuiteParams
from dualmind.errors import ParamsError
from dualmind.learning.cotrain_state import CotrainParams
from dualmind.learning.phases import PhaseParams
from flows.audit import AuditParams
from flows.serve import ServeParams
from stages.calibrate import CalibrateParams
from stages.compress import CompressSystem1Params, CompressSystem2Params
from stages.consolidate import ConsolidateParams
from stages.distill import DistillParams
from stages.evaluate import EvaluateParams
from stages.params import RunParams, load_params
from stages.prepare import HouseholdParams, PrepareParams, ReasoningParams
from stages.pretrain import DataParams, System1Params, System2Params
from stages.recalibrate import RecalibrateParams
from stages.release import ReleaseParams
from stages.reward import RewardParams
from tasks.calibration import CalibrationParams
from tasks.stage import FlowParams

ROOT = Path(__file__).resolve().parents[2]
PROFILES = [ROOT / "params.yaml", *sorted((ROOT / "params").glob("*.yaml"))]
SECTIONS: list[tuple[Any, str]] = [
    (RunParams, "run"),
    (HouseholdParams, "household"),
    (PrepareParams, "prepare"),
    (ReasoningParams, "reasoning"),
    (SuiteParams, "validate.household"),
    (SuiteParams, "validate.reasoning"),
    (DataParams, "pretrain.data"),
    (System1Params, "pretrain.system1"),
    (System2Params, "pretrain.system2"),
    (RewardParams, "reward"),
    (CotrainParams, "cotrain"),
    (PhaseParams, "curriculum.step"),
    (PhaseParams, "curriculum.coherence"),
    (PhaseParams, "curriculum.chain"),
    (ConsolidateParams, "consolidate.system1"),
    (ConsolidateParams, "consolidate.system2"),
    (DistillParams, "distill"),
    (CompressSystem1Params, "compress.system1"),
    (CompressSystem2Params, "compress.system2"),
    (CalibrateParams, "calibrate"),
    (EvaluateParams, "evaluate"),
    (RecalibrateParams, "recalibrate"),
    (CalibrationParams, "calibration"),
    (ReleaseParams, "release"),
    (AuditParams, "audit"),
    (ServeParams, "serve"),
    (FlowParams, "flow"),
]


def keys(value: Any, prefix: str = "") -> set[str]:
    if not isinstance(value, dict):
        return {prefix}
    return {key for name, own in value.items() for key in keys(own, f"{prefix}.{name}" if prefix else name)}


@pytest.mark.parametrize("path", PROFILES, ids=lambda p: p.name)
@pytest.mark.parametrize(("model", "section"), SECTIONS, ids=lambda v: v if isinstance(v, str) else "")
def test_every_profile_fits_every_model(path: Path, model: Any, section: str) -> None:
    load_params(model, section, path)


def test_profiles_have_the_same_keys_but_for_the_kind_of_model() -> None:
    default, *others = [{k for k in keys(yaml.safe_load(p.read_text())) if ".model." not in k} for p in PROFILES]
    assert all(other == default for other in others)


def test_no_model_has_a_default_and_all_are_frozen() -> None:
    for model, _ in SECTIONS:
        assert all(field.is_required() for field in model.model_fields.values()), model
        assert model.model_config["frozen"]
        assert model.model_config["extra"] == "forbid"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run: {seed: 0, threads: 1, thread: 2}", "unknown key run.thread; did you mean 'threads'"),
        ("run: {seed: 0, threads: 1, zzz: 2}", "unknown key run.zzz; known here: seed, threads"),
        ("run: {seed: 0}", "missing key run.threads"),
        ("run: {seed: -1, threads: 1}", "run.seed = -1: .*greater than or equal to 0"),
        ("run: {seed: 0, threads: 0}", "run.threads = 0"),
        ("run: {seed: zero, threads: 1}", "run.seed = 'zero'"),
        ("run: 3", "run"),
        ("other: {}", "no section 'run': the file holds other"),
        ("run: {seed: 0, seed: 1, threads: 1}", "'seed' stands twice"),
        ("run: {seed: 0", "not YAML"),
        ("", "no section 'run'"),
    ],
)
def test_bad_params_name_file_key_value_and_remedy(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(text)
    with pytest.raises(ParamsError, match=message) as caught:
        load_params(RunParams, "run", path)
    assert "params.yaml" in str(caught.value)


class Leaf(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["leaf"]
    colour: int


class Stone(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["stone"]
    weight: int


class Tree(BaseModel):
    model_config = ConfigDict(extra="forbid")

    leaf: Leaf
    leaves: list[Leaf]
    named: dict[str, Leaf | None]
    thing: Annotated[Leaf | Stone, Field(discriminator="kind")]
    either: Leaf | Stone


LEAF = {"kind": "leaf", "colour": 1}
TREE: dict[str, Any] = {"leaf": LEAF, "leaves": [LEAF], "named": {"a": LEAF}, "thing": LEAF, "either": LEAF}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"leaf": {**LEAF, "color": 2}}, "unknown key tree.leaf.color; did you mean 'colour'"),
        ({"leaf": {**LEAF, "leaves": 2}}, "unknown key tree.leaf.leaves; known here: colour, kind"),
        ({"leaves": [LEAF, {**LEAF, "color": 2}]}, "unknown key tree.leaves.1.color; did you mean 'colour'"),
        ({"named": {"colour": {**LEAF, "color": 2}}}, "unknown key tree.named.colour.color; did you mean 'colour'"),
        ({"thing": {"kind": "stone", "weight": 1, "wait": 2}}, "unknown key tree.thing.stone.wait; did you mean 'we"),
        ({"either": {"kind": "stone", "weight": 1, "weigh": 2}}, "tree.either.Stone.weigh; did you mean 'weight'"),
        ({"leef": 1}, "unknown key tree.leef; did you mean 'leaf'"),
    ],
)
def test_an_unknown_key_within_is_compared_with_its_own_neighbours(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump({"tree": {**TREE, **change}}))
    with pytest.raises(ParamsError, match=message):
        load_params(Tree, "tree", path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="project's folder"):
        load_params(RunParams, "run", tmp_path / "params.yaml")
