"""Receipts as a page for people."""

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

from dualmind.data.validation import ValidatedDataset, describe
from dualmind.html import page, table


def render_summary(datasets: Sequence[ValidatedDataset]) -> str:
    """One page over the receipts of data sets that passed their gate."""
    return page(
        "Validated data sets",
        "Each data set below met every expectation of its suite. Stages re-hash the file before they read it.",
        [_section(dataset.receipt) for dataset in datasets],
    )


def _section(receipt: Path) -> str:
    content = json.loads(receipt.read_text(encoding="utf-8"))
    rows = [
        [e["column"] or "table", e["expectation"].removeprefix("expect_").replace("_", " "), describe(e).split("; found ")[1]]
        for e in content["expectations"]
    ]
    return (
        f"<h2>{escape(content['dataset'])}</h2><p><span class='good'>passed</span> {len(rows)} expectations of suite "
        f"<code>{escape(content['suite'])}</code>, {content['rows']:,} rows, MD5 <code>{escape(content['md5'])}</code></p>"
        + table(["column", "expectation", "found"], rows)
    )
