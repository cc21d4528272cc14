from datetime import timedelta
from pathlib import Path

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmind.lineage.bundle import Bundle
from dualmind.lineage.graph import Content, LineageGraph, Releases, levels, served_at
from dualmind.lineage.keys import open_key
from dualmind.lineage.ledger import Ledger
from dualmind.lineage.lockfile import FileRef, Lock, StageRecord
from dualmind.storage import md5_file
from tests.lineage.project import LEDGER, TIME, commit, copy_project, dvc, release

NAMES = st.sampled_from("abcdefgh")


@given(st.lists(st.tuples(st.sets(NAMES), st.sets(NAMES, min_size=1)), max_size=6))
def test_forward_and_backward_are_those_of_networkx(stages: list[tuple[set[str], set[str]]]) -> None:
    """Any stages, with circles: descendants and ancestors, a content itself apart."""
    made: set[str] = set()
    records, edges = [], networkx.DiGraph()
    for number, (deps, outs) in enumerate(stages):
        own = outs - made
        made |= own
        records.append(
            StageRecord(
                str(number),
                "x",
                tuple(FileRef(d, d * 8, 1) for d in deps),
                tuple(FileRef(o, o * 8, 1) for o in own),
                {},
            )
        )
        edges.add_nodes_from(deps | own)
        edges.add_edges_from((dep, out) for dep in deps for out in own)
    graph = LineageGraph.of(Lock(tuple(records)))
    assert {content.path for content in graph.parents} == set(edges)
    for content in graph.parents:
        assert {c.path for c in graph.forward(content)} == networkx.descendants(edges, content.path) - {content.path}
        assert {c.path for c in graph.backward(content)} == networkx.ancestors(edges, content.path) - {content.path}


def test_a_part_of_an_output_and_a_folder_of_outputs_are_followed() -> None:
    lock = Lock(
        (
            StageRecord("a", "x", (), (FileRef("o/model", "1" * 32 + ".dir", 1), FileRef("o/x", "2" * 32, 1)), {}),
            StageRecord("b", "x", (FileRef("o/model/meta.json", "3" * 32, 1),), (FileRef("b", "4" * 32, 1),), {}),
            StageRecord("c", "x", (FileRef("o", "5" * 32 + ".dir", 1),), (FileRef("c", "6" * 32, 1),), {}),
        )
    )
    graph = LineageGraph.of(lock)
    assert {c.path for c in graph.forward(Content("o/model", "1" * 32 + ".dir"))} == {
        "o/model/meta.json",
        "b",
        "o",
        "c",
    }
    assert {c.path for c in graph.backward(Content("c", "6" * 32))} == {"o", "o/model", "o/x"}


@pytest.fixture(scope="module")
def both(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = copy_project(pristine, tmp_path_factory.mktemp("both") / "project")
    key = open_key(project / "keys", "release", TIME)
    (project / "source.txt").write_text("other data\n")
    (project / "params.yaml").write_text((project / "params.yaml").read_text().replace("alpha: 0.05", "alpha: 0.1"))
    dvc(project, "repro", "-q")
    commit(project, "other data")
    release(project, key, "r2", TIME + timedelta(days=1))
    return project


@pytest.fixture
def two(both: Path, tmp_path: Path) -> Path:
    return copy_project(both, tmp_path / "two")


def test_what_a_data_set_affects_is_found_over_all_releases_by_path_and_by_digest(two: Path) -> None:
    releases = Releases.read(two / "releases")
    by_path = releases.affected_by("artifacts/prepare/decisions.parquet")
    assert [own.release for own in by_path] == ["r1", "r2"]
    made = ("validate/decisions.json", "pretrain/system1", "distill/system1", "calibrate/gate.json",
            "calibrate/decisions.parquet",
            "calibrate/threshold.json", "evaluate/metrics.json")  # fmt: skip
    assert {content.path for content in by_path[0].contents} == {f"artifacts/{path}" for path in made}
    new = md5_file(two / "artifacts/prepare/decisions.parquet")
    assert releases.affected_by(new) == [by_path[1]]
    assert releases.affected_by(new[:8]) == [by_path[1]]
    assert releases.affected_by("nothing") == []
    backward = releases.made_from("r1", "artifacts/pretrain/system1")
    assert {content.path for content in backward[0].contents} == {
        "artifacts/prepare/decisions.parquet", "artifacts/validate/decisions.json", "library", "make.py", "source.txt",
    }  # fmt: skip


def test_releases_are_found_by_commit_and_by_params(two: Path) -> None:
    releases = Releases.read(two / "releases")
    first = Bundle.open(two / "releases/r1").release.commit
    assert releases.by_commit(first) == releases.by_commit(first[:7]) == ["r1"]
    assert releases.by_param("calibrate.alpha", 0.05) == ["r1"]
    assert releases.by_param("calibrate.alpha", 0.1) == ["r2"]
    assert releases.by_param("run.seed", 0) == ["r1", "r2"]
    assert releases.by_param("pretrain.width", 4) == ["r1", "r2"]
    assert releases.by_param("run.nothing", 0) == []


def test_what_served_is_found_with_its_folder(two: Path) -> None:
    ledger, folder = Ledger.read(two / LEDGER), two / "releases"
    assert served_at(ledger, folder, TIME - timedelta(seconds=1))[0].entry is None
    assert served_at(ledger, folder, TIME + timedelta(hours=1))[1] == folder / "r1"
    assert served_at(ledger, folder, TIME + timedelta(days=9))[1] == folder / "r2"


def test_a_broken_release_is_named_and_hides_no_other(two: Path) -> None:
    (two / "releases/r2/release.json").write_text("{}")
    releases = Releases.read(two / "releases")
    assert [own.release.name for own in releases.bundles] == ["r1"]
    assert "restore the release" in releases.broken["r2"]


def test_levels_are_the_longest_ways_and_circles_end() -> None:
    assert levels({"a": [], "b": ["a"], "c": ["a", "b"]}) == {"a": 0, "b": 1, "c": 2}
    assert set(levels({"a": ["b"], "b": ["a"], "c": ["c"]})) == {"a", "b", "c"}
