from pathlib import Path

import pytest

from dualmind.errors import DualmindError, GateError, ServingError, ThresholdMismatch
from dualmind.lineage.integrity import Trusted
from dualmind.serving.files import ReleaseFiles, open_bundle
from dualmind.serving.loading import load
from dualmind.serving.production import Production, State
from tests.lineage.project import LEDGER
from tests.serving.running import make_root
from tests.serving.tiny import make_gate_and_threshold, open_folder


@pytest.fixture
def own(tmp_path: Path) -> Production:
    return make_root(tmp_path)


def opened(own: Production) -> ReleaseFiles:
    return open_folder(own.folder.parent / "releases/r1")


def current(own: Production) -> State:
    assert own.state is not None
    return own.state


def refuse(own: Production, state: State, error: type[DualmindError], match: str) -> None:
    with pytest.raises(error, match=match):
        load(state, own.folder, lambda _: opened(own))


def test_gate_and_threshold_of_different_states_are_not_served_together(own: Production, tmp_path: Path) -> None:
    first = current(own)
    gate, threshold = make_gate_and_threshold(tmp_path / "new", first.system1, value=0.9, tilt=2.0)
    second = own.promote(opened(own), gate, threshold, who="Ann", why="test")
    assert load(second, own.folder, lambda _: opened(own)).agent.threshold == 0.9
    refuse(own, second.model_copy(update={"gate": first.gate}), ThresholdMismatch, "calibrated for the gate")
    refuse(own, first.model_copy(update={"gate": second.gate}), ThresholdMismatch, "calibrated for the gate")
    refuse(own, second.model_copy(update={"value": 0.1}), ServingError, r"says threshold 0\.1, its file says 0\.9")
    refuse(own, second.model_copy(update={"system1": "0" * 32}), GateError, "fitted on weights")


def test_weights_that_are_not_those_of_the_state_are_not_served(own: Production) -> None:
    state, files = current(own), opened(own)
    refuse(own, state.model_copy(update={"system2": "0" * 32}), ServingError, "system2 has the digest")
    meta = files.system2.path / "meta.json"
    meta.write_text(meta.read_text().replace('"seed": 0', '"seed": 1'))
    refuse(own, state, ServingError, "restore the release, or promote it again")


def test_a_release_that_does_not_pass_its_audit_is_not_opened(project: Path) -> None:
    trusted = [Trusted.read(path) for path in sorted((project / "keys").glob("*.pub"))]

    def open_it() -> ReleaseFiles:
        return open_bundle(project / "releases/r1", project, ledger=project / LEDGER, trusted=trusted)

    with pytest.raises(ServingError, match="0 checkpoints of kind system2"):  # it passes, and lacks a part
        open_it()
    (project / "releases/r1/README.md").write_text("better than it is")
    with pytest.raises(ServingError, match=r"release r1 is not served: .*README"):
        open_it()
