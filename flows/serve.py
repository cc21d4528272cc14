"""The server: ``python -m flows.serve`` serves what production names, until Ctrl-C or SIGTERM.

    python -m flows.serve                  # the first time it promotes the release that params name
    python -m flows.serve --rollback WHY   # goes back to what served before; a running server follows

Exit code 0: stopped as it was told to, or rolled back; 1: it cannot serve, and the message says why.
"""

import argparse
import getpass
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from dualmind.errors import DualmindError
from dualmind.serving.production import Production, State
from stages.params import RunParams, load_params
from stages.release import LEDGER, ReleaseParams

NUM_GAMES = 24  # that visitors can play


class ServeParams(BaseModel):
    """How the server serves."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: Annotated[str, Field(min_length=1)]  # 127.0.0.1: this machine only
    port: Annotated[int, Field(ge=1, le=65535)]
    batch_size: PositiveInt  # requests that are answered together at most
    gather_ms: Annotated[float, Field(ge=0, le=1000)]  # that a request waits for others
    queue: PositiveInt  # requests that may wait; more are refused with 429
    time_limit_ms: Annotated[float, Field(ge=100)]  # of a request; then 503
    audit_rate: Annotated[float, Field(ge=0, le=1)]  # share of requests that are drawn for a label
    store_prompts: bool  # false: the log holds their hashes only
    production: Path  # folder of what serves
    traffic: Path  # folder of the log
    release: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]  # promoted where nothing serves yet
    max_games: PositiveInt  # of visitors, open at a time
    game_expiry_s: Annotated[float, Field(gt=0)]  # after which an untouched game is forgotten
    poll_ms: Annotated[float, Field(ge=10)]  # between two looks for a new state


def serve(params: ServeParams, run: RunParams, releases: ReleaseParams, root: Path) -> None:
    """Serve until told to stop.

    Args:
        params: how.
        run: number of threads of the models.
        releases: where releases, the ledger and the keys lie.
        root: the project's folder, a git checkout.

    Raises:
        DualmindError: what production names cannot be served, or the log cannot be written.
    """
    import torch

    from dualmind.domains.household.generate import generate_games
    from dualmind.lineage.integrity import Trusted
    from dualmind.serving.files import ReleaseFiles, open_bundle
    from dualmind.serving.loading import load
    from dualmind.serving.server import Settings
    from dualmind.serving.server import serve as run_server

    torch.set_num_threads(run.threads)
    ledger = root / releases.folder / LEDGER
    trusted = [Trusted.read(path) for path in sorted((root / releases.keys).glob("*.pub"))]

    def open_release(name: str) -> ReleaseFiles:
        return open_bundle(root / releases.folder / name, root, ledger=ledger, trusted=trusted)

    production = open_production(params, releases, root)
    if done := production.heal():
        print(done, flush=True)
    state = production.state
    if state is None:
        files = open_release(params.release)
        state = production.promote(files, files.gate, files.threshold, who=getpass.getuser(), why="the first to serve")
    served = load(state, root / params.production, open_release)
    names = Settings.__dataclass_fields__.keys() & ServeParams.model_fields.keys()
    values = {name: getattr(params, name) for name in names}
    values |= {"production": root / params.production, "traffic": root / params.traffic}
    print(f"{state.label} serves at http://{params.host}:{params.port} ; stop with Ctrl-C", flush=True)
    run_server(Settings(**values), served, open_release, generate_games({"valid_unseen": NUM_GAMES}, seed=0))


def open_production(params: ServeParams, releases: ReleaseParams, root: Path) -> Production:
    """What serves, to be changed.

    Raises:
        SigningKeyError: the key of the ledger is missing or has expired.
    """
    from dualmind.lineage.keys import open_key

    key = open_key(root / releases.keys, releases.signer, datetime.now(UTC))
    return Production(root / params.production, root / releases.folder / LEDGER, key)


def rollback(params: ServeParams, releases: ReleaseParams, root: Path, why: str) -> State:
    """Go back to what served before; a running server follows by itself.

    Raises:
        ServingError: nothing served before.
        LineageError: the key or the ledger cannot be used.
        StorageError: the disk is full; what served before stays.
    """
    return open_production(params, releases, root).rollback(who=getpass.getuser(), why=why)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m flows.serve", description="Serve what production names.")
    parser.add_argument("--rollback", metavar="WHY", default="", help="go back to what served before, and stop there")
    given = parser.parse_args(arguments)
    try:
        params = load_params(ServeParams, "serve")
        releases = load_params(ReleaseParams, "release")
        if given.rollback:
            state = rollback(params, releases, Path.cwd(), given.rollback)
            print(f"{state.label} serves, with threshold {state.value}")
        else:
            serve(params, load_params(RunParams, "run"), releases, Path.cwd())
    except DualmindError as error:
        print(f"not served: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
