"""The page of an audit: the lineage as a picture, each digest green or red, every answer with why and what to do."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import PurePosixPath

from dualmind.html import page, table, tiles
from dualmind.lineage.bundle import Bundle
from dualmind.lineage.checks import Check
from dualmind.lineage.graph import levels
from dualmind.lineage.queries import Answer
from dualmind.lineage.record import FILES
from dualmind.lineage.verify import Verdict

_WIDTH, _LINE, _GAP, _COLUMNS = 296, 17, 34, 3  # pixels; boxes side by side
_OF_COMMIT = {"commit": "commit", "tree": "commit", "lock": "dvc.lock", "code": "code", "params": "params.yaml",
              "documents": "params.yaml"}  # fmt: skip
_DIGEST = re.compile(r"[0-9a-f]{32,64}(\.dir)?")
_OF_RELEASE = {"files", "bytes", "signature", "name", "key", "ledger", "record", "provenance"}


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    digest: str
    failures: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class _Box:
    name: str
    lines: tuple[_Line, ...]
    parents: tuple[str, ...]

    @property
    def height(self) -> int:
        return 34 + _LINE * len(self.lines)

    @property
    def ok(self) -> bool:
        return not any(line.failures for line in self.lines)


def render_audit(verdict: Verdict, bundle: Bundle | None, answers: Sequence[Answer]) -> str:
    """The whole page, self-contained.

    Args:
        verdict: what was checked.
        bundle: the release; None where it cannot be opened, and so not drawn.
        answers: to what else was asked, such as what served when.
    """
    bad = len(verdict.failures)
    word = "passes" if verdict.ok else "does not pass"
    sections = [
        tiles([("questions asked", str(len(verdict.checks))), ("answered badly", str(bad)), ("verdict", word)]),
        "<h2>Answers</h2>" + _answers(sorted(verdict.checks, key=lambda own: own.ok)),
    ]
    if bundle is not None:
        sections.insert(1, f'<h2>Lineage</h2><div class="scroll">{draw(bundle, verdict.checks)}</div>')
    for own in answers:
        rows = [[_shorten(cell) for cell in row] for row in own.rows]
        body = table(list(own.header), rows) if rows else ""
        sections.append(f"<h2>{escape(own.question)}</h2><p>{escape(own.text)}</p>{body}")
    lead = "Every question that was asked of it, with what was expected, what was found, and what to do."
    return page(f"Release {verdict.release} {word}", lead, sections)


def _shorten(text: str) -> str:
    """A digest by its first digits; the JSON beside the page holds all of them."""
    return f"{text[:12]}…" if _DIGEST.fullmatch(text) else text


def _answers(checks: Sequence[Check]) -> str:
    rows = "".join(
        f'<tr><td class="{"good" if own.ok else "bad"}">{"ok" if own.ok else "failed"}</td><td>{escape(own.name)}</td>'
        f"<td>{escape(own.reason)}</td><td>{_code(own.expected)}</td><td>{_code(own.found)}</td>"
        f"<td>{escape(own.remedy)}</td></tr>"
        for own in checks
    )
    head = "".join(f"<th>{name}</th>" for name in ("verdict", "question", "why", "expected", "found", "what to do"))
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _code(text: str) -> str:
    return f'<code style="overflow-wrap:anywhere">{escape(text[:300])}</code>' if text else ""


def draw(bundle: Bundle, checks: Sequence[Check]) -> str:
    """The lineage as SVG, from the commit on top to the release at the bottom; a pointer on a line tells why."""
    boxes = _boxes(bundle, checks)
    depth = levels({name: box.parents for name, box in boxes.items()})
    rows = [[box for name, box in boxes.items() if depth[name] == level] for level in sorted({*depth.values()})]
    place: dict[str, tuple[int, int]] = {}
    top, parts = 0, []
    for row in rows:
        for start in range(0, len(row), _COLUMNS):
            part = row[start : start + _COLUMNS]
            left = (_COLUMNS - len(part)) * (_WIDTH + 20) // 2
            for index, box in enumerate(part):
                place[box.name] = (left + index * (_WIDTH + 20), top)
            top += max(box.height for box in part) + _GAP
    for name, box in boxes.items():
        parts += [_arrow(place[parent], boxes[parent].height, place[name]) for parent in box.parents if parent in place]
    parts += [_draw_box(box, *place[name]) for name, box in boxes.items()]
    width = _COLUMNS * (_WIDTH + 20) - 20
    return f'<svg viewBox="-2 -2 {width + 4} {top}" role="img" aria-label="lineage">{"".join(parts)}</svg>'


def _boxes(bundle: Bundle, checks: Sequence[Check]) -> dict[str, _Box]:
    """One box for the commit, each stage, and the release; names of stages come from a file, so they are prefixed."""
    bad = [own for own in checks if not own.ok]
    release, lock = bundle.release, bundle.lock

    def of_commit(word: str) -> tuple[Check, ...]:
        return tuple(own for own in bad if _OF_COMMIT.get(own.name) == word)

    source = [
        _Line(word, release.commit[:12], of_commit(word)) for word in ("commit", "code", "params.yaml", "dvc.lock")
    ]
    boxes = {"commit": _Box("commit", tuple(source), ())}
    made_from = {s.name: {lock.makers[o.path] for d in s.deps if (o := lock.made_by(d.path))} for s in lock.stages}
    for stage in lock.stages:
        lines = [
            _Line(out.path, out.md5[:12], tuple(own for own in bad if _is_about(own, out.path))) for out in stage.outs
        ]
        again = tuple(own for own in bad if own.name == "reexecute" and own.subject == stage.name)
        lines += [_Line("run again", "", again)] if again else []
        parents = sorted(f"stage {name}" for name in made_from[stage.name] - {stage.name}) or ["commit"]
        boxes[f"stage {stage.name}"] = _Box(f"stage {stage.name}", tuple(lines), tuple(parents))
    last = {f"stage {s.name}" for s in lock.stages} - {p for box in boxes.values() for p in box.parents}
    own_files = tuple(own for own in bad if own.name in _OF_RELEASE)
    lines = [_Line("signed by " + release.signer.name, release.signer.fingerprint[:12], own_files)]
    boxes["release"] = _Box("release", tuple(lines), tuple(sorted(last)))
    return boxes


def _is_about(check: Check, path: str) -> bool:
    """Whether a failure is about an output, a part of it, or a folder that holds it."""
    if check.name in _OF_COMMIT or not check.subject:
        return False
    subject, own = PurePosixPath(check.subject.removeprefix(f"{FILES}/")), PurePosixPath(path)
    return subject == own or own in subject.parents or subject in own.parents


def _draw_box(box: _Box, x: int, y: int) -> str:
    color = "var(--good)" if box.ok else "var(--bad)"
    lines = "".join(
        f'<g><title>{escape(_why(line))}</title><text x="{x + 12}" y="{y + 40 + _LINE * i}" '
        f'style="fill:{"var(--good)" if not line.failures else "var(--bad)"};font-size:11px">'
        f"{'✓' if not line.failures else '✗'} {escape(_short(line.text))}</text>"
        f'<text x="{x + _WIDTH - 10}" y="{y + 40 + _LINE * i}" text-anchor="end" class="soft" '
        f'style="font:10px ui-monospace,monospace">{escape(line.digest)}</text></g>'
        for i, line in enumerate(box.lines)
    )
    return (
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{box.height}" rx="8" '
        f'style="fill:var(--back);stroke:{color};stroke-width:1.5"/>'
        f'<text x="{x + 12}" y="{y + 20}" style="font-weight:600">{escape(box.name[:40])}</text>{lines}'
    )


def _why(line: _Line) -> str:
    reasons = [f"{own.reason}. {own.remedy}" for own in line.failures]
    return "\n".join(reasons) if reasons else f"{line.text} {line.digest}: as it should be"


def _short(text: str) -> str:
    return text if len(text) <= 34 else f"…{text[-33:]}"


def _arrow(start: tuple[int, int], height: int, end: tuple[int, int]) -> str:
    x0, y0, x1, y1 = start[0] + _WIDTH // 2, start[1] + height, end[0] + _WIDTH // 2, end[1]
    middle = (y0 + y1) // 2
    return (
        f'<path d="M{x0} {y0} C{x0} {middle} {x1} {middle} {x1} {y1}" '
        'style="fill:none;stroke:var(--soft);stroke-width:1.2"/>'
    )
