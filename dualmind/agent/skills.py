"""A library of skills: what worked is kept under a name, with the domain it came from, and offered in other domains.

A skill says what kind of commands it takes. Domains sort their commands into the same three roles, so a skill of one
can be tried in another; each domain keeps its own count of what a skill was good for there.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from dualmind.errors import SkillError
from dualmind.evaluation.intervals import wilson
from dualmind.storage import write_json

Role = Literal["look", "examine", "act"]  # see something new; look closely at one thing; change something
ROLES: tuple[Role, ...] = get_args(Role)
_MIN_USES = 50  # before a skill can be dropped
_FLOOR = 0.1  # a skill is dropped where its share of successes is below this for sure


@dataclass(frozen=True, slots=True)
class Skill:
    """A named way to go on for some steps."""

    name: str
    domain: str  # where it came from
    roles: tuple[Role, ...]  # of the commands that it takes, at least one


@dataclass(frozen=True, slots=True)
class Count:
    """How often a skill was used in a domain, and how often to some good."""

    uses: int = 0
    successes: int = 0  # 0..uses

    @property
    def share(self) -> float:
        """Share of successes, one half where nothing is known (Laplace's rule)."""
        return (self.successes + 1) / (self.uses + 2)

    @property
    def works(self) -> bool:
        """Could its true share of successes be at least the floor? Judged by Wilson's interval at 95 %."""
        return self.uses < _MIN_USES or wilson(self.successes, self.uses).high >= _FLOOR


class SkillLibrary:
    """Skills by name, with a count for every domain that tried them."""

    def __init__(self, skills: Sequence[Skill] = ()) -> None:
        """``skills`` are the first ones; see :meth:`add`."""
        self._skills: dict[str, Skill] = {}
        self._counts: dict[tuple[str, str], Count] = {}
        for skill in skills:
            self.add(skill)

    def add(self, skill: Skill) -> None:
        """Take in a skill.

        Raises:
            SkillError: the name is taken by another one, or it has no role or an unknown one.
        """
        if self._skills.get(skill.name, skill) != skill:
            raise SkillError(f"the name {skill.name!r} is that of {self._skills[skill.name]}; give the new one another")
        if not skill.roles or set(skill.roles) - set(ROLES):
            raise SkillError(f"skill {skill.name!r} has the roles {skill.roles}; give some of {', '.join(ROLES)}")
        self._skills[skill.name] = skill

    def offered(self, domain: str) -> tuple[Skill, ...]:
        """Skills to try in a domain: its own, without which nothing could be done, and others' that may work there."""
        return tuple(
            skill for skill in self._skills.values() if skill.domain == domain or self.count(skill.name, domain).works
        )

    def count(self, name: str, domain: str) -> Count:
        """What a skill was good for in a domain."""
        return self._counts.get((name, domain), Count())

    def record(self, name: str, domain: str, success: bool) -> None:
        """Count a use.

        Raises:
            SkillError: there is no such skill.
        """
        if name not in self._skills:
            raise SkillError(f"there is no skill {name!r} to count; known: {', '.join(self._skills) or 'none'}")
        old = self.count(name, domain)
        self._counts[name, domain] = Count(old.uses + 1, old.successes + success)

    def save(self, path: Path) -> None:
        """Write all as JSON, atomically.

        Raises:
            StorageError: the file cannot be written; what was there is unchanged.
        """
        value = [
            {
                "name": skill.name,
                "domain": skill.domain,
                "roles": list(skill.roles),
                "counts": {d: [c.uses, c.successes] for (n, d), c in self._counts.items() if n == skill.name},
            }
            for skill in self._skills.values()
        ]
        write_json(path, value)

    @classmethod
    def load(cls, path: Path) -> "SkillLibrary":
        """Read what :meth:`save` wrote.

        Raises:
            SkillError: the file is missing or damaged.
        """
        library = cls()
        try:
            for own in json.loads(path.read_text(encoding="utf-8")):
                library.add(Skill(str(own["name"]), str(own["domain"]), tuple(own["roles"])))
                for domain, count in own["counts"].items():
                    library._counts[str(own["name"]), domain] = _checked(count)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise SkillError(f"{path} is no library of skills ({error}); give the file that was saved") from error
        return library


def _checked(count: Any) -> Count:
    uses, successes = count
    if not (isinstance(uses, int) and isinstance(successes, int) and 0 <= successes <= uses):
        raise SkillError(f"{successes} successes in {uses} uses cannot be")
    return Count(uses, successes)
