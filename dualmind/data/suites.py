"""What each kind of data set must fulfil: all suites in one place, to be read from top to bottom.

Expectations are Great Expectations' own. What needs more than one cell is computed as a helper column beforehand
(``_with_...``), and an expectation on that column says what it must hold. A helper whose source columns are missing is
left out, so its expectation fails.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt

from dualmind.data import decisions, problems
from dualmind.data.validation import Suite, import_great_expectations
from dualmind.domains.base import SPLITS
from dualmind.domains.household.game import TASK_TYPES, Game
from dualmind.errors import GameError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_TYPES = {"string": "str", "int64": "int64", "double": "float64", "list": "ndarray"}  # Arrow's names as pandas 3 has them
_HOPS = (2, 4)  # sub-goals of the easiest and of the longest household task
_SOLVABLE_WITHIN = 50  # commands; ALFWorld's own limit on an episode


class Limits(BaseModel):
    """Sizes between which a data set is taken for sound."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_rows: PositiveInt
    max_rows: PositiveInt
    max_text_chars: PositiveInt  # of a prompt, a command, a rationale or a problem's text
