"""Gates a domain's data sets: what is not validated here is not read by any later stage."""

import sys
from pathlib import Path
from typing import get_args

from dualmind.data.suites import SuiteName, SuiteParams
from dualmind.data.summary import render_summary
from dualmind.data.validation import ValidatedDataset
from dualmind.data.validation import validate as validate_dataset
from dualmind.errors import ValidationFailed
from dualmind.storage import write_text
from stages.params import load_params


def validate(params: SuiteParams, prepared: Path, out: Path) -> list[ValidatedDataset]:
    """Validate ``decisions.parquet`` and ``problems.parquet`` of ``prepared``; write receipts and a page to ``out``.

    All data sets are judged before the first failure stops the run, so that one run shows everything to correct.

    Raises:
        ValidationFailed: a data set did not pass; no receipt of it and no page is written.
    """
    suites: tuple[SuiteName, ...] = get_args(SuiteName)
    summary = out / "summary.html"
    summary.unlink(missing_ok=True)  # it must not speak for data that may fail now
    datasets, failures = [], []
    for suite in suites:
        try:
            datasets.append(validate_dataset(prepared / f"{suite}.parquet", suite, params, out / f"{suite}.json"))
        except ValidationFailed as error:
            failures.append(str(error))
    if failures:
        raise ValidationFailed("\n".join(failures))
    write_text(summary, render_summary(datasets))
    return datasets


def main(item: str) -> None:
    """Run the stage in the current folder."""
    validate(load_params(SuiteParams, "validate"), Path("artifacts/prepare") / item, Path("artifacts/validate") / item)


if __name__ == "__main__":
    main(sys.argv[1])
