"""The model card of a release: what a reader meets first."""

from dualmind.lineage.standards import Contents, receipt_target
from dualmind.storage import dump_json


def model_card(contents: Contents, threshold: dict[str, object]) -> str:
    """A README in Markdown, of what the release holds and how to check it.

    Args:
        contents: the release.
        threshold: what its threshold.json holds; empty where it has none.
    """
    release = contents.release
    signed = f"`{release.signer.name}` ({release.signer.fingerprint[:16]})"
    if release.signer.development:
        signed += ", a **development key that nobody guards: not for production**"
    parts = [
        f"# Release {release.name}\n",
        f"Made at {release.time} from commit `{release.commit}`, signed with key {signed}.\n",
        "## Models\n",
        _table(
            ["checkpoint", "kind", "parameters", "steps", "seed", "threads", "made from"],
            [
                [
                    own.path, own.meta.kind, f"{own.meta.num_parameters:,}", str(own.meta.steps), str(own.meta.seed),
                    str(own.meta.threads), ", ".join(f"{name} {md5[:8]}" for name, md5 in own.meta.parents.items()),
                ]
                for own in release.checkpoints
            ],
        ),
        "## Metrics of training\n",
        _table(
            ["checkpoint", "metric", "value"],
            [[c.path, name, f"{value:.6g}"] for c in release.checkpoints for name, value in c.meta.metrics.items()],
        ),
        "## Data\n",
        _table(
            ["data set", "rows", "expectations met", "MD5", "judged by"],
            [
                [
                    receipt_target(path, own.dataset), f"{own.rows:,}", str(len(own.expectations)), own.md5,
                    own.library,
                ]
                for path, own in contents.receipts.items()
            ],
        ),
    ]  # fmt: skip
    if threshold:
        parts += ["## Threshold\n", f"```json\n{dump_json(threshold)}```\n"]
    parts += [
        "## Check it\n",
        f"```\npython -m flows.audit {release.name}\n```\n",
        f"Files lie below `files/` under their paths in the project; `dvc.lock`, `dvc.yaml` and `params.yaml` are "
        f"those of the commit. Made on {release.machine.cpu}, Python {release.machine.python}: another processor or "
        "number of threads gives other bytes.\n",
    ]
    return "\n".join(parts)


def _table(header: list[str], rows: list[list[str]]) -> str:
    if not rows:
        return "None.\n"
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)
