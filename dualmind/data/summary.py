"""Receipts as a page for people."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from dualmind.data.validation import Receipt, ValidatedDataset
from dualmind.html import page, table


def render_summary(datasets: Sequence[ValidatedDataset]) -> str:
    """One page over the receipts of data sets that passed their gate.

    Raises:
        ReceiptMismatch: a receipt is missing or broken.
    """
    return page(
        "Validated data sets",
        "Each data set below met every expectation of its suite. Stages re-hash the file before they read it.",
        [_section(Receipt.read(dataset.receipt)) for dataset in datasets],
    )


def _section(receipt: Receipt) -> str:
    rows = [
        [
            check.column or "(table)",
            check.expectation.removeprefix("expect_").replace("_", " "),
            ", ".join(f"{name.rstrip('_')} {value}" for name, value in check.expected.items()),
            check.observed,
        ]
        for check in receipt.expectations
    ]
    return (
        f"<h2>{escape(Path(receipt.dataset).name)}</h2><p><span class='good'>passed</span> all {len(rows)} "
        f"expectations of suite <code>{escape(receipt.suite)}</code>: {receipt.rows:,} rows, "
        f"MD5 <code>{escape(receipt.md5)}</code>, judged by {escape(receipt.library)}</p>"
        + table(["column", "expectation", "with", "found"], rows)
    )
