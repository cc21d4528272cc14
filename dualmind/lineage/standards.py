"""The same lineage in three published forms: a CycloneDX ML-BOM, SLSA provenance in an in-toto statement, OpenLineage.

Each is a function of what is released alone, so that the same release gives the same bytes.
"""

import json
import posixpath
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dualmind.data.validation import Receipt
from dualmind.errors import BundleError
from dualmind.lineage.content import FileDigest
from dualmind.lineage.lockfile import FileRef, Lock, StageRecord
from dualmind.lineage.record import FILES, Release
from dualmind.lineage.times import parse_time
from dualmind.storage import dump_json

_NAMESPACE = uuid.UUID("6f3c1bd2-6c0b-5d0e-9d43-0a3f2f1c7e55")  # ours, so that equal releases have equal ids
_BUILD_TYPE = "https://dvc.org/doc/user-guide/project-structure/dvcyaml-files"  # what defines a stage and its fields
_SLSA = "https://slsa.dev/provenance/v1"


@dataclass(frozen=True, slots=True)
class Contents:
    """A release before it is described."""

    release: Release
    lock: Lock
    files: Mapping[str, FileDigest]  # by path in the bundle
    receipts: Mapping[str, Receipt]  # by path in the project


def ml_bom(contents: Contents) -> str:
    """The models, the data they were made from and the packages, as a CycloneDX 1.6 JSON document.

    Raises:
        BundleError: the document does not follow the standard's schema.
    """
    from cyclonedx.model import HashAlgorithm, HashType, Property
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    release = contents.release
    root = Component(name=release.name, type=ComponentType.APPLICATION, bom_ref=f"release:{release.name}")
    models, data = [], {}
    for checkpoint in release.checkpoints:
        weights = contents.files[f"{FILES}/{checkpoint.path}/model.safetensors"]
        values = {"kind": checkpoint.meta.kind, "parameters": checkpoint.meta.num_parameters, **checkpoint.meta.metrics}
        models.append(
            Component(
                name=checkpoint.path,
                type=ComponentType.MACHINE_LEARNING_MODEL,
                bom_ref=f"model:{checkpoint.path}",
                hashes=[HashType(alg=HashAlgorithm.SHA_256, content=weights.sha256)],
                properties=[Property(name=f"dualmind:{name}", value=str(value)) for name, value in values.items()],
            )
        )
    for ref in datasets(contents.lock):
        digest = [HashType(alg=HashAlgorithm.MD5, content=ref.md5.removesuffix(".dir"))]
        data[ref.path] = Component(
            name=ref.path, type=ComponentType.DATA, bom_ref=f"data:{ref.path}:{ref.md5}", hashes=digest
        )
    packages = [
        Component(name=name, version=version, type=ComponentType.LIBRARY, bom_ref=f"package:{name}")
        for name, version in release.machine.packages.items()
    ]
    bom = Bom(
        components=[*models, *data.values(), *packages],
        serial_number=uuid.uuid5(_NAMESPACE, f"{release.name} {release.commit} {release.time}"),
        metadata=BomMetaData(timestamp=parse_time(release.time), component=root),
    )
    bom.register_dependency(root, [*models, *packages])
    for model, checkpoint in zip(models, release.checkpoints, strict=True):
        bom.register_dependency(
            model, [data[path] for path in _read_by(contents.lock, checkpoint.path) if path in data]
        )
    text = dump_json(json.loads(JsonV1Dot6(bom).output_as_string()))
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise BundleError(f"the bill of materials of {release.name} breaks the CycloneDX schema: {error}")
    return text


def provenance(contents: Contents) -> str:
    """How the files were made, as an in-toto statement with a SLSA provenance predicate.

    Raises:
        BundleError: the document does not follow the standards' schemas.
    """
    release, lock = contents.release, contents.lock
    made_in = {out.path for stage in lock.stages for out in stage.outs}
    inputs = {dep.path: dep for stage in lock.stages for dep in stage.deps if dep.path not in made_in}
    threads = {checkpoint.path: checkpoint.meta.threads for checkpoint in release.checkpoints}
    predicate = {
        "buildDefinition": {
            "buildType": _BUILD_TYPE,
            "externalParameters": {
                "stages": {s.name: {"cmd": s.command, "params": dict(s.params)} for s in lock.stages}
            },
            "internalParameters": {"threads": threads, "machine": release.machine.model_dump(exclude={"packages"})},
            "resolvedDependencies": [
                {"uri": f"git:{release.commit}", "digest": {"gitCommit": release.commit}},
                *(_resource(ref) for ref in (*inputs.values(), *datasets(lock))),
            ],
        },
        "runDetails": {
            "builder": {"id": f"urn:dualmind:signer:{release.signer.fingerprint}"},
            "metadata": {"invocationId": release.name, "startedOn": release.time, "finishedOn": release.time},
            "byproducts": [
                {"name": path, "digest": {"sha256": contents.files[f"{FILES}/{path}"].sha256}}
                for path in release.receipts
            ],
        },
    }
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": path, "digest": {"sha256": digest.sha256}}
            for path, digest in sorted(contents.files.items())
            if path.startswith(f"{FILES}/")
        ],
        "predicateType": _SLSA,
        "predicate": predicate,
    }
    check_statement(statement)
    return dump_json(statement)


def check_statement(statement: Mapping[str, Any]) -> None:
    """Hold a statement against the messages that in-toto and SLSA publish.

    Raises:
        BundleError: a field is unknown, missing or of another type.
    """
    from google.protobuf.json_format import ParseDict, ParseError
    from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
    from in_toto_attestation.v1 import statement_pb2
    from in_toto_attestation.v1.statement import Statement

    try:
        message = ParseDict({**statement, "type": statement.get("_type"), "_type": None}, statement_pb2.Statement())
        Statement.copy_from_pb(message).validate()
        ParseDict(statement["predicate"], provenance_pb2.Provenance())
    except (ParseError, ValueError, KeyError) as error:
        raise BundleError(f"the provenance does not follow in-toto and SLSA: {error}") from error


def openlineage(contents: Contents) -> str:
    """One COMPLETE event per stage, as JSON lines."""
    from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
    from openlineage.client.facet_v2 import dataset_version_dataset
    from openlineage.client.serde import Serde

    release = contents.release

    def version(ref: FileRef) -> dict[str, Any]:
        return {"version": dataset_version_dataset.DatasetVersionDatasetFacet(ref.md5, producer=_BUILD_TYPE)}

    lines = []
    for stage in contents.lock.stages:
        event = RunEvent(
            eventTime=release.time,
            eventType=RunState.COMPLETE,
            producer=_BUILD_TYPE,
            run=Run(runId=str(uuid.uuid5(_NAMESPACE, f"{release.name} {release.commit} {stage.name}"))),
            job=Job(namespace="dualmind", name=stage.name),
            inputs=[InputDataset("dualmind", ref.path, facets=version(ref)) for ref in stage.deps],
            outputs=[OutputDataset("dualmind", ref.path, facets=version(ref)) for ref in stage.outs],
        )
        lines.append(Serde.to_json(event))
    return "".join(f"{line}\n" for line in lines)


def receipt_target(receipt: str, dataset: str) -> str:
    """Path in the project of the data set that a receipt at ``receipt`` names relative to itself."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(receipt), dataset))


def datasets(lock: Lock) -> list[FileRef]:
    """Every Parquet file that a stage read or made, once for each content."""
    refs = {(ref.path, ref.md5): ref for stage in lock.stages for ref in (*stage.deps, *stage.outs)}
    return [ref for ref in refs.values() if ref.path.endswith(".parquet")]


def _read_by(lock: Lock, out: str) -> list[str]:
    """Paths that the stage which makes ``out`` reads."""
    maker: StageRecord | None = next((s for s in lock.stages if out in {own.path for own in s.outs}), None)
    return [dep.path for dep in maker.deps] if maker else []


def _resource(ref: FileRef) -> dict[str, Any]:
    return {"name": ref.path, "digest": {"md5": ref.md5.removesuffix(".dir")}}
