"""A stage as a Prefect task."""

from collections.abc import Sequence
from pathlib import Path

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt

from tasks.dvc import StageRef, read_lock, reproduce
from tasks.programs import ProcessGroups


class FlowParams(BaseModel):
    """How stages are run; what they make does not depend on it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workers: PositiveInt  # stages side by side
    stage_limit_minutes: PositiveFloat  # after which a stage is killed
    lock_wait_minutes: PositiveFloat  # for another dvc that is at work in the folder


@task(cache_policy=NO_CACHE)  # DVC is the one cache
def run_stage(
    name: str,
    root: Path,
    parents: Sequence[StageRef],
    *,
    groups: ProcessGroups,
    params: FlowParams,
    unchanged: bool = False,
) -> StageRef:
    """Bring one stage up to date; its output goes to the run's log.

    Args:
        name: the stage.
        root: the project's folder.
        parents: the stages it reads from, as they ran in this flow; Prefect waits for them and records their hashes.
        groups: runs the stage, and can kill it.
        params: how long it may take.
        unchanged: DVC has just found it and its parents as they were recorded, so that there is nothing to ask.

    Raises:
        PipelineError: see :func:`tasks.dvc.reproduce`.
    """
    logger = get_run_logger()
    for parent in parents:
        for out in parent.outs:
            logger.info("reads from %s: %s %s", parent.name, out.path, out.md5)
    if unchanged:
        logger.info("unchanged")
        return read_lock(name, root)
    ref = reproduce(
        name,
        root,
        groups,
        timeout_s=60 * params.stage_limit_minutes,
        lock_wait_s=60 * params.lock_wait_minutes,
        log=logger.info,
    )
    for out in ref.outs:
        logger.info("made %s %s (%d bytes)", out.path, out.md5, out.size)
    return ref
