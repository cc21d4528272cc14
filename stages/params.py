"""Reads params.yaml into typed, frozen models. Nothing else in the project reads it."""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError

from dualmind.errors import ParamsError

M = TypeVar("M", bound=BaseModel)
PARAMS = Path("params.yaml")


class RunParams(BaseModel):
    """What every computing stage shares."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: NonNegativeInt
    threads: PositiveInt = Field(le=256)  # of one process; another number gives other bytes


def load_params(model: type[M], section: str, path: Path = PARAMS) -> M:
    """Read one section.

    Args:
        model: frozen pydantic model with ``extra="forbid"`` and no defaults.
        section: dotted path of the section, such as ``pretrain.system1``.
        path: the file.

    Raises:
        ParamsError: the file is missing or no YAML, the section is missing, or a key is unknown, missing or out of
            range; the message names file, key, value and what is allowed.
    """
    value: Any = _read(path)
    for depth, part in enumerate(section.split(".")):
        if not isinstance(value, dict) or part not in value:
            above = ".".join(section.split(".")[:depth]) or "the file"
            there = ", ".join(map(str, value)) if isinstance(value, dict) else repr(value)
            raise ParamsError(f"{path} has no section {section!r}: {above} holds {there}")
        value = value[part]
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems = "; ".join(_explain(section, problem, model) for problem in error.errors())
        raise ParamsError(f"{path}: {problems}") from error


def _explain(section: str, problem: Any, model: type[BaseModel]) -> str:
    key = ".".join([section, *map(str, problem["loc"])])
    match problem["type"]:
        case "extra_forbidden":
            known = sorted(_fields(model, problem["loc"][:-1]))
            near = difflib.get_close_matches(str(problem["loc"][-1]), known, n=1)
            return f"unknown key {key}" + (
                f"; did you mean {near[0]!r}?" if near else f"; known here: {', '.join(known)}"
            )
        case "missing":
            return f"missing key {key}; add it"
        case _:
            return f"{key} = {problem['input']!r}: {problem['msg']}"


def _fields(kind: Any, path: Sequence[Any]) -> set[str]:
    """Names of the fields of the model at ``path`` within the type ``kind``.

    pydantic's path names fields, places in a list and, in a union that a field tells apart, that field's value.
    """
    if get_args(kind):  # Annotated, a union, or a container: the models in it
        chosen = [own for own in get_args(kind) if _has_tag(own, path[0])] if path else []
        if chosen:
            return _fields(chosen[0], path[1:])
        inner = path[1:] if get_origin(kind) in {list, tuple, dict} else path
        return set().union(*(_fields(own, inner) for own in get_args(kind)))
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return set()
    if not path:
        return set(kind.model_fields)
    return _fields(kind.model_fields[path[0]].annotation, path[1:]) if path[0] in kind.model_fields else set()


def _has_tag(kind: Any, tag: Any) -> bool:
    return (
        isinstance(kind, type)
        and issubclass(kind, BaseModel)
        and (kind.__name__ == tag or any(tag in get_args(field.annotation) for field in kind.model_fields.values()))
    )


class _UniqueKeyLoader(yaml.SafeLoader):
    """Refuses a key that stands twice: YAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for index, key in enumerate(keys):
            if key in keys[:index]:
                raise ParamsError(f"{node.start_mark.name}: key {key!r} stands twice in one section; remove one")
        return super().construct_mapping(node, deep)


def _read(path: Path) -> Any:
    try:
        with path.open(encoding="utf-8") as file:
            return yaml.load(file, _UniqueKeyLoader)  # noqa: S506  # a SafeLoader that also refuses repeated keys
    except FileNotFoundError as error:
        raise ParamsError(f"{path} is not there; run from the project's folder") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ParamsError(f"{path} is not YAML: {error}") from error
