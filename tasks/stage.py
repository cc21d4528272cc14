"""A stage as a Prefect task."""

from collections.abc import Sequence
from pathlib import Path

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE

from tasks.dvc import StageRef, reproduce
from tasks.programs import ProcessGroups


@task(cache_policy=NO_CACHE)  # DVC is the one cache
def run_stage(
    name: str, root: Path, parents: Sequence[StageRef], *, groups: ProcessGroups, timeout_s: float
) -> StageRef:
    """Bring one stage up to date; its output goes to the run's log.

    Args:
        name: the stage.
        root: the project's folder.
        parents: the stages it reads from, as they ran in this flow; Prefect waits for them and records their hashes.
        groups: runs the stage, and can kill it.
        timeout_s: seconds after which the stage is killed.

    Raises:
        PipelineError: see :func:`tasks.dvc.reproduce`.
    """
    logger = get_run_logger()
    for parent in parents:
        for out in parent.outs:
            logger.info("reads from %s: %s %s", parent.name, out.path, out.md5)
    ref = reproduce(name, root, groups, timeout_s=timeout_s, log=logger.info)
    for out in ref.outs:
        logger.info("made %s %s (%d bytes)", out.path, out.md5, out.size)
    return ref
