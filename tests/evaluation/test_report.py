import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from dualmind.domains.household.game import TASK_TYPES
from dualmind.evaluation import report
from dualmind.evaluation.plots import _percent, _ticks, bars, lines
from dualmind.evaluation.report import render_report
from tests.evaluation.sample import DATA, METRICS, RECEIPTS, SAMPLES, TASKS, TIMING, TRAINING


@pytest.fixture(scope="module")
def page() -> str:
    return render_report(METRICS, TIMING, TRAINING, DATA, SAMPLES, receipts=RECEIPTS)


class Tags(HTMLParser):
    """Checks that tags are closed in order, and keeps all attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_asks_nothing_of_anybody(page: str) -> None:
    tags = Tags()
    tags.feed(page)
    tags.close()
    assert tags.open == []
    assert not {"src", "href", "srcset", "onclick", "onload"} & {name for name, _ in tags.attributes}
    assert not re.search(r"https?:|<script|@import|url\(", page)


def test_the_page_shows_all_that_was_measured(page: str) -> None:
    for text in (
        "valid unseen, sampled (134)",
        "4 sub-goals (17)",
        "pick two and place (17)",
        "1.4 / 2.6 ms",
        "4,213",
        "161,024",
        "0.64 MB",
        "97.1%",
        RECEIPTS[0].md5,
        "share of games over commands",
        "training loss, nats over optimiser steps",
    ):
        assert text in page


def test_every_task_type_has_a_name_for_people() -> None:
    assert set(report._TASKS) == set(TASK_TYPES) == set(TASKS)


def test_what_a_game_says_is_shown_as_text(page: str) -> None:
    assert "put a &lt;mug&gt; in sink." in page
    assert "<mug>" not in page


def test_without_receipts_the_page_has_no_empty_section() -> None:
    assert "Validated data" not in render_report(METRICS, TIMING, TRAINING, DATA, SAMPLES)


def test_bars_and_whiskers_are_as_long_as_their_figures() -> None:
    svg = ET.fromstring(bars([("a & b", 0.5, 0.25, 1.0)]))
    whole = 352
    rect = next(svg.iter("rect"))
    assert float(rect.attrib["width"]) == pytest.approx(0.5 * whole)
    whisker = next(path for path in svg.iter("path") if "stroke" in path.attrib).attrib["d"]
    low, high = (float(x) for x in re.findall(r"^M([\d.]+) \d+H([\d.]+)", whisker)[0])
    assert high - low == pytest.approx(0.75 * whole)
    assert svg.findtext("title") == "a & b: 50.0%, 25.0% to 100%"


def test_a_line_stays_inside_its_plot_and_is_told_apart() -> None:
    svg = ET.fromstring(lines([("up", [(0, 0), (7, 3.3)]), ("down", [(0, 3.3), (7, 0)])], "steps", "loss"))
    _, _, width, height = map(float, svg.attrib["viewBox"].split())
    polylines = list(svg.iter("polyline"))
    for polyline in polylines:
        for point in polyline.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= width
            assert 0 <= y <= height
    assert "stroke-dasharray" not in polylines[0].attrib
    assert "stroke-dasharray" in polylines[1].attrib


def test_a_line_of_one_point_or_of_zeros_can_be_drawn() -> None:
    ET.fromstring(lines([("loss", [(0, 0)])], "steps", "loss"))


@pytest.mark.parametrize("largest", [1e-9, 0.0812, 0.3, 0.99, 1, 1.2, 2.2, 5, 7.3, 50, 1500, 123456])
def test_ticks_are_few_start_at_zero_and_reach_the_largest_value(largest: float) -> None:
    ticks = _ticks(largest)
    assert ticks[0] == 0
    assert ticks[-1] >= largest * (1 - 1e-9)
    assert 3 <= len(ticks) <= 6


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0%"), (1e-5, "<0.1%"), (0.5, "50.0%"), (0.99999, ">99.9%"), (1, "100%")]
)
def test_a_share_that_is_not_whole_does_not_look_whole(share: float, text: str) -> None:
    assert _percent(share) == text
