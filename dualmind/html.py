"""One look for every page that we write: self-contained, no script, no outside link, light and dark."""

from html import escape

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --soft: #5b6775; --line: #d9dee5; --card: #ffffff; --back: #f5f6f8;
  --accent: #2563b8; --good: #1b7f4b; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #9aa5b3; --line: #333c47; --card: #1b2129;
  --back: #12161b; --accent: #7fb0f2; --good: #5cc48f; --bad: #f2857d; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1rem 4rem; background: var(--back); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 0 0 .75rem; }
p.lead, .soft { color: var(--soft); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1.25rem;
  margin: 1.25rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; } .scroll { overflow-x: auto; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.good { color: var(--good); } .bad { color: var(--bad); }
code, pre { font-family: ui-monospace, Menlo, Consolas, monospace; }
pre { overflow-x: auto; font-size: .85rem; background: var(--back); padding: .75rem; border-radius: 6px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); gap: 1rem; }
.tile b { display: block; font-size: 1.5rem; } svg { max-width: 100%; height: auto; } svg text { fill: var(--ink);
  font: 13px system-ui, sans-serif; } svg .soft { fill: var(--soft); } svg .mark { fill: var(--accent); }
svg .line { stroke: var(--accent); fill: none; stroke-width: 2; } svg .grid { stroke: var(--line); }
"""


def page(title: str, lead: str, sections: list[str]) -> str:
    """A whole HTML page; ``sections`` are HTML, the title and the lead are plain text."""
    body = "\n".join(f"<section>{section}</section>" for section in sections)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>\n'
        f'<body><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>\n{body}\n</body></html>\n'
    )


def table(header: list[str], rows: list[list[str]], *, numbers: int = 0) -> str:
    """A table of plain texts; the last ``numbers`` columns are aligned as numbers."""
    first_number = len(header) - numbers

    def cell(tag: str, index: int, text: str) -> str:
        kind = ' class="number"' if index >= first_number else ""
        return f"<{tag}{kind}>{escape(text)}</{tag}>"

    head = "".join(cell("th", i, text) for i, text in enumerate(header))
    lines = "".join(f"<tr>{''.join(cell('td', i, text) for i, text in enumerate(row))}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


def tiles(values: list[tuple[str, str]]) -> str:
    """Large figures with their captions."""
    inner = "".join(
        f'<div class="tile"><b>{escape(v)}</b><span class="soft">{escape(c)}</span></div>' for c, v in values
    )
    return f'<div class="tiles">{inner}</div>'
