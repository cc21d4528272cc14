"""DVC itself is asked whether a stage is stale when a module that it imports changes."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest
from dvc.repo import Repo

from tasks.graph import read_graph

ROOT = Path(__file__).resolve().parents[2]
GRAPH = read_graph(ROOT)


@pytest.fixture(scope="module")
def importers() -> dict[str, set[str]]:
    """Stages that import each module, directly or not, by the module's path."""
    graph = grimp.build_graph("dualmind", "stages", exclude_type_checking_imports=True, cache_dir=None)
    found: dict[str, set[str]] = {}
    for stage in GRAPH:
        module = f"stages.{stage.split('@', maxsplit=1)[0]}"
        for name in {module, *graph.find_upstream_modules(module)}:
            path = Path(*name.split("."))
            file = path / "__init__.py" if (ROOT / path).is_dir() else path.with_suffix(".py")
            if (ROOT / file).read_text().strip() and str(file) != "dualmind/__init__.py":  # the version changes nothing
                found.setdefault(str(file), set()).add(stage)
    return found


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repo]:
    """A copy of the project in which all stages are up to date, with stand-ins for what they make."""
    copy = tmp_path_factory.mktemp("project")
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.splitlines():
        if (ROOT / name).is_file() and name != "dvc.lock":
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    repo = Repo.init(str(copy), no_scm=True, force=True)
    for out in [out for stage in GRAPH.values() for out in stage.outs]:
        (copy / out).parent.mkdir(parents=True, exist_ok=True)
        (copy / out).write_text("{}")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(copy)
        repo.commit(force=True)
        assert repo.status() == {}
        yield repo
    repo.close()


def test_dvc_calls_a_stage_stale_when_a_module_that_it_imports_changes(
    repo: Repo, importers: dict[str, set[str]]
) -> None:
    """One module of each set of importing stages: that deps cover all modules is tested beside the architecture."""
    alike = {frozenset(stages): name for name, stages in sorted(importers.items())}
    assert len(alike) > 20
    missed = {}
    for stages, name in alike.items():
        path = Path(repo.root_dir, name)
        before = path.read_bytes()
        path.write_bytes(before + b"\n# edited\n")
        stale = set(repo.status())
        path.write_bytes(before)
        if stages - stale:
            missed[name] = stages - stale
    assert missed == {}
    assert repo.status() == {}
