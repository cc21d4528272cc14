"""Families of questions, one module per subject."""

from dualmind.domains.reasoning.families.arithmetic import Arithmetic
from dualmind.domains.reasoning.families.brackets import Brackets
from dualmind.domains.reasoning.families.keys import Keys
from dualmind.domains.reasoning.families.lists import Counting, Sorting
from dualmind.domains.reasoning.families.logic import Boolean, Truth
from dualmind.domains.reasoning.families.navigation import Navigation
from dualmind.domains.reasoning.families.ordering import Ordering
from dualmind.domains.reasoning.families.swaps import Swaps
from dualmind.domains.reasoning.question import TextFamily

FAMILIES: tuple[TextFamily, ...] = (
    Arithmetic(),
    Swaps(),
    Ordering(),
    Boolean(),
    Truth(),
    Navigation(),
    Brackets(),
    Keys(),
    Counting(),
    Sorting(),
)
