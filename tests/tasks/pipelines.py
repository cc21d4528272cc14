"""Small real DVC projects for tests."""

import subprocess
import sys
from pathlib import Path

STAGES = """
stages:
  first:
    cmd: echo made by first && echo 1 > one.json && cp source.txt score.yaml
    deps: [source.txt]
    params: [x]
    outs: [one.json]
    metrics: [score.yaml]
  second:
    cmd: "{second}"
    deps: [one.json]
    outs: [two.txt]
"""
PARAMS = "{x: 1, flow: {workers: 2, stage_limit_minutes: 10, lock_wait_minutes: 10}}\n"


def make_project(root: Path, second: str = "cp one.json two.txt") -> Path:
    """Two stages in a git and DVC checkout."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "dvc.yaml").write_text(STAGES.format(second=second))
    (root / "params.yaml").write_text(PARAMS)
    (root / "source.txt").write_text("won: {share: 0.5}\n")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q"], cwd=root, check=True)
    return root
