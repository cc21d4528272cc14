"""Loads a state of production as one unit: systems, gate and threshold that belong together, or an error."""

from dataclasses import dataclass
from pathlib import Path

from dualmind.agent.agent import Agent
from dualmind.agent.gate import Gate
from dualmind.calibration.threshold import Threshold
from dualmind.errors import ServingError
from dualmind.models.checkpoint import Checkpoint
from dualmind.models.system1 import System1
from dualmind.models.system2 import System2
from dualmind.serving.files import OpenRelease, Weights
from dualmind.serving.production import State, kept_file


@dataclass(frozen=True, slots=True)
class Served:
    """What answers; never changed, only replaced as a whole."""

    state: State
    agent: Agent
    threshold: Threshold

    @property
    def domains(self) -> list[str]:
        """Those that the gate was fitted on."""
        return sorted(self.agent.gate.file.intercepts)


def load(state: State, folder: Path, open_release: OpenRelease, former: Served | None = None) -> Served:
    """Load what a state names.

    Args:
        state: of production.
        folder: the folder ``production``.
        open_release: verifies a release and says where its files are.
        former: what serves now; its models are kept where they are the same, so that there is one copy.

    Raises:
        ServingError: a file is missing, was changed, or is not the one that the state names.
        GateError: the gate is damaged or belongs to other weights.
        CalibrationError: the threshold is damaged or was proven for another gate or other weights.
        CheckpointError: a checkpoint is damaged.
        LineageError: the release cannot be read.
    """
    gate_path = kept_file(folder, state.gate)
    gate = Gate.load(gate_path, state.system1)
    threshold = Threshold.read(kept_file(folder, state.threshold)).for_weights(state.system1, state.gate)
    if threshold.value != state.value:
        raise ServingError(f"state {state.number} says threshold {state.value}, its file says {threshold.value}")
    if former is not None and _same_systems(state, former.state):
        system1, system2 = former.agent.system1, former.agent.system2
    else:
        files = open_release(state.release)
        if files.digest != state.release_digest:
            raise ServingError(
                f"release {state.release} is {files.digest}, state {state.number} was promoted with "
                f"{state.release_digest}; restore the release, or promote it again"
            )
        system1 = System1.load(_checked(files.system1, state.system1))
        system2 = System2.load(_checked(files.system2, state.system2))
    return Served(state, Agent(system1, system2, gate, threshold.value), threshold)


def _same_systems(one: State, two: State) -> bool:
    return (one.release_digest, one.system1, one.system2) == (two.release_digest, two.system1, two.system2)


def _checked(weights: Weights, digest: str) -> Path:
    found = Checkpoint.open(weights.path).digest
    if found != digest:
        raise ServingError(f"{weights.path} has the digest {found}, not {digest}; restore the release from a copy")
    return weights.path
