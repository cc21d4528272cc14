"""Verifies a release: every question that an auditor asks, answered with a reason and a remedy. It never raises."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from dualmind.errors import LineageError
from dualmind.lineage.bundle import Bundle
from dualmind.lineage.checks import Check, failed, passed
from dualmind.lineage.descent import check_descent
from dualmind.lineage.history import History
from dualmind.lineage.integrity import Trusted, check_bytes, check_files, check_key, check_ledger, check_signature
from dualmind.lineage.ledger import Ledger
from dualmind.lineage.origins import check_origins


class Verdict(BaseModel):
    """What is said of one release."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    release: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether it can be trusted."""
        return all(check.ok for check in self.checks)

    @property
    def failures(self) -> list[Check]:
        """What cannot."""
        return [check for check in self.checks if not check.ok]


def verify_release(
    path: Path, root: Path, *, ledger: Ledger | None = None, trusted: Sequence[Trusted] = ()
) -> Verdict:  # fmt: skip
    """Ask everything of the release at ``path``; a question that cannot be answered has failed.

    Args:
        path: its folder.
        root: a git checkout of the project, with its history.
        ledger: where releases are recorded; without it, that question is left out.
        trusted: keys that the auditor got on another way; without any, whose key it is stays open.
    """
    checks = check_files(path)
    if not checks[0].ok:  # nothing more is read of a folder that is unsafe or incomplete
        return Verdict(release=path.name, checks=tuple(checks))
    checks += [*check_bytes(path), *check_signature(path)]
    try:
        bundle = Bundle.open(path)
        checks += [*_check_name(bundle), *check_key(bundle, trusted)]
        if ledger is not None:
            checks += check_ledger(bundle, ledger, trusted)
        checks += [*check_origins(bundle, History(root)), *check_descent(bundle)]
    except LineageError as error:
        checks.append(failed("files", str(error), remedy="do not serve it; restore the folder from a copy"))
    return Verdict(release=path.name, checks=tuple(checks))


def _check_name(bundle: Bundle) -> list[Check]:
    name, folder = bundle.release.name, bundle.path.name
    if name != folder:
        remedy = f"rename the folder to {name}, or restore what was there"
        return [failed("name", "the release lies under another name", expected=name, found=folder, remedy=remedy)]
    return [passed("name", f"it says that it is {name}")]
