"""All results on one page, and the README's table of them.

python -m benchmarks.report            # benchmarks/results/report.html
python -m benchmarks.report --readme   # also rewrites the table in README.md
"""

import json
import sys
from typing import Any

from benchmarks.results_file import RESULTS
from dualmind.html import page, table
from dualmind.storage import write_text

README = RESULTS.parents[1] / "README.md"
BEGIN, END = "<!-- results: made by `python -m benchmarks.report --readme` -->", "<!-- end of results -->"


def read_rows() -> list[dict[str, Any]]:
    """All rows of all results, by file name."""
    return [row for path in sorted(RESULTS.glob("*.json")) for row in json.loads(path.read_text(encoding="utf-8"))]


def cells(row: dict[str, Any]) -> list[str]:
    """Claim, value with its interval, target, verdict and baseline as texts."""
    if row["value"] is None:
        return [row["claim"], "not measured", _number(row["target"]), "-", row["baseline"]]
    value = f"{_number(row['value'])} {row['unit']} ({_number(row['low'])} - {_number(row['high'])})"
    verdict = "-" if row["reached"] is None else "reached" if row["reached"] else "not reached"
    return [row["claim"], value, _number(row["target"]), verdict, row["baseline"]]


def readme_table(rows: list[dict[str, Any]]) -> str:
    """The results as Markdown."""
    lines = ["| measure | result (95 % interval) | target | | beside |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(cells(row))} |" for row in rows]
    return "\n".join(lines)


def with_table(readme: str, rows: list[dict[str, Any]]) -> str:
    """The README with its table replaced."""
    head, rest = readme.split(BEGIN)
    return f"{head}{BEGIN}\n\n{readme_table(rows)}\n\n{END}{rest.split(END)[1]}"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def main(arguments: list[str]) -> None:
    """Write the page, and the README's table if asked."""
    rows = read_rows()
    header = ["measure", "result (95 % interval)", "target", "", "beside", "seeds", "command", "commit", "minutes"]
    body = [[*cells(r), str(r["seeds"]), r["command"], r["commit"], f"{r['minutes']:.1f}"] for r in rows]
    machines = sorted({f"{r['cpu']}, {r['threads']} thread(s)" for r in rows})
    lead = f"Each row is measured by its command. Machine: {'; '.join(machines)}."
    write_text(RESULTS / "report.html", page("dualmind: measured claims", lead, [table(header, body)]))
    if "--readme" in arguments:
        write_text(README, with_table(README.read_text(encoding="utf-8"), rows))
    print(RESULTS / "report.html")


if __name__ == "__main__":
    main(sys.argv[1:])
