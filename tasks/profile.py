"""Runs a command under another params file, in a copy of the project that leaves this one's artifacts alone.

python -m tasks.profile quick -- python -m dvc repro
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from dualmind.errors import ParamsError, PipelineError
from dualmind.storage import write_text

_MANIFEST = ".sources"  # in the copy: what was copied, so that what is deleted in the project is deleted there


def make_copy(root: Path, profile: str) -> Path:
    """Bring ``.profiles/<profile>`` up to date with the project's sources, and params/<profile>.yaml as its params.

    Its artifacts and its dvc.lock are its own and stay, so that a second run does only what changed.

    Raises:
        ParamsError: there is no such profile.
        PipelineError: the project is no git checkout, so its sources cannot be told from what it made.
    """
    params = root / "params" / f"{profile}.yaml"
    if not params.is_file():
        known = ", ".join(sorted(p.stem for p in (root / "params").glob("*.yaml")))
        raise ParamsError(f"there is no profile {profile!r} ({params} is missing); profiles are {known}")
    copy = root / ".profiles" / profile
    sources = _sources(root)
    copied = copy / _MANIFEST
    before = copied.read_text(encoding="utf-8").splitlines() if copied.exists() else []
    for old in sorted(set(before) - sources):
        (copy / old).unlink(missing_ok=True)
    write_text(copied, "".join(f"{source}\n" for source in sorted(sources)))
    for source in sources:
        target = copy / source
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / source, target)
    write_text(copy / "params.yaml", _params(params, root, copy, sources))
    dvc = copy / ".dvc"
    dvc.mkdir(exist_ok=True)
    (dvc / "config").write_text("[core]\n    analytics = false\n    no_scm = true\n", encoding="utf-8")
    return copy


def _sources(root: Path) -> set[str]:
    """Files that git tracks or would track, but for DVC's own."""
    found = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if found.returncode:
        raise PipelineError(f"{root} is no git checkout ({found.stderr.strip()}); clone the project with git")
    names = {name for name in found.stdout.split("\0") if name}
    return {
        n for n in names if not n.startswith(".dvc/") and n not in {"dvc.lock", "params.yaml"} and (root / n).is_file()
    }


def _params(path: Path, root: Path, copy: Path, sources: set[str]) -> str:
    """Text of a params file for the copy: games that are not among the sources are named as seen from there."""
    text = path.read_text(encoding="utf-8")
    try:
        content = yaml.safe_load(text)
        games = content["household"]["games"]
        inside = os.path.relpath(root / games, root)
    except (yaml.YAMLError, KeyError, TypeError):
        return text  # what is wrong with it is said where it is read, with the key's name
    copied = inside == "." or any(source == inside or source.startswith(f"{inside}/") for source in sources)
    if Path(games).is_absolute() or copied:
        return text
    content["household"]["games"] = os.path.relpath(root / games, copy)
    return yaml.safe_dump(content, sort_keys=False)


def main(arguments: list[str]) -> int:
    """Make the copy and run the command in it; returns the command's exit code."""
    profile, separator, *command = arguments
    assert separator == "--" and command, __doc__
    try:
        copy = make_copy(Path.cwd(), profile)
    except (ParamsError, PipelineError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"profile {profile} in {copy}", flush=True)
    return subprocess.run(command, cwd=copy, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
