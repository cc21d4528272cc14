from pathlib import Path

import pytest
import yaml

from dualmind.errors import PipelineError
from dualmind.storage import write_text
from stages.report import is_current, main
from tests.stages.test_evaluate import EVALUATE, run
from tests.stages.test_pretrain import RUN


def test_report_is_made_again_only_where_it_is_not_that_of_the_metrics(
    pair: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = run(pair, "artifacts/evaluate", monkeypatch)
    params = {"run": RUN.model_dump(), "evaluate": EVALUATE.model_dump()}
    write_text(pair / "params.yaml", yaml.safe_dump(params))
    report, metrics = out / "report.html", out / "metrics.json"
    made, figures = report.read_bytes(), metrics.read_bytes()
    main()
    assert report.read_bytes() == made

    report.unlink()  # as after a clone, where DVC restores its outputs from a cache
    assert not is_current(out)
    main()
    assert is_current(out)
    assert metrics.read_bytes() == figures
    assert "Your task is to" in report.read_text()

    write_text(metrics, (run(pair, "d", monkeypatch, max_steps=5) / "metrics.json").read_text())  # those of another run
    assert not is_current(out)
    with pytest.raises(PipelineError, match="other figures than playing again gives"):
        main()
    params["evaluate"]["max_steps"] = 5
    write_text(pair / "params.yaml", yaml.safe_dump(params))
    main()
    assert is_current(out)

    metrics.unlink()
    with pytest.raises(PipelineError, match=r"metrics\.json cannot be read .*run `dvc repro`"):
        main()
