"""The stage graph as dvc.yaml declares it, read without DVC (which takes two seconds to import).

Only the forms that our dvc.yaml uses are read: plain stages, and ``foreach`` over a list. A test compares with DVC.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from dualmind.errors import PipelineError

_REFERENCE = re.compile(r"\$\{([\w.]+)\}")


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage with its paths resolved."""

    name: str  # "prepare@household"
    description: str
    deps: tuple[str, ...]
    outs: tuple[str, ...]  # metrics and plots included
    metrics: tuple[str, ...]
    parents: tuple[str, ...]  # names of the stages whose outputs it reads, in the order of deps


def read_graph(root: Path) -> dict[str, Stage]:
    """Stages by name, parents before children, in the order in which ``dvc repro`` runs them.

    Raises:
        PipelineError: dvc.yaml or params.yaml cannot be read, a reference is unknown, or stages form a cycle.
    """
    try:
        declared = list(yaml.safe_load((root / "dvc.yaml").read_text(encoding="utf-8"))["stages"].items())
        params: dict[str, Any] = yaml.safe_load((root / "params.yaml").read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise PipelineError(
            f"{root}/dvc.yaml and params.yaml cannot be read ({error}); run from the project's folder"
        ) from error
    resolved = {name: body for key, entry in declared for name, body in _expand(key, entry, params)}
    makers = {out: name for name, body in resolved.items() for out in body["outs"]}
    stages = {
        name: Stage(name, body["desc"], body["deps"], body["outs"], body["metrics"], _parents(body["deps"], makers))
        for name, body in resolved.items()
    }
    try:
        TopologicalSorter({name: stage.parents for name, stage in stages.items()}).prepare()
    except CycleError as error:
        raise PipelineError(f"{root}/dvc.yaml: stages wait for each other: {' -> '.join(error.args[1])}") from error
    ordered: dict[str, Stage] = {}
    for name in stages:
        _visit(name, stages, ordered)
    return ordered


def _visit(name: str, stages: Mapping[str, Stage], ordered: dict[str, Stage]) -> None:
    """Add a stage to ``ordered``, after all that it needs."""
    if name not in ordered:
        for parent in stages[name].parents:
            _visit(parent, stages, ordered)
        ordered[name] = stages[name]


def select(graph: Mapping[str, Stage], *, until: str | None = None, only: str | None = None) -> list[Stage]:
    """All stages, those that ``until`` needs with itself, or ``only`` one; parents first.

    Raises:
        PipelineError: no stage has that name.
    """
    for name in (until, only):
        if name is not None and name not in graph:
            raise PipelineError(f"dvc.yaml has no stage {name!r}; its stages are {', '.join(graph)}")
    if only is not None:
        return [graph[only]]
    if until is None:
        return list(graph.values())
    wanted = {until}
    for name in reversed(list(graph)):
        if name in wanted:
            wanted.update(graph[name].parents)
    return [stage for name, stage in graph.items() if name in wanted]


def _expand(key: str, entry: Any, params: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    if not isinstance(entry, dict):
        raise PipelineError(f"dvc.yaml: stage {key} holds {entry!r}; give it cmd, deps and outs")
    if "foreach" not in entry:
        return [(key, _body(entry, params))]
    items, body = entry["foreach"], entry.get("do")
    words = isinstance(items, list) and all(isinstance(item, str | int | float) for item in items)
    named = isinstance(items, dict) and items and all(isinstance(item, dict) for item in items.values())
    if not words and not named:
        raise PipelineError(f"dvc.yaml: foreach of stage {key} is {items!r}; make it a list of words, such as [a, b]")
    if not isinstance(body, dict):
        raise PipelineError(f"dvc.yaml: stage {key} has a foreach but its do is {body!r}; give it cmd, deps and outs")
    if isinstance(items, dict):  # DVC resolves what an item holds before it fills in the stage
        found = {name: _resolve_all(item, params) for name, item in items.items()}
        return [(f"{key}@{n}", _body(body, {**params, "key": n, "item": item})) for n, item in found.items()]
    return [(f"{key}@{item}", _body(body, {**params, "item": item})) for item in items]


def _resolve_all(value: Any, params: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _resolve_all(own, params) for key, own in value.items()}
    return _resolve(value, params) if isinstance(value, str) else value


def _body(entry: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    def paths(*keys: str) -> tuple[str, ...]:
        listed = [path for key in keys for path in entry.get(key, ())]
        return tuple(_resolve(next(iter(path)) if isinstance(path, dict) else path, values) for path in listed)

    return {
        "desc": entry.get("desc", ""),
        "deps": paths("deps"),
        "outs": paths("outs", "metrics", "plots"),
        "metrics": paths("metrics"),
    }


def _resolve(text: str, values: dict[str, Any]) -> str:
    def look_up(match: re.Match[str]) -> str:
        value: Any = values
        for part in match[1].split("."):
            if not isinstance(value, dict) or part not in value:
                raise PipelineError(f"dvc.yaml: {match[0]} in {text!r} is not in params.yaml; add it there")
            value = value[part]
        return str(value)

    return _REFERENCE.sub(look_up, text)


def _parents(deps: tuple[str, ...], makers: Mapping[str, str]) -> tuple[str, ...]:
    """Makers of what ``deps`` name, lie in or contain."""
    found: dict[str, None] = {}  # a set that keeps its order
    for dep in map(PurePosixPath, deps):
        for out, maker in makers.items():
            made = PurePosixPath(out)
            if dep == made or dep in made.parents or made in dep.parents:
                found[maker] = None
    return tuple(found)
