"""What each kind of data set must fulfil: all suites in one place, to be read from top to bottom.

Expectations are Great Expectations' own. What needs more than one cell is computed beforehand as a helper column, and
an expectation says what it must hold. A helper that cannot be computed is left out, so that its expectation fails.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, PositiveInt

from dualmind.data import decisions, problems
from dualmind.domains.base import SPLITS

if TYPE_CHECKING:
    import pandas as pd

SuiteName = Literal[
    "household decisions", "household problems", "reasoning decisions", "reasoning problems", "traffic decisions"
]

_PANDAS_TYPES = {pa.string(): "str", pa.int64(): "int64", pa.float64(): "float64", pa.list_(pa.string()): "list"}
_DEMONSTRATED = ["train", "valid_train"]  # the other splits are for judging only
_TASK_TYPES = [
    "look_at_obj_in_light",
    "pick_and_place_simple",
    "pick_clean_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_two_obj_and_place",
]
_MIN_HOPS, _MAX_HOPS = 2, 4  # sub-goals of the easiest and of the longest household task
_FAMILIES = [
    "arithmetic",
    "boolean",
    "brackets",
    "counting",
    "keys",
    "navigation",
    "ordering",
    "sorting",
    "swaps",
    "truth",
]
_MAX_QUESTION_HOPS = 12
_MAX_STEPS = 50  # ALFWorld's own limit on an episode (Shridhar et al. 2021, section 4)
_NAMES = {"id", "split", "layout", "goal_text"}  # keys of a game that say nothing about how it is played


class SuiteParams(BaseModel):
    """Sizes between which data sets are taken for sound."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_decisions: PositiveInt  # rows of all splits together
    min_problems: PositiveInt  # rows of all splits together
    max_prompt_chars: PositiveInt  # of any text that a model reads or writes


@dataclass(frozen=True, slots=True)
class Helper:
    """A column that is computed from others, so that an expectation can speak about several cells at once."""

    name: str
    sources: tuple[str, ...]  # columns that it is computed from
    compute: "Callable[[pd.DataFrame], pd.Series[Any]]"


@dataclass(frozen=True, slots=True)
class Suite:
    """What a data set must fulfil."""

    name: str
    helpers: tuple[Helper, ...]
    expectations: Sequence[Any]  # Great Expectations' objects

    def derive(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """The frame with all helper columns that can be computed."""
        derived: dict[str, Any] = {}
        for helper in self.helpers:
            if set(helper.sources) <= set(frame.columns):
                try:
                    derived[helper.name] = helper.compute(frame)
                except (AttributeError, TypeError, ValueError):
                    continue  # a source column of another type: the helper is missing, and the expectation on it fails
        return frame.assign(**derived)


def build_suite(name: SuiteName, params: SuiteParams) -> Suite:
    """The suite of a data set."""
    match name:
        case "household decisions":
            return _household_decisions(params)
        case "household problems":
            return _household_problems(params)
        case "reasoning decisions":
            return _reasoning_decisions(params)
        case "reasoning problems":
            return _reasoning_problems(params)
        case "traffic decisions":
            from dualmind.data.traffic import traffic_decisions  # which is made of this module's classes

            return traffic_decisions(params)


def _decisions(name: SuiteName, params: SuiteParams, helpers: Sequence[Helper], rules: Sequence[Any]) -> Suite:
    """What holds of the decisions of any domain, and ``rules`` of one."""
    gxe = import_great_expectations().expectations
    longest = params.max_prompt_chars
    return Suite(
        name,
        helpers=(
            Helper("id_is_problem_and_step", ("example_id", "problem_id", "step_index"), _id_is_problem_and_step),
            Helper("steps_without_gap", ("problem_id", "step_index"), _steps_without_gap),
            Helper("splits_of_problem", ("problem_id", "split"), _splits_of("problem_id")),
            *helpers,
        ),
        expectations=[
            *_columns(decisions.SCHEMA),
            gxe.ExpectTableRowCountToBeBetween(min_value=params.min_decisions),
            gxe.ExpectColumnValuesToBeUnique(column="example_id"),
            gxe.ExpectColumnValuesToBeInSet(column="id_is_problem_and_step", value_set=[True]),
            gxe.ExpectColumnDistinctValuesToEqualSet(column="split", value_set=_DEMONSTRATED),
            gxe.ExpectColumnValuesToBeInSet(column="splits_of_problem", value_set=[1]),
            gxe.ExpectColumnValuesToBeInSet(column="steps_without_gap", value_set=[True]),
            gxe.ExpectColumnValueLengthsToBeBetween(column="prompt", min_value=1, max_value=longest),
            gxe.ExpectColumnValueLengthsToBeBetween(column="target", min_value=1, max_value=longest),
            gxe.ExpectColumnValueLengthsToBeBetween(column="rationale", max_value=longest),
            gxe.ExpectColumnValuesToBeBetween(column="reward", min_value=0, max_value=1),
            *rules,
        ],
    )


def _household_decisions(params: SuiteParams) -> Suite:
    gxe = import_great_expectations().expectations
    return _decisions(
        "household decisions",
        params,
        [Helper("target_is_candidate", ("target", "candidates"), _target_is_candidate)],
        [
            gxe.ExpectColumnValuesToBeInSet(column="domain", value_set=["household"]),
            gxe.ExpectColumnValuesToBeBetween(column="step_index", min_value=0, max_value=_MAX_STEPS - 1),
            gxe.ExpectColumnValuesToBeBetween(column="hops", min_value=_MIN_HOPS, max_value=_MAX_HOPS),
            gxe.ExpectColumnValuesToBeInSet(column="target_is_candidate", value_set=[True]),
            gxe.ExpectColumnValuesToBeInSet(column="source", value_set=["searcher"]),
        ],
    )


def _reasoning_decisions(params: SuiteParams) -> Suite:
    gxe = import_great_expectations().expectations
    return _decisions(
        "reasoning decisions",
        params,
        [
            Helper("num_candidates", ("candidates",), lambda frame: frame["candidates"].map(len)),
            Helper("rationale_gives_target", ("rationale", "target"), _rationale_gives_target),
            Helper("splits_of_prompt", ("prompt", "split"), _splits_of("prompt")),
        ],
        [
            gxe.ExpectColumnValuesToBeInSet(column="domain", value_set=["reasoning"]),
            gxe.ExpectColumnValuesToBeInSet(column="step_index", value_set=[0]),
            gxe.ExpectColumnValuesToBeBetween(column="hops", min_value=1, max_value=_MAX_QUESTION_HOPS),
            gxe.ExpectColumnValuesToBeInSet(column="num_candidates", value_set=[0]),
            gxe.ExpectColumnValuesToBeInSet(column="rationale_gives_target", value_set=[True]),
            gxe.ExpectColumnValuesToBeInSet(column="splits_of_prompt", value_set=[1]),
            gxe.ExpectColumnValuesToBeInSet(column="source", value_set=["generator"]),
        ],
    )


def _problems(name: SuiteName, params: SuiteParams, helpers: Sequence[Helper], rules: Sequence[Any]) -> Suite:
    """What holds of the problems of any domain, and ``rules`` of one."""
    gxe = import_great_expectations().expectations
    longest = params.max_prompt_chars
    return Suite(
        name,
        helpers=(Helper("splits_of_problem", ("problem_id", "split"), _splits_of("problem_id")), *helpers),
        expectations=[
            *_columns(problems.SCHEMA),
            gxe.ExpectTableRowCountToBeBetween(min_value=params.min_problems),
            gxe.ExpectColumnValuesToBeUnique(column="problem_id"),
            gxe.ExpectColumnValuesToBeInSet(column="split", value_set=list(SPLITS)),
            gxe.ExpectColumnDistinctValuesToContainSet(column="split", value_set=_DEMONSTRATED),
            gxe.ExpectColumnValuesToBeInSet(column="splits_of_problem", value_set=[1]),
            gxe.ExpectColumnValueLengthsToBeBetween(column="layout", min_value=1),
            gxe.ExpectColumnValueLengthsToBeBetween(column="text", min_value=1, max_value=longest),
            gxe.ExpectColumnValuesToBeJsonParseable(column="payload"),
            *rules,
        ],
    )


def _household_problems(params: SuiteParams) -> Suite:
    gxe = import_great_expectations().expectations
    return _problems(
        "household problems",
        params,
        [
            Helper("splits_of_content", ("payload", "split"), _splits_of_content),
            Helper("unseen_layout_is_new", ("layout", "split"), _unseen_layout_is_new),
        ],
        [
            gxe.ExpectColumnValuesToBeInSet(column="domain", value_set=["household"]),
            gxe.ExpectColumnValuesToBeInSet(column="splits_of_content", value_set=[1]),
            gxe.ExpectColumnValuesToBeInSet(column="task_type", value_set=_TASK_TYPES),
            gxe.ExpectColumnValuesToBeInSet(column="unseen_layout_is_new", value_set=[True]),
            gxe.ExpectColumnValuesToBeBetween(column="hops", min_value=_MIN_HOPS, max_value=_MAX_HOPS),
        ],
    )


def _reasoning_problems(params: SuiteParams) -> Suite:
    gxe = import_great_expectations().expectations
    return _problems(
        "reasoning problems",
        params,
        [Helper("splits_of_text", ("text", "split"), _splits_of("text"))],
        [
            gxe.ExpectColumnValuesToBeInSet(column="domain", value_set=["reasoning"]),
            gxe.ExpectColumnValuesToBeInSet(column="splits_of_text", value_set=[1]),
            gxe.ExpectColumnValuesToBeInSet(column="task_type", value_set=_FAMILIES),
            gxe.ExpectColumnValuesToBeBetween(column="hops", min_value=1, max_value=_MAX_QUESTION_HOPS),
        ],
    )


def _columns(schema: pa.Schema) -> list[Any]:
    """Every column is there, of its type, and never null; expectations on values skip nulls."""
    gxe = import_great_expectations().expectations
    return [
        expectation
        for field in schema
        for expectation in (
            gxe.ExpectColumnToExist(column=field.name),
            gxe.ExpectColumnValuesToBeOfType(column=field.name, type_=_PANDAS_TYPES[field.type]),
            gxe.ExpectColumnValuesToNotBeNull(column=field.name),
        )
    ]


def _target_is_candidate(frame: "pd.DataFrame") -> "pd.Series[Any]":
    import pandas as pd

    pairs = zip(frame["target"], frame["candidates"], strict=True)
    return pd.Series([target in candidates for target, candidates in pairs], index=frame.index)


def _rationale_gives_target(frame: "pd.DataFrame") -> "pd.Series[Any]":
    """Does the rationale end in the answer?"""
    import pandas as pd

    pairs = zip(frame["rationale"], frame["target"], strict=True)
    return pd.Series([rationale.endswith(f"= {target}") for rationale, target in pairs], index=frame.index)


def _id_is_problem_and_step(frame: "pd.DataFrame") -> "pd.Series[Any]":
    return frame["example_id"] == frame["problem_id"] + "/" + frame["step_index"].astype(str)


def _steps_without_gap(frame: "pd.DataFrame") -> "pd.Series[Any]":
    """Steps of a problem stand in order from 0; a row that was lost or moved shows here."""
    return frame["step_index"] == frame.groupby("problem_id").cumcount()


def _splits_of(column: str) -> "Callable[[pd.DataFrame], pd.Series[Any]]":
    """Number of splits in which the row's value of ``column`` occurs: 1, unless data leak from one to another."""
    return lambda frame: frame.groupby(column)["split"].transform("nunique")


def _splits_of_content(frame: "pd.DataFrame") -> "pd.Series[Any]":
    """The same for what is in the payload, so that a game which came under two names is found as well."""
    content = frame["payload"].map(_content_digest)
    return frame["split"].groupby(content).transform("nunique")


def _content_digest(payload: str) -> str:
    content: Mapping[str, Any] = json.loads(payload)
    bare = {key: value for key, value in content.items() if key not in _NAMES}
    return hashlib.md5(json.dumps(bare, sort_keys=True).encode(), usedforsecurity=False).hexdigest()


def _unseen_layout_is_new(frame: "pd.DataFrame") -> "pd.Series[Any]":
    unseen = frame["split"] == "valid_unseen"
    return ~(unseen & frame["layout"].isin(frame.loc[~unseen, "layout"]))


def import_great_expectations() -> ModuleType:
    """The library (7 s), without its telemetry and without its warnings about deprecated standard modules."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"  # releases before 1.20 ask for it when they are imported
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"module 'sre_\w+' is deprecated", DeprecationWarning)
        import great_expectations
    return great_expectations
