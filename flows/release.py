"""The whole pipeline as one flow with a release at its end: stages, their lock in git, the sealed bundle, the remote.

    python -m flows.release            # bring all up to date, commit dvc.lock, make the release that params name
    python -m flows.release --publish  # and push the release, the ledger and what the stages made

Of the project's files it commits dvc.lock alone, and ``releases.dvc`` where it publishes; whatever else is uncommitted
makes the release fail, and the message names it.
"""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

import flows.settings  # noqa: F401  # before Prefect

# isort: split
from prefect import flow, get_run_logger, task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE

from dualmind.errors import BundleError, DualmindError
from dualmind.lineage.bundle import Bundle
from dualmind.lineage.ledger import Ledger
from dualmind.lineage.record import Machine
from flows.training import start_server, training
from stages.params import load_params
from stages.release import LEDGER, ReleaseParams, release
from tasks.programs import ProcessGroups
from tasks.publish import commit, publish


def read_params(root: Path) -> ReleaseParams:
    """What is released, and how."""
    return load_params(ReleaseParams, "release", root / "params.yaml")


@task(cache_policy=NO_CACHE)
def commit_lock(name: str, root: Path, groups: ProcessGroups) -> None:
    """Commit dvc.lock, which the release seals."""
    commit(["dvc.lock"], f"Lock of release {name}", root, groups, get_run_logger().info)


@task(cache_policy=NO_CACHE)
def seal(root: Path) -> Bundle:
    """Make, verify and record the release."""
    params = read_params(root)  # not passed: Prefect walks through what tasks are given, and fails at its field "keys"
    bundle = release(params, root, time=datetime.now(UTC), machine=Machine.here())
    rows = [{"checkpoint": own.path, "md5": own.digest} for own in bundle.release.checkpoints]
    create_table_artifact(table=rows, key="release", description=f"Release {params.name} {bundle.digest}")
    return bundle


@task(cache_policy=NO_CACHE)
def push(folder: Path, root: Path, groups: ProcessGroups) -> None:
    """Bring the releases to the remote."""
    publish(folder, root, groups, get_run_logger().info)


@flow(name="release", validate_parameters=False)
def whole(root: Path | str, *, published: bool = False) -> str:
    """Run all stages, release what they made, and publish it if asked; returns the release's digest.

    Args:
        root: the project's folder; a deployment gives it as text.
        published: whether it is pushed.

    Raises:
        DualmindError: a stage failed, something is not committed, or the name was used before.
    """
    root = Path(root).resolve()
    params = read_params(root)
    if any(own.what.name == params.name for own in Ledger.read(root / params.folder / LEDGER).entries):
        raise BundleError(f"there is a release {params.name} already; choose another release.name in params.yaml")
    training(root)
    groups = ProcessGroups(1)
    try:
        commit_lock(params.name, root, groups)
        digest = seal(root).digest
        if published:
            push(params.folder, root, groups)
    except Exception:
        raise
    except BaseException:  # Ctrl-C, SIGTERM, or Prefect cancels the run: no program may outlive it
        groups.stop()
        raise
    return digest


def main(arguments: list[str] | None = None) -> int:
    """Command line; 0 if the release was made."""
    parser = argparse.ArgumentParser(prog="python -m flows.release", description="Run all stages and release.")
    parser.add_argument("--publish", action="store_true", help="push it to DVC's remote")
    given = parser.parse_args(arguments)
    try:
        start_server()
        print(f"released {whole(Path.cwd(), published=given.publish)}")
    except DualmindError as error:
        print(f"no release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
