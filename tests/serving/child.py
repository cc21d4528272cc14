"""The server as a process of its own: ``python -m tests.serving.child ROOT SETTINGS`` with settings as JSON."""

import json
import sys
from pathlib import Path
from typing import Any

import torch

from dualmind.domains.household.generate import generate_games
from dualmind.serving.files import ReleaseFiles
from dualmind.serving.loading import load
from dualmind.serving.production import read_state
from dualmind.serving.server import Settings, serve
from tests.serving.tiny import open_folder

DEFAULTS: dict[str, Any] = {
    "host": "127.0.0.1", "batch_size": 8, "gather_ms": 3.0, "queue": 64, "time_limit_ms": 20_000.0, "audit_rate": 0.5,
    "store_prompts": True, "max_games": 20, "game_expiry_s": 600.0, "poll_ms": 20.0,
}  # fmt: skip


def settings(root: Path, **changes: Any) -> Settings:
    return Settings(
        **{"port": 0, "production": root / "production", "traffic": root / "traffic", **DEFAULTS, **changes}
    )


def main(root: Path, changes: dict[str, Any]) -> None:
    torch.set_num_threads(1)

    def open_release(name: str) -> ReleaseFiles:
        return open_folder(root / "releases" / name)

    state = read_state(root / "production")
    assert state is not None
    served = load(state, root / "production", open_release)
    serve(settings(root, **changes), served, open_release, generate_games({"valid_unseen": 3}, seed=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
