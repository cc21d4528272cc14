"""Draws the stage graph of dvc.yaml as an SVG for the README.

python -m tasks.picture docs/pipeline.svg
"""

import sys
import textwrap
from collections.abc import Mapping
from html import escape
from pathlib import Path

from dualmind.storage import write_text
from tasks.graph import Stage, read_graph

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 250, 96, 60, 28, 12


def draw(graph: Mapping[str, Stage]) -> str:
    """The graph from left to right: a column for each distance from the start, an arrow for each dependency."""
    column: dict[str, int] = {}
    for name, stage in graph.items():  # parents come first
        column[name] = 1 + max((column[parent] for parent in stage.parents), default=-1)
    row: dict[str, int] = {}
    for name in graph:
        row[name] = sum(column[other] == column[name] for other in row)
    place = {
        name: (_MARGIN + column[name] * (_WIDTH + _GAP_X), _MARGIN + row[name] * (_HEIGHT + _GAP_Y)) for name in graph
    }
    width = max(x for x, _ in place.values()) + _WIDTH + _MARGIN
    height = max(y for _, y in place.values()) + _HEIGHT + _MARGIN + 24 * (max(column.values()) > 1)
    arrows = "".join(_arrow(parent, name, place, column) for name, stage in graph.items() for parent in stage.parents)
    boxes = "".join(_box(stage, *place[name]) for name, stage in graph.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" role="img" aria-label="stage graph">\n'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#68727f"/></marker></defs>\n'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n{arrows}{boxes}</svg>\n'
    )


def _box(stage: Stage, x: int, y: int) -> str:
    lines = textwrap.wrap(stage.description, 34)[:3]
    text = "".join(
        f'<text x="{x + 14}" y="{y + 46 + 17 * i}" font-size="13" fill="#4a5563">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )
    return (
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="9" fill="#eef3fb" stroke="#2563b8"/>'
        f'<text x="{x + 14}" y="{y + 25}" font-size="15" font-weight="600" fill="#1d2733">'
        f"{escape(stage.name)}</text>{text}\n"
    )


def _arrow(parent: str, child: str, place: Mapping[str, tuple[int, int]], column: Mapping[str, int]) -> str:
    (x0, y0), (x1, y1) = place[parent], place[child]
    style = 'fill="none" stroke="#68727f" stroke-width="1.5" marker-end="url(#tip)"'
    if column[child] - column[parent] == 1:
        return f'<path d="M{x0 + _WIDTH} {y0 + _HEIGHT // 2} L{x1} {y1 + _HEIGHT // 2}" {style}/>\n'
    # a longer way runs below the boxes, so that it crosses none
    low, start, end = (
        y0 + _HEIGHT + 16,
        x0 + _WIDTH // 2 + 8 * column[child],
        x1 + _WIDTH // 2 - 12 * (column[child] - column[parent]),
    )
    return f'<path d="M{start} {y0 + _HEIGHT} V{low} H{end} V{y1 + _HEIGHT}" {style}/>\n'


if __name__ == "__main__":
    write_text(Path(sys.argv[1]), draw(read_graph(Path.cwd())))
