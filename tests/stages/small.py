"""A small validated data set and a small pair cloned from it, shared by the tests of later stages."""

from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

from dualmind.data.suites import SuiteParams
from dualmind.data.validation import ValidatedDataset, open_validated
from dualmind.domains.reasoning.generate import Mix
from dualmind.models.checkpoint import Checkpoint
from stages.params import RunParams
from stages.prepare import NumQuestions, ReasoningParams, prepare_household, prepare_reasoning
from stages.pretrain import System1Params, System2Params, pretrain
from stages.validate import SUITES, validate
from tests.learning import test_cloning
from tests.learning.demonstrations import SMALL
from tests.models.test_compression import REASONER
from tests.stages.test_prepare import PREPARE, household

RUN = RunParams(seed=0, threads=1)
CLONING = test_cloning.PARAMS.model_copy(update={"steps": 30})
SYSTEM1 = System1Params(model=SMALL, hard_share=1.0, cloning=CLONING)
SYSTEM2 = System2Params(model=REASONER, direct_share=0.0, cloning=CLONING)
FAMILIES = [
    "arithmetic",
    "boolean",
    "brackets",
    "counting",
    "keys",
    "navigation",
    "ordering",
    "sorting",
    "swaps",
    "truth",
]
_MIX = Mix(easy_share=None, max_hops=3)


@lru_cache
def data() -> dict[str, dict[str, ValidatedDataset]]:
    """Decisions and problems of both domains."""
    root = Path(mkdtemp(prefix="dualmind-stages-"))
    prepare_household(PREPARE, household(), root / "prepare" / "household")
    numbers = NumQuestions(train=120, valid_train=40, valid_seen=10, valid_unseen=10)
    reasoning = ReasoningParams(families=FAMILIES, num_questions=numbers, training_mix=_MIX, traffic_mix=_MIX, seed=0)
    prepare_reasoning(PREPARE, reasoning, root / "prepare" / "reasoning")
    suite = SuiteParams(min_decisions=10, min_problems=10, max_prompt_chars=4000)
    for domain, names in SUITES.items():
        validate(suite, names, root / "prepare" / domain, root / "validate" / domain)
    return {
        name: {domain: open_validated(root / "validate" / domain / f"{name}.json") for domain in SUITES}
        for name in ("decisions", "problems")
    }


@lru_cache
def pair() -> tuple[Checkpoint, Checkpoint]:
    """System 1 and System 2."""
    root = Path(mkdtemp(prefix="dualmind-pair-"))
    decisions = data()["decisions"]
    return pretrain(SYSTEM1, RUN, decisions, root / "one"), pretrain(SYSTEM2, RUN, decisions, root / "two")
