from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmind.agent.skills import Skill, SkillLibrary
from dualmind.errors import SkillError

FIND = Skill("find", "household", ("look", "examine"))
REPAIR = Skill("repair", "debugging", ("act",))


@given(uses=st.lists(st.tuples(st.sampled_from(["find", "repair"]), st.sampled_from(["a", "b"]), st.booleans())))
def test_counts_are_those_of_a_plain_tally_and_survive_the_disk(
    uses: list[tuple[str, str, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    library = SkillLibrary([FIND, REPAIR])
    for name, domain, success in uses:
        library.record(name, domain, success)
    path = tmp_path_factory.mktemp("skills") / "skills.json"
    library.save(path)
    for one in (library, SkillLibrary.load(path)):
        for name in ("find", "repair"):
            for domain in ("a", "b"):
                own = [success for n, d, success in uses if (n, d) == (name, domain)]
                count = one.count(name, domain)
                assert (count.uses, count.successes) == (len(own), sum(own))


def test_a_skill_of_one_domain_is_offered_in_another_until_it_fails_there() -> None:
    library = SkillLibrary([FIND, REPAIR])
    for _ in range(100):
        library.record("find", "debugging", success=False)
        library.record("repair", "debugging", success=False)
    assert library.offered("debugging") == (REPAIR,)  # its own stays: without it nothing could be done
    assert library.offered("household") == (FIND, REPAIR)


def test_a_name_stands_for_one_skill() -> None:
    library = SkillLibrary([FIND])
    library.add(FIND)
    with pytest.raises(SkillError, match="'find'"):
        library.add(Skill("find", "debugging", ("look",)))


def test_a_skill_without_roles_and_a_use_of_an_unknown_one_are_refused() -> None:
    with pytest.raises(SkillError, match="roles"):
        SkillLibrary([Skill("idle", "household", ())])
    with pytest.raises(SkillError, match="no skill 'fly'"):
        SkillLibrary([FIND]).record("fly", "household", success=True)


@pytest.mark.parametrize(
    "text",
    ["", "{}}", "[1]", '[{"name": "a"}]', '[{"name": "a", "domain": "b", "roles": ["act"], "counts": {"b": [1, 2]}}]'],
)
def test_a_damaged_library_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "skills.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SkillError):
        SkillLibrary.load(path)
