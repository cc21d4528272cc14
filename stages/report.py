"""Makes evaluate's report again where DVC took that stage's outputs from its cache instead of running it.

python -m stages.report

``timing.json`` and ``report.html`` hold wall times, so they are no outputs, and no cache has them. This is no stage
either: nothing depends on it, and DVC does not know it.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from dualmind.data.validation import Receipt
from dualmind.errors import PipelineError
from dualmind.evaluation.report import Timing, render_report
from dualmind.storage import write_text

_OUT = Path("artifacts/evaluate")
_TRAINING = Path("artifacts/pretrain/system1.json")
_DATA = Path("artifacts/prepare/household/summary.json")
_RECEIPTS = [
    Path(f"artifacts/validate/{name}.json")
    for name in ("household/decisions", "household/problems", "reasoning/problems")
]


def is_current(out: Path) -> bool:
    """Whether ``report.html`` of ``out`` shows what the stages made, and the times of ``timing.json``.

    All but the games at its end is rendered again and compared.

    Raises:
        PipelineError: a stage has not run.
    """
    metrics, training, data = map(_read, (out / "metrics.json", _TRAINING, _DATA))
    try:
        page = (out / "report.html").read_text(encoding="utf-8")
        timing = Timing(**json.loads((out / "timing.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return False
    expected = render_report(metrics, timing, training, data, [], receipts=[Receipt.read(path) for path in _RECEIPTS])
    return page.startswith(expected[: expected.rindex("</section>")])


def main(out: Path = _OUT) -> None:
    """Play and time again, if need be, and write ``timing.json`` and ``report.html``; outputs of DVC stay as they are.

    Raises:
        PipelineError: a stage has not run, or playing gives other metrics than those that are there.
    """
    if is_current(out):
        return
    from stages.evaluate import EvaluateParams, Judged, evaluate, open_data
    from stages.params import RunParams, load_params

    print("the report is not that of these metrics: playing again", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder)
        params, run = load_params(EvaluateParams, "evaluate"), load_params(RunParams, "run")
        evaluate(params, run, Judged.load(Path("artifacts")), open_data(), again)
        if _read(again / "metrics.json") != _read(out / "metrics.json"):
            raise PipelineError(
                f"{out}/metrics.json holds other figures than playing again gives: stages are not up to date, or it "
                "comes from a machine that computes otherwise; run `dvc repro --force --single-item evaluate`"
            )
        for name in ("timing.json", "report.html"):
            write_text(out / name, (again / name).read_text(encoding="utf-8"))


def _read(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PipelineError(f"{path} cannot be read ({error}); run `dvc repro`") from error
    return content


if __name__ == "__main__":
    main()
