from pathlib import Path

import pytest

from dualmind.data.validation import open_validated
from stages.compress import CompressSystem1Params, CompressSystem2Params, compress
from stages.prepare import prepare_household, prepare_reasoning
from stages.pretrain import pretrain
from stages.validate import SUITES as NAMES
from stages.validate import validate
from tests.stages.test_prepare import PREPARE, REASONING, household
from tests.stages.test_pretrain import CLONING, PARAMS, RUN, SUITES, SYSTEM2

LEARNT = PARAMS.model_copy(update={"cloning": CLONING.model_copy(update={"steps": 150})})  # it gets some answers right
SMALLER_ONE = CompressSystem1Params(max_judged=1000, tolerance=0.5)
SMALLER_TWO = CompressSystem2Params(
    max_judged=20, tolerance=0.9, keep_experts=2, sparsity=0.5, recovery=CLONING.model_copy(update={"steps": 4})
)


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a pair was cloned and made small, as it is calibrated and judged."""
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
        one = pretrain(LEARNT, RUN, decisions, Path("artifacts/pretrain/system1"))
        two = pretrain(SYSTEM2, RUN, decisions, Path("artifacts/pretrain/system2"))
        compress(SMALLER_ONE, LEARNT, RUN, one, decisions, Path("artifacts/compress/system1"))
        compress(SMALLER_TWO, SYSTEM2, RUN, two, decisions, Path("artifacts/compress/system2"))
    return root
