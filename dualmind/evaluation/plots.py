"""Small plots as inline SVG."""

from collections.abc import Sequence
from html import escape

_WIDTH = 640


def bars(rows: Sequence[tuple[str, float, float, float]]) -> str:
    """Horizontal bars of shares with their intervals: (label, value, low, high), each share in 0..1."""
    left, step = 240, 30
    scale = _WIDTH - left - 70
    height = step * len(rows) + 24
    parts = [
        f'<line class="grid" x1="{left + scale * t}" x2="{left + scale * t}" y1="0" y2="{height - 20}"/>'
        f'<text class="soft" x="{left + scale * t}" y="{height - 5}" text-anchor="middle">{t:.0%}</text>'
        for t in (0, 0.25, 0.5, 0.75, 1)
    ]
    for i, (label, value, low, high) in enumerate(rows):
        y = step * i + step / 2
        parts.append(
            f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{escape(label)}</text>'
            f'<rect class="mark" x="{left}" y="{y - 8}" width="{scale * value:.1f}" height="16" rx="2" opacity=".75"/>'
            f'<line class="whisker" x1="{left + scale * low:.1f}" x2="{left + scale * high:.1f}" y1="{y}" y2="{y}" '
            f'stroke="currentColor" stroke-width="2"/>'
            f'<text x="{left + scale + 12}" y="{y + 4}">{value:.1%}</text>'
        )
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="shares with intervals">{"".join(parts)}</svg>'


def lines(series: Sequence[tuple[str, Sequence[tuple[float, float]]]], x_label: str, y_label: str) -> str:
    """Lines over a common pair of axes: (label, points); the label stands at the line's end."""
    left, right, top, bottom, height = 52, 130, 12, 40, 260
    points = [point for _, own in series for point in own]
    x_max, y_max = max(x for x, _ in points) or 1, max(y for _, y in points) or 1

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            left + (_WIDTH - left - right) * x / x_max,
            top + (height - top - bottom) * (1 - y / y_max),
        )

    parts = []
    for tick in (0, 0.25, 0.5, 0.75, 1):
        (x0, y), (x1, _) = place(0, tick * y_max), place(x_max, 0)
        parts.append(f'<line class="grid" x1="{x0}" x2="{x1}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="soft" x="{x0 - 6}" y="{y + 4:.1f}" text-anchor="end">{tick * y_max:.3g}</text>')
        parts.append(
            f'<text class="soft" x="{place(tick * x_max, 0)[0]:.1f}" y="{height - 22}" text-anchor="middle">{tick * x_max:.0f}</text>'
        )
    for i, (label, own) in enumerate(series):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in own))
        x, y = place(*own[-1])
        dash = f' stroke-dasharray="{4 * i} {3 * i}"' if i else ""
        parts.append(f'<polyline class="line" points="{path}"{dash}/>')
        parts.append(f'<text x="{x + 8:.1f}" y="{y + 4 + 16 * i:.1f}">{escape(label)}</text>')
    parts.append(f'<text class="soft" x="{(_WIDTH - right + left) / 2}" y="{height - 4}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(f'<text class="soft" x="{left}" y="{top - 2}">{escape(y_label)}</text>')
    return f'<svg viewBox="0 -6 {_WIDTH} {height + 6}" role="img" aria-label="{escape(y_label)}">{"".join(parts)}</svg>'
