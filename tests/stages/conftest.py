from pathlib import Path

import pytest

from dualmind.data.validation import open_validated
from stages.prepare import prepare_household, prepare_reasoning
from stages.pretrain import pretrain
from stages.validate import SUITES as NAMES
from stages.validate import validate
from tests.stages.test_prepare import PREPARE, REASONING, household
from tests.stages.test_pretrain import PARAMS, RUN, SUITES, SYSTEM2


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which all stages up to the cloning of both systems have run."""
    root = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        prepare_household(PREPARE, household(), Path("artifacts/prepare/household"))
        prepare_reasoning(PREPARE, REASONING, Path("artifacts/prepare/reasoning"))
        for name in ("household", "reasoning"):
            validate(SUITES, NAMES[name], Path(f"artifacts/prepare/{name}"), Path(f"artifacts/validate/{name}"))
        decisions = {
            name: open_validated(Path(f"artifacts/validate/{name}/decisions.json"))
            for name in ("household", "reasoning")
        }
        pretrain(PARAMS, RUN, decisions, Path("artifacts/pretrain/system1"))
        pretrain(SYSTEM2, RUN, decisions, Path("artifacts/pretrain/system2"))
    return root
