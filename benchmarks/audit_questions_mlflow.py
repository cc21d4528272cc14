"""The side of MLflow in ``benchmarks.audit_questions``; run by an interpreter that has MLflow, and needs nothing else.

python audit_questions_mlflow.py STORY.json ANSWERS.json

All that MLflow has a place for is logged: a run for each release with its params, its data sets and their digests as
inputs, the git commit, the digests of weights and parents as tags, weights, receipt and threshold as artifacts; a
registered model with a version for each release; the tree with uncommitted code by its versioning with git; what serves
as its alias, with who, when and why as tags of the version, written at each change. Then each question is asked through
its client, and its answers are compared with any digest that was logged, by us where MLflow does not do it.
"""

import contextlib
import hashlib
import json
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

import mlflow
from mlflow.data.http_dataset_source import HTTPDatasetSource
from mlflow.data.meta_dataset import MetaDataset

MODEL = "agent"
Story = dict[str, Any]


def log(story: Story, store: Path) -> tuple[mlflow.MlflowClient, dict[str, str]]:
    """Everything, and the id of each release's run."""
    mlflow.set_tracking_uri(f"sqlite:///{store}/mlflow.db")
    experiment = mlflow.create_experiment("pipeline", artifact_location=str(store / "artifacts"))
    client, runs = mlflow.MlflowClient(), {}
    client.create_registered_model(MODEL)
    for name, release in story["releases"].items():
        with mlflow.start_run(experiment_id=experiment, run_name=name) as run:
            mlflow.log_params(release["params"])
            mlflow.set_tags({"mlflow.source.git.commit": release["commit"], "weights": release["weights_md5"]})
            mlflow.set_tags({f"parent.{key}": md5 for key, md5 in release["parents"].items()})
            for path, md5 in release["data"].items():
                source = HTTPDatasetSource(f"https://data.example.org/{path}")
                mlflow.log_input(MetaDataset(source, name=path, digest=md5), context="training")
            for kind in ("weights", "threshold", "receipt"):
                mlflow.log_artifact(release[kind], kind)
            runs[name] = run.info.run_id
            client.create_model_version(MODEL, f"{store}/artifacts/{run.info.run_id}/artifacts/weights", runs[name])
    versions = {v.run_id: v.version for v in client.search_model_versions(f"name='{MODEL}'")}
    for event in story["events"]:
        version = versions[runs[event["name"]]]
        client.set_registered_model_alias(MODEL, "production", version)
        for key in ("time", "kind", "who", "why"):
            client.set_model_version_tag(MODEL, version, key, event[key])
    return client, runs


def ask(story: Story, store: Path) -> dict[str, Any]:
    """What came back to each question."""
    client, runs = log(story, store)
    first = client.get_run(runs["r1"])
    found = [(v.tags["time"], v) for v in client.search_model_versions(f"name='{MODEL}'") if "time" in v.tags]
    names = {run: name for name, run in runs.items()}
    served = [names[v.run_id] for time, v in sorted(found, key=lambda own: own[0]) if time <= story["at"]]
    runs_of = client.search_runs([first.info.experiment_id], f"datasets.digest = '{story['digest']}'")
    answers: dict[str, Any] = {
        "served": served[-1] if served else None,
        "changes": sorted([v.tags["time"], v.tags["kind"], v.tags["who"], v.tags["why"]] for _, v in found),
        "data": {own.dataset.name: own.dataset.digest for own in first.inputs.dataset_inputs},
        "affected": sorted(names[run.info.run_id] for run in runs_of),
        "params": first.data.params,
        "commit": first.data.tags["mlflow.source.git.commit"],
        "parents": {k.removeprefix("parent."): v for k, v in first.data.tags.items() if k.startswith("parent.")},
        "uncommitted": _uncommitted(Path(story["dirty"])),
    }
    receipt = json.loads(_artifact(client, runs["r1"], "receipt").read_text())
    answers["validated"] = receipt["md5"] in answers["data"].values() and all(
        own["success"] for own in receipt["expectations"]
    )
    _damage(store, runs["r1"], story)
    weights = _artifact(client, runs["r1"], "weights").read_bytes()
    answers["bytes"] = hashlib.md5(weights, usedforsecurity=False).hexdigest() != first.data.tags["weights"]
    threshold = json.loads(_artifact(client, runs["r1"], "threshold").read_text())
    parents = {first.data.tags["weights"], story["releases"]["r1"]["weights_digest"]}
    answers["threshold"] = threshold["weights_digest"] not in parents
    try:  # the record was edited in the database; does reading it say so?
        forged = client.get_model_version_by_alias(MODEL, "production")
        answers["record"] = forged.tags["who"] != "Eve"
    except mlflow.MlflowException:
        answers["record"] = True
    return answers


def _uncommitted(tree: Path) -> list[str]:
    """What its versioning by git keeps of a tree: the difference to the commit."""
    with contextlib.chdir(tree), mlflow.genai.enable_git_model_versioning() as context:
        tags = mlflow.get_logged_model(context.active_model.model_id).tags
    lines = tags.get("mlflow.source.git.diff", "").splitlines()
    return [line.removeprefix("+++ b/") for line in lines if line.startswith("+++ b/")]


def _artifact(client: mlflow.MlflowClient, run: str, kind: str) -> Path:
    return next(Path(client.download_artifacts(run, kind)).iterdir())


def _damage(store: Path, run: str, story: Story) -> None:
    """A byte of the weights, the threshold of another release, and another name in the record of changes."""
    folder = store / "artifacts" / run / "artifacts"
    weights = next((folder / "weights").iterdir())
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))
    next((folder / "threshold").iterdir()).write_bytes(Path(story["releases"]["r2"]["threshold"]).read_bytes())
    with sqlite3.connect(store / "mlflow.db") as database:
        database.execute("UPDATE model_version_tags SET value = 'Eve' WHERE key = 'who'")


def main() -> None:
    """Read the story, write the answers."""
    story = json.loads(Path(sys.argv[1]).read_text())
    with tempfile.TemporaryDirectory() as store:
        Path(sys.argv[2]).write_text(json.dumps(ask(story, Path(store))))


if __name__ == "__main__":
    main()
