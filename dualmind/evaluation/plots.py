"""Small plots as inline SVG, 360 units wide so that they are readable on a phone and scale on a desk.

Colours come from the page's style (see :mod:`dualmind.html`), so they follow light and dark. Each plot says in words
what it shows, for readers who cannot see it.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape

_WIDTH = 360
_ROW = 44  # height of one bar with its label above it
_SHOWN_ALPHAS = 6  # bounds of a few answers are near 1 and would flatten all else


def bars(rows: Sequence[tuple[str, float, float, float]]) -> str:
    """Horizontal bars of shares with their intervals.

    Args:
        rows: (label, value, low, high), each share in 0..1; one bar each, from top to bottom.
    """
    height = _ROW * len(rows) + 24
    parts = [_grid_line(tick, len(rows)) for tick in (0, 0.25, 0.5, 0.75, 1)]
    parts += [_bar(_ROW * index, *row) for index, row in enumerate(rows)]
    texts = [(label, *map(_percent, shares)) for label, *shares in rows]
    words = "; ".join(f"{label}: {value}, {low} to {high}" for label, value, low, high in texts)
    return _svg(height, words, parts)


def lines(series: Sequence[tuple[str, Sequence[tuple[float, float]]]], x_label: str, y_label: str) -> str:
    """Lines over a common pair of axes that both start at 0.

    Args:
        series: (label, points (x, y) with x and y >= 0); told apart by their dashes, as named above the plot.
        x_label: what the horizontal axis counts, with its unit.
        y_label: what the vertical axis shows, with its unit.
    """
    points = [point for _, own in series for point in own]
    assert points, "a plot of lines needs a point"
    left, right, top, bottom = 44, 22, 40, 190
    x_ticks, y_ticks = _ticks(max(x for x, _ in points)), _ticks(max(y for _, y in points))

    def place_x(x: float) -> float:
        return left + (_WIDTH - left - right) * x / x_ticks[-1]

    def place_y(y: float) -> float:
        return bottom - (bottom - top) * y / y_ticks[-1]

    parts = [f'<text class="soft" x="{left}" y="{top - 10}">{escape(y_label)}</text>']
    for tick in y_ticks:
        y = place_y(tick)
        parts.append(f'<line class="grid" x1="{left}" x2="{_WIDTH - right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="soft" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for tick in x_ticks:
        x = place_x(tick)
        parts.append(f'<text class="soft" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>')
    for index, (_, own) in enumerate(series):
        path = " ".join(f"{place_x(x):.1f},{place_y(y):.1f}" for x, y in own)
        parts.append(f'<polyline class="line"{_dashes(index)} points="{path}"/>')
    parts += _legend([label for label, _ in series], left) if len(series) > 1 else []
    middle = (left + _WIDTH - right) / 2
    parts.append(f'<text class="soft" x="{middle}" y="{bottom + 33}" text-anchor="middle">{escape(x_label)}</text>')
    ends = [(label, *own[0], *own[-1]) for label, own in series]
    words = "; ".join(f"{label}: {y0:.3g} at {x0:g}, {y1:.3g} at {x1:g}" for label, x0, y0, x1, y1 in ends)
    return _svg(bottom + 40, f"{y_label} over {x_label}; {words}", parts)


def risk_plot(points: Sequence[Mapping[str, float]], alpha: float) -> str:
    """Error of the answers that System 1 keeps, over their share of all: as observed, its upper bound, and alpha.

    Args:
        points: of a risk curve, from strict to loose, with ``share``, ``n`` > 0, ``errors`` and ``upper_bound``.
        alpha: highest error rate that is allowed.
    """
    observed = [(point["share"], point["errors"] / point["n"]) for point in points]
    shown = [(p["share"], p["upper_bound"]) for p in points if p["upper_bound"] <= _SHOWN_ALPHAS * alpha]
    limit = [(0.0, alpha), (points[-1]["share"], alpha)]
    series = [("error", observed), ("bound", shown), ("alpha", limit)]
    return lines([own for own in series if own[1]], "System 1's share of decisions", "error of its answers")


def heat_map(names: Sequence[str], rows: Sequence[Sequence[float]]) -> str:
    """Shares in a square of cells, each the darker the larger, with its percentage.

    Args:
        names: of the columns, from left to right; rows have the same names, from top to bottom.
        rows: share 0..1 of each cell.
    """
    left, top, longest = 24, 22, 16.0 * len(names) + 8
    side = min(44.0, (_WIDTH - left) / len(names))
    parts = []
    for i, own in enumerate(rows):
        middle = top + side * (i + 0.5) + 4
        parts.append(f'<text class="soft" x="{left - 6}" y="{middle:.1f}" text-anchor="end">{i + 1}</text>')
        x = left + side * (i + 0.5)
        parts.append(f'<text class="soft" x="{x:.1f}" y="{top - 8}" text-anchor="middle">{i + 1}</text>')
        for j, share in enumerate(own):
            place = f'x="{left + side * j:.1f}" y="{top + side * i:.1f}"'
            shade = f'width="{side - 2:.1f}" height="{side - 2:.1f}" fill-opacity="{0.7 * share:.2f}"'
            parts.append(f'<rect class="mark" {place} {shade}/>')
            x = left + side * (j + 0.5) - 1
            parts.append(
                f'<text x="{x:.1f}" y="{middle:.1f}" text-anchor="middle" font-size="9">{100 * share:.0f}</text>'
            )
    bottom = top + side * len(rows)
    for i, name in enumerate(names):
        parts.append(f'<text class="soft" x="4" y="{bottom + 16 * (i + 1):.1f}">{i + 1} {escape(name)}</text>')
    texts = [f"after {name}: {', '.join(map(_percent, own))}" for name, own in zip(names, rows, strict=True)]
    return _svg(bottom + longest, "; ".join(texts), parts)


def _bar(top: float, label: str, value: float, low: float, high: float) -> str:
    middle = top + 29
    x_low, x_high = _place(low), _place(high)
    caps = "".join(f"M{x:.1f} {middle - 5}v10" for x in (x_low, x_high))
    return (
        f'<text x="{_place(0)}" y="{top + 15}">{escape(label)}</text>'
        f'<text x="{_place(1)}" y="{top + 15}" text-anchor="end">{_percent(value)} '
        f'<tspan class="soft">({_percent(low)} to {_percent(high)})</tspan></text>'
        f'<rect class="mark" x="{_place(0)}" y="{middle - 7}" width="{_place(value) - _place(0):.1f}" height="14" '
        f'rx="2" fill-opacity=".65"/>'
        f'<path d="M{x_low:.1f} {middle}H{x_high:.1f}{caps}" stroke="currentColor" stroke-width="1.5" fill="none"/>'
    )


def _grid_line(tick: float, num_rows: int) -> str:
    """A tick behind each bar, with its number below the last; labels stay clear of it."""
    x, anchor = _place(tick), {0.0: "start", 1.0: "end"}.get(tick, "middle")
    ticks = "".join(f"M{x:g} {_ROW * row + 19}v20" for row in range(num_rows))
    return (
        f'<path class="grid" d="{ticks}"/>'
        f'<text class="soft" x="{x:g}" y="{_ROW * num_rows + 15}" text-anchor="{anchor}">{tick:.0%}</text>'
    )


def _place(share: float) -> float:
    return 4 + (_WIDTH - 8) * share


def _percent(share: float) -> str:
    """A share in percent; a bound that is not 0 or 1 must not look as if it were."""
    text = f"{share:.1%}"
    return {"0.0%": "0%" if share == 0 else "<0.1%", "100.0%": "100%" if share == 1 else ">99.9%"}.get(text, text)


def _dashes(index: int) -> str:
    return f' stroke-dasharray="{4 * index} {3 * index}"' if index else ""


def _legend(labels: Sequence[str], left: float) -> list[str]:
    step = (_WIDTH - left) / len(labels)
    return [
        f'<line class="line" x1="{left + step * i:.0f}" x2="{left + step * i + 24:.0f}" y1="9" y2="9"{_dashes(i)}/>'
        f'<text x="{left + step * i + 30:.0f}" y="13">{escape(label)}</text>'
        for i, label in enumerate(labels)
    ]


def _ticks(largest: float) -> list[float]:
    """Three to six round numbers from 0 to at least ``largest``."""
    if largest <= 0:
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(largest))
    step = next(power * factor for factor in (0.2, 0.25, 0.5, 1.0, 2.0) if largest <= 5 * power * factor)
    return [step * i for i in range(math.ceil(largest / step - 1e-9) + 1)]


def _svg(height: float, words: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:g}" style="width:100%;max-width:30rem" role="img">'
        f"<title>{escape(words)}</title>{''.join(parts)}</svg>"
    )
