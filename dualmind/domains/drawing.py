"""How many problems are drawn of each split, and from which seed: checked alike in all domains."""

from collections.abc import Mapping

from dualmind.domains.base import SPLITS, Split
from dualmind.errors import DualmindError


def check_numbers(num: Mapping[Split, int], seed: int, domain: str, name: str, error: type[DualmindError]) -> None:
    """Refuse what nothing can be drawn by.

    Args:
        num: problems of each split.
        seed: of everything.
        domain: whose params they are, for the message.
        name: of ``num`` among them.
        error: what is raised.

    Raises:
        DualmindError: of the class ``error``: a number or the seed is negative, a split is unknown, or nothing is
            asked for.
    """
    if seed < 0:
        raise error(f"{domain}.seed = {seed}: give a seed of at least 0")
    if unknown := num.keys() - set(SPLITS):
        raise error(f"{domain}.{name} has the split {min(unknown)!r}; give only {', '.join(SPLITS)}")
    if any(number < 0 for number in num.values()) or not any(num.values()):
        raise error(f"{domain}.{name} = {dict(num)}: give numbers of at least 0, and one above 0")
