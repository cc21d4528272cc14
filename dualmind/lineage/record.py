"""What a release says of itself. Everything here is under the release's signature."""

import os
import platform
import re
from importlib import metadata
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from dualmind.lineage.content import FileDigest
from dualmind.lineage.entries import Anchor
from dualmind.lineage.keys import KeyInfo

FILES = "files"  # outputs lie below this folder under their paths in the project
DOCUMENTS = ("dvc.lock", "dvc.yaml", "params.yaml")  # copied as they were
RELEASE, MANIFEST, SIGNATURE, PUBLIC_KEY = "release.json", "manifest.json", "signature", "public_key.pem"
CARD, SBOM, PROVENANCE, OPENLINEAGE = "README.md", "sbom.cdx.json", "provenance.json", "openlineage.jsonl"
REQUIRED = (*DOCUMENTS, RELEASE, MANIFEST, SIGNATURE, PUBLIC_KEY, CARD, SBOM, PROVENANCE, OPENLINEAGE)


class Meta(BaseModel):
    """The part of a checkpoint's meta.json that lineage needs; the whole is in ``dualmind.models.checkpoint``.

    That module imports torch, and an audit must start at once.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: str
    parents: dict[str, str]  # name -> MD5 of what it was made from
    threads: PositiveInt
    seed: int
    steps: int
    num_parameters: int
    metrics: dict[str, float]


class CheckpointRecord(BaseModel):
    """One checkpoint of a release."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str  # its folder in the project
    digest: str  # MD5 over its files, as later checkpoints name it among their parents
    meta: Meta


class Machine(BaseModel):
    """Where a release was made, or a stage run again. Other processors and thread counts give other bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpu: str
    num_cpus: int
    system: str
    python: str
    packages: dict[str, str]  # name -> version of everything that was installed

    @classmethod
    def here(cls) -> Self:
        """This one."""
        found = {own.metadata["Name"]: own.version for own in metadata.distributions()}
        return cls(
            cpu=_cpu(),
            num_cpus=os.cpu_count() or 1,
            system=f"{platform.system()} {platform.machine()}",
            python=platform.python_version(),
            packages=dict(sorted(found.items(), key=lambda item: (item[0].lower(), item[0]))),
        )


class Release(BaseModel):
    """What ``release.json`` holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    time: str  # UTC
    commit: str  # of the code, the params and dvc.lock
    changes: list[str]  # files that differed from the commit; must be none
    signer: KeyInfo
    ledger: Anchor  # how far the ledger had come: shows later if it was cut off or written anew
    machine: Machine
    checkpoints: list[CheckpointRecord]
    receipts: list[str]  # paths of outputs, in the project
    gates: list[str]
    thresholds: list[str]
    results: list[str]  # other small outputs, such as metrics


class Manifest(BaseModel):
    """What ``manifest.json`` holds: every file but itself and the signature."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: dict[str, FileDigest] = Field(min_length=1)


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE) if info.is_file() else None
    return found[1].strip() if found else platform.processor() or platform.machine()
