from datetime import timedelta
from pathlib import Path

import networkx
from hypothesis import given
from hypothesis import strategies as st

from dualmind.lineage.bundle import Bundle
from dualmind.lineage.graph import Content, LineageGraph, Releases, levels, served_at
from dualmind.lineage.ledger import Ledger
from dualmind.lineage.lockfile import FileRef, Lock, StageRecord
from tests.lineage.project import LEDGER, TIME

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
