"""Puts releases where an auditor finds them: under DVC, in git, and on the remote that DVC's configuration names.

All releases and the ledger are one DVC output, ``releases.dvc`` in git. A clone of the project and the remote are then
enough for an audit::

    git clone PROJECT clone && cd clone && dvc pull releases.dvc && python -m flows.audit all
"""

import configparser
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from dualmind.errors import PipelineError
from tasks.dvc import add, run_program
from tasks.programs import ProcessGroups

_LIMIT_S = 3600.0  # to copy all releases to a remote


def commit(
    paths: Sequence[str], message: str, root: Path, groups: ProcessGroups, log: Callable[[str], None]
) -> bool:  # fmt: skip
    """Commit these files alone, whatever else is staged; False if they were committed already.

    Raises:
        PipelineError: git failed, such as where nobody has told it a name.
    """
    _run(["git", "add", "--", *paths], root, groups, log)
    if not _run(["git", "status", "--porcelain", "--", *paths], root, groups, log):
        return False
    _run(["git", "commit", "--quiet", "--message", message, "--", *paths], root, groups, log)
    return True


def publish(folder: Path, root: Path, groups: ProcessGroups, log: Callable[[str], None]) -> None:
    """Keep all releases and the ledger under DVC, commit what names them, and push them with what stages made.

    Args:
        folder: of the releases, relative to the project.
        root: the project's folder, a git and DVC checkout.
        groups: runs the programs.
        log: takes each line of their output.

    Raises:
        PipelineError: git or DVC failed, or DVC knows no remote; what was done stays, and again does no harm.
    """
    if not _remotes(root):
        raise PipelineError(
            f"{root}/.dvc/config names no remote, so nothing can be pushed; "
            "run `dvc remote add -d storage FOLDER_OR_S3_URL`"
        )
    add([folder], root, groups, timeout_s=_LIMIT_S, log=log)
    commit([f"{folder}.dvc"], "Releases and ledger", root, groups, log)
    _run([sys.executable, "-m", "dvc", "--wait-for-lock", "push"], root, groups, log)


def cache_folder(root: Path) -> Path:
    """Where DVC keeps contents, as its configuration says; read without DVC, which takes two seconds to import.

    Raises:
        PipelineError: the configuration cannot be read.
    """
    return root / ".dvc" / _read(root).get("cache", "dir", fallback="cache").strip("\"'")


def local_config(root: Path) -> str:
    """A ``config.local`` for a copy of the project elsewhere: its cache, and its remotes as seen from anywhere.

    Raises:
        PipelineError: the configuration cannot be read.
    """
    # "copy", because a link would let a stage write into the cache
    lines = ["[cache]", f'    dir = "{cache_folder(root).resolve()}"', "    type = copy"]
    config = _read(root)
    if remote := config.get("core", "remote", fallback=""):
        lines += ["[core]", f"    remote = {remote}"]
    for section in _remotes(root):
        values = dict(config[section])
        url = values.get("url", "").strip("\"'")
        if "://" not in url:  # a folder, named from where the configuration lies
            values["url"] = f'"{(root / ".dvc" / url).resolve()}"'
        lines += [f"[{section}]", *(f"    {key} = {value}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _remotes(root: Path) -> list[str]:
    return [section for section in _read(root).sections() if section.strip("'").startswith("remote ")]


def _read(root: Path) -> configparser.ConfigParser:
    config = configparser.ConfigParser(interpolation=None)
    try:
        config.read([root / ".dvc/config", root / ".dvc/config.local"])
    except (configparser.Error, UnicodeDecodeError) as error:
        raise PipelineError(f"{root}/.dvc/config cannot be read ({error}); correct it with `dvc config`") from error
    return config


def _run(command: list[str], root: Path, groups: ProcessGroups, log: Callable[[str], None]) -> tuple[str, ...]:
    ended = run_program(command, root, groups, timeout_s=_LIMIT_S, log=log)
    if ended.code:
        tail = " ".join(ended.tail[-3:])
        raise PipelineError(f"`{' '.join(command[:4])}` failed in {root}: {ended.reason or tail}")
    return ended.tail
