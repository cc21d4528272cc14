from pathlib import Path

import pytest

from dualmind.data.validation import open_validated
from stages.prepare import prepare_household
from stages.pretrain import pretrain
from stages.validate import SUITES as NAMES
from stages.validate import validate
from tests.stages.test_prepare import PREPARE, household
from tests.stages.test_pretrain import PARAMS, RUN, SUITES


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which all stages before ``evaluate`` have run."""
    root = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        prepare_household(PREPARE, household(), Path("artifacts/prepare/household"))
        validate(SUITES, NAMES["household"], Path("artifacts/prepare/household"), Path("artifacts/validate/household"))
        decisions = open_validated(Path("artifacts/validate/household/decisions.json"))
        pretrain(PARAMS, RUN, {"household": decisions}, Path("artifacts/pretrain/system1"))
    return root
