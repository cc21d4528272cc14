"""The audit: can a release be trusted, what served when, what does a data set affect?

    python -m flows.audit r3                          # verify one release; "all" for every one
    python -m flows.audit all --at 2026-03-03         # and say what served then
    python -m flows.audit all --history               # and every change of what serves: who, when, why
    python -m flows.audit all --affected-by WHAT      # and what descends from it, and when that served
    python -m flows.audit r3 --made-from WHAT         # and what it descends from: data, code, commands, values
    python -m flows.audit r3 --reexecute 2            # and run two stages again, the cheap ones more often
    python -m flows.audit r3.tar.gz                   # unpack a release that came as an archive, and verify it

WHAT is a path such as ``artifacts/prepare/household/decisions.parquet``, the first digits of a digest,
``commit:0123abc`` or ``param:run.seed=0``.

Exit code 0: all is well; 1: something is not, or cannot be answered. Each release's answers go to
``artifacts/audit/<release>.json`` and ``.html``. Neither Prefect nor torch is imported, so that it starts at once.
"""

import argparse
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from dualmind.errors import DualmindError, LineageError
from dualmind.lineage.archive import unpack
from dualmind.lineage.bundle import Bundle
from dualmind.lineage.content import check_name
from dualmind.lineage.graph import Releases
from dualmind.lineage.integrity import Trusted
from dualmind.lineage.ledger import Ledger
from dualmind.lineage.page import render_audit
from dualmind.lineage.queries import Answer, affected_by, history, made_from, serving
from dualmind.lineage.record import Machine
from dualmind.lineage.verify import Verdict, verify_release
from dualmind.storage import write_json, write_text
from stages.params import load_params
from stages.release import LEDGER, ReleaseParams
from tasks.audit import check_cache, reexecute, sample_stages

OUT = Path("artifacts/audit")


class AuditParams(BaseModel):
    """How far an audit goes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    minutes: Annotated[float, Field(gt=0)]  # for all stages that one release's audit runs again


@dataclass(frozen=True, slots=True)
class Questions:
    """What is asked beside whether releases can be trusted; "" and False where it is not."""

    at: str = ""  # a time: what served then?
    history: bool = False  # every change of what serves
    affected_by: str = ""  # a thing: what descends from it?
    made_from: str = ""  # a thing: what does it descend from?


@dataclass(frozen=True, slots=True)
class Audit:
    """All answers."""

    verdicts: tuple[Verdict, ...]
    answers: tuple[Answer, ...]

    @property
    def ok(self) -> bool:
        """Whether every release that was asked for passes."""
        return all(verdict.ok for verdict in self.verdicts)


def audit(
    release: str, root: Path, params: ReleaseParams, questions: Questions, *, again: int, minutes: float
) -> Audit:  # fmt: skip
    """Verify one release or all, and write the answers below ``artifacts/audit``.

    Args:
        release: its name, ``all``, or the path of an archive that holds one.
        root: the project's folder.
        params: where releases and trusted keys lie.
        questions: what else is asked.
        again: number of stages that are run again.
        minutes: for those.

    Raises:
        DualmindError: there is no release of that name, or a time, the ledger or a key cannot be read.
    """
    folder = root / params.folder
    ledger = Ledger.read(folder / LEDGER)
    ledger.check_alone()
    trusted = [Trusted.read(path) for path in sorted((root / params.keys).glob("*.pub"))]
    if (root / release).is_file():
        release = unpack(root / release, folder)
    names = _names(release, folder)
    answers = _answer(questions, ledger, folder, release)
    verdicts = []
    for name in names:
        verdict = verify_release(folder / name, root, ledger=ledger, trusted=trusted)
        try:
            bundle = Bundle.open(folder / name)
        except LineageError:
            bundle = None  # the verdict says why
        if bundle is not None:
            verdict = verdict.model_copy(update={"checks": (*verdict.checks, *check_cache(bundle, root))})
        if again and bundle is not None:
            verdict = _run_again(verdict, bundle, root, again, minutes)
        _write(verdict, bundle, root, answers)
        verdicts.append(verdict)
    return Audit(tuple(verdicts), tuple(answers))


def _answer(questions: Questions, ledger: Ledger, folder: Path, release: str) -> list[Answer]:
    answers = [serving(ledger, folder, questions.at)] if questions.at else []
    if questions.history:
        answers.append(history(ledger))
    if not (questions.affected_by or questions.made_from):
        return answers
    releases = Releases.read(folder)
    if questions.affected_by:
        answers.append(affected_by(releases, ledger, questions.affected_by))
    if questions.made_from:
        answers.append(made_from(releases, questions.made_from, "" if release == "all" else release))
    return answers


def _names(release: str, folder: Path) -> list[str]:
    there = sorted(p.name for p in folder.glob("*") if p.is_dir() and not p.name.startswith("."))
    if release == "all":
        if not there:
            raise LineageError(f"there are no releases in {folder}; make one with `python -m stages.release`")
        return there
    if check_name(release) not in there:
        raise LineageError(f"there is no release {release!r} in {folder}; there are {', '.join(there) or 'none'}")
    return [release]


def _run_again(verdict: Verdict, bundle: Bundle, root: Path, number: int, minutes: float) -> Verdict:
    if not verdict.ok:  # code of a release that cannot be trusted is not run
        print("no stage is run again: the release does not pass, and its code cannot be trusted", file=sys.stderr)
        return verdict
    names = sample_stages(bundle, number, np.random.default_rng(secrets.randbits(64)))  # nobody can foresee the sample
    print(f"running again: {', '.join(names)}", flush=True)
    checks = reexecute(bundle, root, names, minutes=minutes, here=Machine.here(), log=lambda line: print(f"  {line}"))
    return verdict.model_copy(update={"checks": (*verdict.checks, *checks)})


def _write(verdict: Verdict, bundle: Bundle | None, root: Path, answers: Sequence[Answer]) -> None:
    content = {
        "release": verdict.release,
        "ok": verdict.ok,
        "checks": [check.model_dump() for check in verdict.checks],
        "answers": [answer.model_dump() for answer in answers],
    }
    write_json(root / OUT / f"{verdict.release}.json", content)
    write_text(root / OUT / f"{verdict.release}.html", render_audit(verdict, bundle, answers))


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 0 if every release that was asked for passes, 1 if one does not."""
    parser = argparse.ArgumentParser(prog="python -m flows.audit", description="Can a release be trusted?")
    parser.add_argument("release", metavar="RELEASE", help='its name, "all", or an archive of it')
    parser.add_argument("--at", metavar="TIME", default="", help="say what served then (2026-03-03, or with a time)")
    parser.add_argument("--history", action="store_true", help="say who changed what serves, when and why")
    thing = "a path, a digest, commit:ID or param:KEY=VALUE: say what"
    parser.add_argument("--affected-by", metavar="WHAT", default="", help=f"{thing} descends from it")
    parser.add_argument("--made-from", metavar="WHAT", default="", help=f"{thing} it descends from")
    parser.add_argument(
        "--reexecute", metavar="N", type=int, default=0, help="run N stages again and compare the bytes"
    )
    given = parser.parse_args(arguments)
    root = Path.cwd()
    try:
        params = load_params(ReleaseParams, "release")
        minutes = load_params(AuditParams, "audit").minutes
        questions = Questions(given.at, given.history, given.affected_by, given.made_from)
        done = audit(given.release, root, params, questions, again=given.reexecute, minutes=minutes)
    except DualmindError as error:
        print(f"no audit: {error}", file=sys.stderr)
        return 1
    for answer in done.answers:
        print(answer.text)
        for row in answer.rows:
            print(f"  {'  '.join(row)}")
    for verdict in done.verdicts:
        word = "passes" if verdict.ok else "DOES NOT PASS"
        print(f"release {verdict.release} {word}: {OUT / verdict.release}.html")
        for own in verdict.failures:
            print(f"  {own.name}: {own.reason}")
            print(f"    expected {own.expected or '-'}, found {own.found or '-'}; {own.remedy}")
    return 0 if done.ok else 1


if __name__ == "__main__":
    sys.exit(main())
