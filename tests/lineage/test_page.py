import re
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path

from dualmind.lineage.bundle import Bundle
from dualmind.lineage.checks import failed, passed
from dualmind.lineage.lockfile import FileRef, Lock, StageRecord
from dualmind.lineage.page import draw, render_audit
from dualmind.lineage.queries import Answer
from dualmind.lineage.verify import Verdict
from tests.lineage.project import TIME

VOID = {"meta", "br", "rect", "path"}


class Balance(HTMLParser):
    """Every tag that opens closes."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.stack.pop() == tag


def test_a_failure_turns_its_own_digest_red_and_no_other(pristine: Path) -> None:
    bundle = Bundle.open(pristine / "releases/r1")
    bad = failed("parents", "it names <another>", remedy="do & see", subject="artifacts/distill/system1")
    svg = draw(bundle, [passed("bytes", "fine"), bad])
    assert svg.count("✗") == 1
    assert "✗ artifacts/distill/system1" in svg
    assert "it names &lt;another&gt;. do &amp; see" in svg
    for out in bundle.lock.outs.values():
        assert out.md5[:12] in svg
    assert "✗ code" in draw(bundle, [failed("code", "x", remedy="y", subject="library")])
    assert "✗ signed by" in draw(bundle, [failed("signature", "x", remedy="y")])


def test_the_page_is_whole_and_escapes_what_it_shows(pristine: Path) -> None:
    bundle = Bundle.open(pristine / "releases/r1")
    bad = failed("bytes", "<b>", remedy="<i>", expected="<u>", found="'\"&", subject="files/x")
    answer = Answer(question="<q>", text=f"<note> {TIME}", header=("a",), rows=(("<cell>",), ("0" * 40,)))
    text = render_audit(Verdict(release="r1<", checks=(bad,)), bundle, [answer])
    for raw in ("<b>x", "<i>", "<u>", "<note>", "<q>", "<cell>", "r1< "):
        assert raw not in text
    parser = Balance()
    parser.feed(text)
    assert parser.stack == []
    assert "does not pass" in text
    assert f"<td>{'0' * 12}…</td>" in text
    assert "<svg" not in render_audit(Verdict(release="r1", checks=(bad,)), None, [])


def test_boxes_lie_inside_the_picture_and_do_not_overlap(pristine: Path) -> None:
    bundle = Bundle.open(pristine / "releases/r1")
    outs = [tuple(FileRef(f"o{i}/{j}", "0" * 32, 1) for j in range(i + 1)) for i in range(8)]
    wide = Lock(tuple(StageRecord(f"s{i}", "x", (), own, {}) for i, own in enumerate(outs)))
    for lock in (bundle.lock, wide):
        svg = draw(Bundle(bundle.path, bundle.release, lock), [])
        found = re.search(r'viewBox="-2 -2 (\d+) (\d+)"', svg)
        assert found
        width, height = map(int, found.groups())
        numbers = re.findall(r'<rect x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"', svg)
        boxes = [tuple(map(int, own)) for own in numbers]
        assert len(boxes) == len(lock.stages) + 2
        assert all(x + w <= width and y + h <= height for x, y, w, h in boxes)
        for (x, y, w, h), (a, b, c, d) in combinations(boxes, 2):
            assert x + w <= a or a + c <= x or y + h <= b or b + d <= y
