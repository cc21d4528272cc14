"""A checkpoint on disk: safetensors weights, config, tokenizer, and where it comes from. Never pickle."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers import PreTrainedTokenizerFast as Tokenizer

from dualmind.errors import CheckpointError, StorageError
from dualmind.models.scoring import CommandScorer
from dualmind.storage import atomic_folder, md5_folder, write_json

FILES = ("config.json", "meta.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
_RESTORE = "run `dvc checkout` to restore the folder"
_PICKLE_STARTS = (
    b"PK\x03\x04",
    b"\x80\x02",
    b"\x80\x03",
    b"\x80\x04",
    b"\x80\x05",
)  # torch.save: zip, or pickle protocols


class Meta(BaseModel):
    """Where a checkpoint comes from. Holds no time of day: the same run must give the same bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str  # "system1"
    parents: dict[str, str]  # what it was made from: name -> MD5
    seed: int
    threads: int  # another number of threads gives other bytes
    steps: int  # optimiser steps
    num_parameters: int
    metrics: dict[str, float]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder that was checked to be a complete checkpoint."""

    path: Path
    meta: Meta

    @classmethod
    def open(cls, path: Path) -> "Checkpoint":
        """Check a folder's files and read its meta data.

        Raises:
            CheckpointError: a file is missing or empty, weights are a pickle, or meta.json is not one of ours.
        """
        for name in FILES:
            file = path / name
            if not file.is_file() or file.stat().st_size == 0:
                raise CheckpointError(f"{path} has no {name}; run `dvc repro` or `dvc pull` to restore it")
        if pickles := [p.name for p in path.iterdir() if p.suffix in {".bin", ".pt", ".pth", ".pkl", ".pickle"}]:
            raise CheckpointError(
                f"{path} holds {pickles[0]}, a pickle that could run code; only safetensors is loaded"
            )
        with (path / "model.safetensors").open("rb") as weights:
            if weights.read(4).startswith(_PICKLE_STARTS):
                raise CheckpointError(f"{path / 'model.safetensors'} is a pickle that could run code; it is not loaded")
        try:
            return cls(path, Meta.model_validate_json((path / "meta.json").read_bytes()))
        except ValidationError as error:
            raise CheckpointError(f"{path / 'meta.json'} is not a checkpoint's meta data: {error}") from error

    @property
    def digest(self) -> str:
        """MD5 over all files of the folder."""
        return md5_folder(self.path)

    def load(self) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        """The model, in evaluation mode on the CPU, and its tokenizer.

        Raises:
            CheckpointError: the weights are damaged or have other shapes than config.json says.
        """
        model = self._empty_model()
        weights = self.path / "model.safetensors"
        try:
            missing, unexpected = model.load_state_dict(load_file(weights), strict=False)
        except (RuntimeError, SafetensorError) as error:
            raise CheckpointError(f"{weights} does not fit its config.json: {str(error)[:600]}; {_RESTORE}") from error
        if wrong := sorted(set(missing) & _own_tensors(model).keys() | set(unexpected)):
            raise CheckpointError(f"{weights} lacks, or has beyond its config.json: {', '.join(wrong[:8])}; {_RESTORE}")
        return model.eval(), self._tokenizer()

    def _empty_model(self) -> PreTrainedModel:
        try:
            config = AutoConfig.from_pretrained(self.path, local_files_only=True)
            kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
            model: PreTrainedModel = kind.from_config(config)
        except Exception as error:  # what a wrong value raises depends on the model's own code
            raise CheckpointError(
                f"{self.path / 'config.json'} describes no model that we can load: {error!r:.600}; {_RESTORE}"
            ) from error
        return CommandScorer(model).model

    def _tokenizer(self) -> PreTrainedTokenizerBase:
        try:
            tokenizer: PreTrainedTokenizerBase = Tokenizer.from_pretrained(self.path, local_files_only=True)
        except Exception as error:  # its reader, written in Rust, raises plain Exception
            raise CheckpointError(
                f"{self.path / 'tokenizer.json'} is no tokenizer: {error!r:.600}; {_RESTORE}"
            ) from error
        return tokenizer


def save_checkpoint(path: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, meta: Meta) -> Checkpoint:
    """Write a checkpoint folder as a whole: on failure the former one stays.

    Raises:
        StorageError: the disk is full or the folder cannot be written.
    """
    with atomic_folder(path) as folder:
        model.config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        try:
            save_file(_own_tensors(model), folder / "model.safetensors", metadata={"format": "pt"})
        except SafetensorError as error:  # its writer wraps what the system says, such as a full disk
            raise StorageError(f"{path} could not be written ({error}); free some disk space and run again") from error
        write_json(folder / "meta.json", meta.model_dump())
    return Checkpoint.open(path)


def _own_tensors(model: PreTrainedModel) -> dict[str, Tensor]:
    """The model's tensors without second names of tied ones.

    safetensors' own ``save_model`` notes those names in a header whose order changes from run to run, and the bytes
    of a checkpoint must not.
    """
    tensors: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict().items():
        tensors.setdefault(tensor.data_ptr(), (name, tensor.contiguous()))
    return dict(tensors.values())
