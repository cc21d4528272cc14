"""Gates a domain's data sets: what is not validated here is not read by any later stage."""

import sys
from collections.abc import Sequence
from pathlib import Path

from dualmind.data.suites import SuiteName, SuiteParams
from dualmind.data.summary import render_summary
from dualmind.data.validation import ValidatedDataset
from dualmind.data.validation import validate as validate_dataset
from dualmind.errors import ValidationFailed
from dualmind.storage import write_text
from stages.params import load_params

SUITES: dict[str, tuple[SuiteName, ...]] = {
    "household": ("household decisions", "household problems"),
    "reasoning": ("reasoning decisions", "reasoning problems"),
}


def validate(params: SuiteParams, suites: Sequence[SuiteName], prepared: Path, out: Path) -> list[ValidatedDataset]:
    """Validate each suite's Parquet file in ``prepared``; write receipts and a page to ``out``.

    All data sets are judged before the first failure stops the run, so that one run shows everything to correct.

    Raises:
        ValidationFailed: a data set did not pass; no receipt of it and no page is written.
    """
    summary = out / "summary.html"
    summary.unlink(missing_ok=True)  # it must not speak for data that may fail now
    datasets, failures = [], []
    for suite in suites:
        try:
            name = suite.split()[-1]  # "decisions" or "problems", of a domain
            datasets.append(validate_dataset(prepared / f"{name}.parquet", suite, params, out / f"{name}.json"))
        except ValidationFailed as error:
            failures.append(str(error))
    if failures:
        raise ValidationFailed("\n".join(failures))
    write_text(summary, render_summary(datasets))
    return datasets


def main(item: str) -> None:
    """Run the stage in the current folder."""
    params = load_params(SuiteParams, f"validate.{item}")
    validate(params, SUITES[item], Path("artifacts/prepare") / item, Path("artifacts/validate") / item)


if __name__ == "__main__":
    main(sys.argv[1])
