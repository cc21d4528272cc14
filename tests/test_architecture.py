"""The design as tests: one arrow, one word in five places, dependencies that cover what is imported."""

import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import grimp
import pytest
import yaml

from tasks.graph import read_graph

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("dualmind", "stages", "tasks", "flows")
HEAVY = {"torch", "transformers", "datasets", "evaluate", "great_expectations", "accelerate"}
GRAPH = read_graph(ROOT)


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)


def file_of(module: str) -> Path:
    path = ROOT / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def test_import_contracts_hold() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("stage", GRAPH)
def test_deps_cover_every_module_that_a_stage_imports(stage: str, imports: grimp.ImportGraph) -> None:
    """DVC does not follow imports: a module that is missing here could change without the stage running again."""
    module = f"stages.{stage.split('@', maxsplit=1)[0]}"
    closure = {module, *imports.find_upstream_modules(module)}
    deps = [ROOT / dep for dep in GRAPH[stage].deps]
    files = [file_of(name) for name in sorted(closure)]
    missing = [
        str(file.relative_to(ROOT))
        for file in files
        if file.read_text().strip() and not any(file == dep or dep in file.parents for dep in deps)
    ]
    assert [name for name in missing if name != "dualmind/__init__.py"] == []  # the version alone changes no result


@pytest.mark.parametrize("stage", GRAPH)
def test_one_word_stands_in_five_places(stage: str) -> None:
    name = stage.split("@", maxsplit=1)[0]
    assert (ROOT / "stages" / f"{name}.py").is_file()
    assert (ROOT / "tests" / "stages" / f"test_{name}.py").is_file()
    assert name in yaml.safe_load((ROOT / "params.yaml").read_text())
    assert all(out.startswith(f"artifacts/{name}/") for out in GRAPH[stage].outs)


def test_flows_and_tasks_are_light() -> None:
    modules = "flows.training, flows.audit, tasks.profile, tasks.picture"
    code = f"import sys, {modules}; print(*{{m.split('.')[0] for m in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())


def test_modules_are_short_enough_to_read() -> None:
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    long = {str(f.relative_to(ROOT)): n for f in files if (n := len(f.read_text().splitlines())) > 320}
    assert long == {}


def test_nothing_else_at_the_top_level_holds_code() -> None:
    tracked = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    tops = {line.split("/")[0] for line in tracked.stdout.splitlines()}
    assert tops <= {*PACKAGES, "tests", "benchmarks"}


def test_only_the_params_module_reads_params_in_stages_and_nothing_in_the_library_does() -> None:
    """Lineage reads dvc.lock, .dvc files, and the params.yaml that was sealed in a release, as data to compare."""
    readers = [
        str(file.relative_to(ROOT))
        for package in ("dualmind", "stages")
        for file in (ROOT / package).rglob("*.py")
        if "import yaml" in file.read_text()
    ]
    assert sorted(readers) == ["dualmind/lineage/lockfile.py", "stages/params.py"]


def test_ignores_have_a_reason() -> None:
    bare = [
        f"{file.relative_to(ROOT)}:{number}"
        for package in (*PACKAGES, "tests", "benchmarks")
        for file in (ROOT / package).rglob("*.py")
        for number, line in enumerate(file.read_text().splitlines(), start=1)
        if fnmatch(line, "*# type: ignore[[]*]") and not fnmatch(line, "*# type: ignore[[]*]  # *")
    ]
    assert bare == []
