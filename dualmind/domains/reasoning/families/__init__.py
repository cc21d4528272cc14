"""Families of questions, one module per subject."""

from dualmind.domains.reasoning.families.arithmetic import Arithmetic
from dualmind.domains.reasoning.families.keys import Keys
from dualmind.domains.reasoning.families.swaps import Swaps
from dualmind.domains.reasoning.question import Family

FAMILIES: tuple[Family, ...] = (Arithmetic(), Swaps(), Keys())
