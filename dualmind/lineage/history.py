"""What git knows: commits, their files, whether a commit is still in the history. It only reads, by the git program."""

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dualmind.errors import HistoryError

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")  # SHA-1, or SHA-256 repositories
_LIMIT_S = 120.0
_HOOKS = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"}  # a hook's, which would mean another repository


@dataclass(frozen=True, slots=True)
class History:
    """The git history that a project's folder is in. Paths are relative to that folder."""

    root: Path

    @property
    def head(self) -> str:
        """The commit that is checked out.

        Raises:
            HistoryError: there is no git, no repository, or no commit yet.
        """
        return self._git("rev-parse", "--verify", "HEAD^{commit}").decode().strip()

    @property
    def is_shallow(self) -> bool:
        """Whether older commits were left out when it was cloned.

        Raises:
            HistoryError: there is no git or no repository.
        """
        return self._git("rev-parse", "--is-shallow-repository").strip() == b"true"

    def changes(self, ignored: Iterable[str] = ()) -> list[str]:
        """Files that differ from the commit, or that git does not know and does not ignore; sorted.

        Args:
            ignored: folders whose content does not count, such as that of the releases.

        Raises:
            HistoryError: there is no git or no repository.
        """
        prefix = self._git("rev-parse", "--show-prefix").decode().strip()
        fields = self._git("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames").split(b"\0")
        paths = [os.fsdecode(field[3:]) for field in fields if field]
        folders = tuple(f"{prefix}{folder}/" for folder in ignored)
        return sorted(path for path in paths if not path.startswith(folders))

    def has(self, commit: str) -> bool:
        """Whether the commit is there, in the history or forgotten by it.

        Raises:
            HistoryError: there is no git or no repository, or ``commit`` is no full commit id.
        """
        self._git("rev-parse", "--git-dir")
        return self._run("cat-file", "-e", f"{_full(commit)}^{{commit}}").returncode == 0

    def contains(self, commit: str) -> bool:
        """Whether a branch, a tag or what is checked out leads to the commit.

        Raises:
            HistoryError: see :meth:`has`.
        """
        if self._run("merge-base", "--is-ancestor", _full(commit), "HEAD").returncode == 0:
            return True
        kinds = ("refs/heads", "refs/remotes", "refs/tags")  # a stash or a notes ref is no history
        return bool(self._git("for-each-ref", "--count=1", "--contains", commit, *kinds).strip())

    def show(self, commit: str, path: str) -> bytes | None:
        """A file as it was in the commit; None where it was not.

        Raises:
            HistoryError: see :meth:`has`.
        """
        done = self._run("show", f"{_full(commit)}:./{path}")
        return done.stdout if done.returncode == 0 else None

    def files(self, commit: str) -> dict[str, str]:
        """Id of each file's content in the commit, by path.

        Raises:
            HistoryError: see :meth:`has`, or the commit is not there.
        """
        listing = self._git("ls-tree", "-r", "-z", _full(commit)).split(b"\0")
        parts = [entry.split(b"\t", 1) for entry in listing if entry]
        return {os.fsdecode(name): head.split()[2].decode() for head, name in parts if head.split()[1] == b"blob"}

    def md5s(self, blobs: Iterable[str]) -> dict[str, str]:
        """MD5 of contents, by their ids.

        Raises:
            HistoryError: there is no git, or a content is not there.
        """
        wanted = sorted(set(blobs))
        output = self._git("cat-file", "--batch", data="".join(f"{blob}\n" for blob in wanted).encode())
        found, place = {}, 0
        for blob in wanted:
            end = output.index(b"\n", place)
            fields = output[place:end].split()
            if len(fields) != 3:  # "<id> missing"
                raise HistoryError(f"{self.root}: git has lost {blob}; run `git fetch --refetch`")
            start, size = end + 1, int(fields[2])
            found[blob] = hashlib.md5(output[start : start + size], usedforsecurity=False).hexdigest()
            place = start + size + 1
        return found

    def _git(self, *arguments: str, data: bytes | None = None) -> bytes:
        done = self._run(*arguments, data=data)
        if done.returncode:
            reason = done.stderr.decode(errors="replace").strip().splitlines()
            raise HistoryError(
                f"git {arguments[0]} failed in {self.root} ({reason[0] if reason else done.returncode}); "
                "run from a git checkout of the project"
            )
        return done.stdout

    def _run(self, *arguments: str, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        inherited = {name: value for name, value in os.environ.items() if name not in _HOOKS}
        environment = {**inherited, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}  # reading must not write the index
        try:
            return subprocess.run(
                ["git", "-c", "core.quotePath=false", *arguments],
                cwd=self.root, env=environment, input=data, capture_output=True, check=False, timeout=_LIMIT_S,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise HistoryError(f"git or the folder {self.root} is missing ({error}); install git") from error
        except subprocess.TimeoutExpired as error:
            raise HistoryError(f"git {arguments[0]} took over {_LIMIT_S:.0f} s in {self.root}; run it there") from error


def _full(commit: str) -> str:
    if not _COMMIT.fullmatch(commit):
        raise HistoryError(f"{commit[:80]!r} is no full commit id; give all 40 hexadecimal digits")
    return commit
