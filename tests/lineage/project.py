"""A small real project for tests: git, DVC, and stages that make real (if untrained) checkpoints in milliseconds."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from model_signing import hashing, signing

from dualmind.lineage.bundle import Bundle, make_bundle
from dualmind.lineage.content import digest_file, list_files
from dualmind.lineage.entries import What
from dualmind.lineage.keys import SigningKey, make_key
from dualmind.lineage.ledger import Ledger, append
from dualmind.lineage.record import Machine

REPOSITORY = Path(__file__).resolve().parents[2]
TIME = datetime(2026, 3, 3, 12, tzinfo=UTC)
MACHINE = Machine(
    cpu="Test CPU", num_cpus=2, system="Linux x86_64", python="3.11.9", packages={"numpy": "2.4.6", "torch": "2.13.0"}
)
LEDGER = "releases/ledger.jsonl"

MAKE = """
import json, os, sys
from pathlib import Path
import numpy as np
import yaml
from safetensors.numpy import save_file
from dualmind.storage import md5_file, md5_folder, write_json

stage, out = sys.argv[1], Path("artifacts") / sys.argv[1]
params = yaml.safe_load(Path("params.yaml").read_text())
data = Path("artifacts/prepare/decisions.parquet")


def checkpoint(folder, parents):
    folder.mkdir(parents=True, exist_ok=True)
    weights = np.random.default_rng(params["run"]["seed"]).normal(size=(3, params["pretrain"]["width"]))
    save_file({"weight": weights.astype(np.float32) * len(parents)}, folder / "model.safetensors")
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        write_json(folder / name, {"name": name, "stage": stage})
    write_json(folder / "meta.json", {"kind": "system1", "parents": parents, "seed": params["run"]["seed"],
        "threads": params["run"]["threads"], "steps": 5, "num_parameters": weights.size, "metrics": {"loss": 0.5}})


if stage == "prepare":
    data.parent.mkdir(parents=True, exist_ok=True)
    data.write_bytes(b"PAR1" + Path("source.txt").read_bytes() + b"PAR1")
elif stage == "validate":
    check = {"expectation": "expect_x", "column": "a", "expected": {}, "observed": "1", "success": True}
    write_json(out / "decisions.json", {"dataset": os.path.relpath(data, out), "md5": md5_file(data), "rows": 3,
        "suite": "decisions", "library": "great_expectations 1.24.1", "expectations": [check]})
elif stage == "pretrain":
    checkpoint(out / "system1", {"decisions": md5_file(data)})
elif stage == "distill":
    teacher = md5_folder(Path("artifacts/pretrain/system1"))
    checkpoint(out / "system1", {"decisions": md5_file(data), "teacher": teacher})
elif stage == "calibrate":
    weights = md5_folder(Path("artifacts/distill/system1"))
    write_json(out / "gate.json", {"coefficients": [0.5, params["calibrate"]["alpha"]], "weights_digest": weights})
    (out / "decisions.parquet").write_bytes(b"PAR1 labelled PAR1")
    write_json(out / "threshold.json", {"value": 0.7, "alpha": params["calibrate"]["alpha"],
        "weights_digest": weights, "gate_digest": md5_file(out / "gate.json"),
        "calibration_digest": md5_file(out / "decisions.parquet"), "previous_value": 0.6})
elif stage == "evaluate":
    write_json(out / "metrics.json", {"success": 0.9})
"""

STAGES = """
stages:
  prepare:
    cmd: python make.py prepare
    deps: [make.py, source.txt]
    outs: [artifacts/prepare/decisions.parquet]
  validate:
    cmd: python make.py validate
    deps: [make.py, artifacts/prepare/decisions.parquet]
    outs: [artifacts/validate/decisions.json]
  pretrain:
    cmd: python make.py pretrain
    deps: [make.py, library, artifacts/prepare/decisions.parquet, artifacts/validate/decisions.json]
    params: [run, pretrain.width]
    outs: [artifacts/pretrain/system1]
  distill:
    cmd: python make.py distill
    deps: [make.py, artifacts/prepare/decisions.parquet, artifacts/validate/decisions.json, artifacts/pretrain/system1]
    params: [run]
    outs: [artifacts/distill/system1]
  calibrate:
    cmd: python make.py calibrate
    deps: [make.py, artifacts/prepare/decisions.parquet, artifacts/validate/decisions.json, artifacts/distill/system1]
    params: [calibrate]
    outs: [artifacts/calibrate/decisions.parquet, artifacts/calibrate/gate.json, artifacts/calibrate/threshold.json]
  evaluate:
    cmd: python make.py evaluate
    deps: [make.py, artifacts/distill/system1, artifacts/calibrate/threshold.json]
    metrics: [artifacts/evaluate/metrics.json]
"""
PARAMS = "run: {seed: 0, threads: 1}\npretrain: {width: 4}\ncalibrate: {alpha: 0.05}\n"


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def dvc(root: Path, *arguments: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY), "DVC_NO_ANALYTICS": "1"}
    subprocess.run([sys.executable, "-m", "dvc", *arguments], cwd=root, env=environment, check=True)


def commit(root: Path, message: str) -> str:
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", message)
    return git(root, "rev-parse", "HEAD")


def make_project(root: Path) -> Path:
    """A project whose stages have run and whose dvc.lock is committed."""
    root.mkdir(parents=True)
    (root / "library").mkdir()
    (root / "library" / "a.py").write_text("A = 1\n")
    (root / "library" / "b.py").write_text("B = 1\n")
    for name, text in {
        "make.py": MAKE, "dvc.yaml": STAGES, "params.yaml": PARAMS, "source.txt": "hello\n",
        ".gitignore": "/artifacts/\n/releases/\n/keys/\n__pycache__/\n",
    }.items():  # fmt: skip
        (root / name).write_text(text)
    git(root, "init", "-q", "-b", "main")
    dvc(root, "init", "-q")
    (root / ".dvcignore").write_text("__pycache__/\n")
    dvc(root, "repro", "-q")
    commit(root, "first")
    return root


def add_stage(root: Path) -> None:
    """A stage that nothing in the library names: it makes a small model, with a result beside it."""
    (root / "compress.py").write_text(
        "import json, shutil\nfrom pathlib import Path\nfrom dualmind.storage import md5_folder\n"
        "out, source = Path('artifacts/compress/system1'), Path('artifacts/distill/system1')\n"
        "shutil.copytree(source, out, dirs_exist_ok=True)\nmeta = json.loads((out / 'meta.json').read_text())\n"
        "meta['parents'] = {'dense': md5_folder(source)}\n(out / 'meta.json').write_text(json.dumps(meta))\n"
        "Path('artifacts/compress/size.json').write_text('{}')\n"
    )
    with (root / "dvc.yaml").open("a") as file:
        file.write(
            "  compress:\n    cmd: python compress.py\n    deps: [compress.py, artifacts/distill/system1]\n"
            "    outs: [artifacts/compress/system1, artifacts/compress/size.json]\n"
        )
    dvc(root, "repro", "-q")


def copy_project(project: Path, root: Path) -> Path:
    return Path(shutil.copytree(project, root, symlinks=True))


def release_key(root: Path) -> SigningKey:
    return make_key(root / "keys", "release")


def release(root: Path, key: SigningKey, name: str = "r1", time: datetime = TIME) -> Bundle:
    """A release that is recorded and promoted in the ledger."""
    ledger = root / LEDGER
    anchor = Ledger.read(ledger).anchor
    bundle = make_bundle(root, root / "releases", name, key=key, time=time, machine=MACHINE, anchor=anchor)
    what = What(subject="release", name=name, digest=bundle.digest)
    for kind in ("release", "promote"):
        append(ledger, key, time=time, kind=kind, what=what, who="Ann", why="test")
    return bundle


def resign(bundle: Path, key: SigningKey) -> None:
    """What an insider with a key does after a change: a manifest and a signature that fit it."""
    names = [n for n in list_files(bundle) if n not in {"manifest.json", "signature"}]
    digests = {name: digest_file(bundle / name).model_dump() for name in names}
    (bundle / "manifest.json").write_text(json.dumps({"files": digests}))
    config = hashing.Config().set_ignored_paths(paths=["signature"], ignore_git_paths=False)
    signer = signing.Config().use_elliptic_key_signer(private_key=key.path).set_hashing_config(config)
    signer.sign(bundle, bundle / "signature")


def edit_json(path: Path, change: Callable[[Any], None]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")
