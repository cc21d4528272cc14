"""The README says what is true."""

import re
import subprocess
from pathlib import Path

from benchmarks.report import read_rows, with_table

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_table_of_results_is_that_of_the_result_files() -> None:
    assert with_table(README, read_rows()) == README, "run `python -m benchmarks.report --readme`"


def test_every_make_target_that_it_names_exists() -> None:
    named = set(re.findall(r"make ([a-z]+(?:-[a-z]+)*)", README)) - {"a"}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert named <= targets


def test_every_path_that_it_names_exists() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    folders = {f"{parent}/" for path in tracked for parent in map(str, Path(path).parents)}
    for path in re.findall(r"`?((?:dualmind|stages|tasks|flows|params|docs|benchmarks)/[\w./]*)`?", README):
        assert path in tracked or path.rstrip("/") + "/" in folders, path
