"""Twelve questions of an audit, answered from stored data by our releases and by MLflow (tracking and registry).

python -m benchmarks.audit_questions [--mlflow-python PATH]

One small pipeline (data, receipt, teacher, student, gate, threshold) is released three times: r1; r2 on other data; r3
from a tree with uncommitted code. r1 is promoted, then r2, then r1 is rolled back to. Both sides are asked the same; an
answer counts where it is the truth, which is known from what was done. For three questions something was done to
what is stored: a byte of the weights, a threshold of another release, a name in the record of changes. MLflow is given
all that it has a place for, and where a digest was logged with it, it is compared with the bytes for it
(``benchmarks/audit_questions_mlflow.py``). It wants an environment of its own:
``python3 -m venv DIR && DIR/bin/pip install mlflow``.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.results_file import Row, write_rows
from dualmind.data.validation import Receipt
from dualmind.evaluation.intervals import wilson
from dualmind.lineage.bundle import Bundle
from dualmind.lineage.entries import What
from dualmind.lineage.graph import Releases
from dualmind.lineage.integrity import Trusted
from dualmind.lineage.keys import SigningKey, open_key
from dualmind.lineage.ledger import Ledger, append
from dualmind.lineage.queries import affected_by, history, made_from, serving
from dualmind.lineage.times import stamp
from dualmind.lineage.verify import Verdict, verify_release
from dualmind.storage import md5_file
from tests.lineage.project import LEDGER, TIME, commit, dvc, make_project, release, release_key, resign

DATA, STUDENT = "artifacts/prepare/decisions.parquet", "artifacts/distill/system1"
THRESHOLD, RECEIPT = "artifacts/calibrate/threshold.json", "artifacts/validate/decisions.json"
QUESTIONS = {
    "served": "what served twelve hours after the first promotion?",
    "changes": "every change of production, with who, when and why",
    "bytes": "a byte of r1's weights was changed: is it found?",
    "record": "a name in the record of changes was edited: is it found?",
    "data": "which data set, by digest, was r1 trained on?",
    "affected": "which releases are affected by the data set of that digest?",
    "params": "with which parameter was r1 calibrated?",
    "commit": "of which git commit is r1?",
    "uncommitted": "was code uncommitted when r3 was made, and which?",
    "parents": "which teacher, by digest, is r1's student from?",
    "threshold": "the threshold of r2 was put into r1: is it found?",
    "validated": "were r1's data validated, with a receipt of these very bytes?",
}
Answers = dict[str, Any]


def make_story(root: Path) -> dict[str, Any]:
    """The three releases and what happened to them, with the truth."""
    make_project(root)
    key, releases = release_key(root), {}
    releases["r1"] = _release(root, key, "r1", 0)
    (root / "source.txt").write_text("other data\n")
    (root / "params.yaml").write_text((root / "params.yaml").read_text().replace("seed: 0", "seed: 1"))
    dvc(root, "repro", "-q")
    commit(root, "other data")
    releases["r2"] = _release(root, key, "r2", 1)
    what = What(subject="release", name="r1", digest=Bundle.open(root / "releases/r1").digest)
    back = TIME + timedelta(days=2)
    append(root / LEDGER, key, time=back, kind="rollback", what=what, who="Bob", why="too many complaints")
    shutil.copytree(root, root.parent / "dirty", symlinks=True)
    (root.parent / "dirty/library/a.py").write_text("A = 2\n")
    releases["r3"] = _release(root.parent / "dirty", key, "r3", 3)
    events = [
        {"time": stamp(TIME + timedelta(days=day)), "kind": "promote", "name": f"r{day + 1}", "who": "Ann",
         "why": "test"} for day in (0, 1)
    ]  # fmt: skip
    events.append({"time": stamp(back), "kind": "rollback", "name": "r1", "who": "Bob", "why": "too many complaints"})
    at, digest = stamp(TIME + timedelta(hours=12)), releases["r2"]["data"][DATA]
    dirty = str(root.parent / "dirty")
    return {"releases": releases, "events": events, "at": at, "digest": digest, "dirty": dirty}


def _release(root: Path, key: SigningKey, name: str, day: int) -> dict[str, Any]:
    bundle = release(root, key, name, TIME + timedelta(days=day))
    checkpoint = next(own for own in bundle.release.checkpoints if own.path == STUDENT)
    weights = bundle.file(f"{STUDENT}/model.safetensors")
    return {
        "commit": bundle.release.commit, "params": {"alpha": "0.05"}, "parents": dict(checkpoint.meta.parents),
        "data": {DATA: md5_file(root / DATA)}, "weights": str(weights), "weights_md5": md5_file(weights),
        "weights_digest": checkpoint.digest, "threshold": str(bundle.file(THRESHOLD)),
        "receipt": str(bundle.file(RECEIPT)),
    }  # fmt: skip


def ours(root: Path, story: dict[str, Any]) -> Answers:
    """What our stored data say."""
    releases, ledger, folder = Releases.read(root / "releases"), Ledger.read(root / LEDGER), root / "releases"
    back = made_from(releases, THRESHOLD, "r1").rows
    values = {row[3]: row[4] for row in back}
    parents = {own.path: own.meta.parents for own in Bundle.open(folder / "r1").release.checkpoints}
    dirty = _verify(root.parent / "dirty", "r3")
    receipt = Receipt.read(Bundle.open(folder / "r1").file(RECEIPT))
    return {
        "served": serving(ledger, folder, story["at"]).rows[0][1],
        "changes": [[row[1], row[2], row[5], row[6]] for row in history(ledger).rows if row[2] != "release"],
        "bytes": _found(root, _change_byte, "bytes"),
        "record": _found(root, _edit_record, "ledger"),
        "data": {DATA: values[DATA]},
        "affected": sorted({row[0] for row in affected_by(releases, ledger, story["digest"]).rows}),
        "params": {"alpha": str(_alpha(values))},
        "commit": next(row[3] for row in back if row[2] == "commit"),
        "uncommitted": [check.found for check in dirty.failures if check.name == "tree"],
        "parents": parents[STUDENT],
        "threshold": _found(root, _swap_threshold, "threshold"),
        "validated": _verify(root, "r1").ok and receipt.md5 == values[DATA],
    }


def _alpha(values: dict[str, str]) -> str:
    return values["calibrate calibrate"].partition("'alpha': ")[2].rstrip("}")


def _verify(root: Path, name: str) -> Verdict:
    trusted = [Trusted.read(root / "keys/release.pub")]
    return verify_release(root / "releases" / name, root, ledger=Ledger.read(root / LEDGER), trusted=trusted)


def _found(root: Path, attack: Callable[[Path], None], check: str) -> bool:
    """Whether an attack on a copy makes that check fail."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(shutil.copytree(root, Path(scratch) / "copy", symlinks=True))
        attack(copy)
        return check in {own.name for own in _verify(copy, "r1").failures}


def _change_byte(root: Path) -> None:
    path = root / "releases/r1/files" / STUDENT / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


def _edit_record(root: Path) -> None:
    path = root / LEDGER
    path.write_text(path.read_text().replace("Bob", "Eve"))


def _swap_threshold(root: Path) -> None:
    """By someone who can sign, so that the bytes alone tell nothing."""
    shutil.copy(root / "releases/r2/files" / THRESHOLD, root / "releases/r1/files" / THRESHOLD)
    resign(root / "releases/r1", open_key(root / "keys", "release", TIME))


def truth(story: dict[str, Any]) -> Answers:
    """What was done."""
    first = story["releases"]["r1"]
    return {
        "served": "r1", "changes": [[e["time"], e["kind"], e["who"], e["why"]] for e in story["events"]],
        "bytes": True, "record": True, "data": first["data"], "affected": ["r2", "r3"], "params": first["params"],
        "commit": first["commit"], "uncommitted": ["library/a.py"], "parents": first["parents"], "threshold": True,
        "validated": True,
    }  # fmt: skip


def main() -> None:
    """Ask both and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit_questions")
    parser.add_argument("--mlflow-python", type=Path, help="an interpreter that has MLflow")
    given = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "project"
        story = make_story(root)
        expected, answers = truth(story), {"ours": ours(root, story)}
        if given.mlflow_python is not None:
            answers["MLflow"] = _ask_mlflow(given.mlflow_python.absolute(), story, Path(scratch))
    expected_ours = {**expected, "affected": ["r2"]}  # r3 lies in the other tree
    right = {}
    for side, own in answers.items():
        known = expected_ours if side == "ours" else expected
        right[side] = [name for name in QUESTIONS if own[name] == known[name]]
        for name, question in QUESTIONS.items():
            print(f"{side}: {question}\n  {'answered' if name in right[side] else 'NOT ANSWERED'}: {own[name]}")
    write_rows("audit_questions", rows(right, begun))


def _ask_mlflow(python: Path, story: dict[str, Any], scratch: Path) -> Answers:
    (scratch / "story.json").write_text(json.dumps(story))
    program = Path(__file__).with_name("audit_questions_mlflow.py")
    command = [str(python), str(program), str(scratch / "story.json"), str(scratch / "answers.json")]
    subprocess.run(command, cwd=scratch, check=True)
    answers: Answers = json.loads((scratch / "answers.json").read_text())
    return answers


def rows(right: dict[str, list[str]], begun: float) -> list[Row]:
    """The share of questions; the baseline names what MLflow did not answer."""
    number = len(QUESTIONS)
    if "MLflow" in right:
        missed = "; ".join(QUESTIONS[name] for name in QUESTIONS if name not in right["MLflow"])
        beside = f"MLflow {len(right['MLflow'])} of {number}, not: {missed}"
    else:
        beside = "no --mlflow-python given"
    count = len(right["ours"])
    interval = wilson(count, number)
    return [
        Row(
            claim="audit questions answered from stored data", unit=f"of {number}", value=float(count),
            low=round(number * interval.low, 2), high=round(number * interval.high, 2), target=float(number),
            reached=count == number, baseline=beside, seeds=1, threads=1,
            command="python -m benchmarks.audit_questions --mlflow-python PATH",
            minutes=round((time.monotonic() - begun) / 60, 1),
        )
    ]  # fmt: skip


if __name__ == "__main__":
    main()
