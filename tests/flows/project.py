"""A project with traffic, for tests of the calibration flow."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from prefect.settings import get_current_settings

from tests.calibration.traffic import PARAMS, serve

ROOT = Path(__file__).resolve().parents[2]


def make_calibrated(root: Path) -> Path:
    """A DVC project that has all that a calibration needs, but traffic."""
    root.mkdir(parents=True, exist_ok=True)
    for package in ("dualmind", "stages"):
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "calibration").mkdir()
    shutil.copy2(ROOT / "calibration/dvc.yaml", root / "calibration/dvc.yaml")
    shutil.copy2(ROOT / ".dvcignore", root / ".dvcignore")
    (root / "params.yaml").write_text(PARAMS)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q"], cwd=root, check=True)
    serve(root / "production")
    return root


def environment() -> dict[str, str]:
    """For programs that are to use the tests' Prefect server."""
    settings = get_current_settings().to_environment_variables(exclude_unset=True)
    return {**os.environ, **settings, "PYTHONPATH": str(ROOT)}
