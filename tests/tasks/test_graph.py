import subprocess
import sys
from pathlib import Path

import pytest
from dvc.repo import Repo

from dualmind.errors import PipelineError
from tasks.graph import read_graph, select
from tasks.picture import draw

ROOT = Path(__file__).resolve().parents[2]


def test_graph_is_the_one_that_dvc_sees() -> None:
    """``dvc dag --dot`` prints an edge a line, from the child to the parent or the reverse: compare both as sets."""
    dot = subprocess.run(
        [sys.executable, "-m", "dvc", "dag", "--dot"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    theirs = {frozenset(part.strip(' ";') for part in line.split("->")) for line in dot.splitlines() if "->" in line}
    graph = read_graph(ROOT)
    assert {frozenset((parent, name)) for name, stage in graph.items() for parent in stage.parents} == theirs


def test_parents_come_before_children() -> None:
    seen: set[str] = set()
    for name, stage in read_graph(ROOT).items():
        assert set(stage.parents) <= seen
        seen.add(name)


def test_outputs_say_which_are_metrics() -> None:
    """Read once more, with DVC's own eyes."""
    repo = Repo(ROOT)
    theirs = {stage.addressing: {out.def_path for out in stage.outs if out.metric} for stage in repo.index.stages}
    repo.close()
    assert {name: set(stage.metrics) for name, stage in read_graph(ROOT).items()} == theirs


def test_selection_takes_what_is_needed_and_no_more() -> None:
    graph = read_graph(ROOT)
    assert [s.name for s in select(graph, until="validate@household")] == ["prepare@household", "validate@household"]
    assert [s.name for s in select(graph, only="evaluate")] == ["evaluate"]
    assert [s.name for s in select(graph)] == list(graph)
    with pytest.raises(PipelineError, match=r"no stage 'train'; its stages are prepare@household"):
        select(graph, until="train")


def test_picture_in_the_readme_is_current() -> None:
    drawn = (ROOT / "docs" / "pipeline.svg").read_text()
    assert drawn == draw(read_graph(ROOT)), "run `make pipeline` and commit docs/pipeline.svg"
    assert "docs/pipeline.svg" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    ("dvc", "message"),
    [
        ("stages: {a: {cmd: x, deps: ['${nothing.there}']}}", "nothing.there"),
        ("stages: {a: {cmd: x, deps: [o2], outs: [o1]}, b: {cmd: x, deps: [o1], outs: [o2]}}", "wait for each other"),
        ("stages: {a: {foreach: {x: 1}, do: {cmd: x}}}", r"foreach of stage a is \{'x': 1\}; make it a list"),
        ("stages: {a: {foreach: '${x}', do: {cmd: x}}}", r"foreach of stage a is '\$\{x\}'; make it a list"),
        ("stages: {a: {foreach: [[b]], do: {cmd: x}}}", r"foreach of stage a is \[\['b'\]\]; make it a list"),
        ("stages: {a: {foreach: , do: {cmd: x}}}", "foreach of stage a is None; make it a list"),
        ("stages: {a: {foreach: [b]}}", "stage a has a foreach but its do is None"),
        ("stages: {a: 3}", "stage a holds 3"),
        ("stages: [a]", "cannot be read"),
        ("stages: {", "cannot be read"),
        ("other: 1", "cannot be read"),
    ],
)
def test_a_graph_that_makes_no_sense_is_refused(tmp_path: Path, dvc: str, message: str) -> None:
    (tmp_path / "dvc.yaml").write_text(dvc)
    (tmp_path / "params.yaml").write_text("x: 1")
    with pytest.raises(PipelineError, match=message):
        read_graph(tmp_path)
