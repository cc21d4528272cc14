"""A checkpoint on disk: safetensors weights, config, tokenizer, and where it comes from. Never pickle."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForSeq2SeqLM, PreTrainedModel, PreTrainedTokenizerBase
from transformers import PreTrainedTokenizerFast as Tokenizer

from dualmind.errors import CheckpointError, StorageError
from dualmind.models.config import CompactConfig
from dualmind.models.int8 import Int8Experts, Int8Linear, to_int8
from dualmind.models.packing import pack, unpack
from dualmind.models.scoring import CommandScorer
from dualmind.storage import atomic_folder, md5_file, md5_folder, write_json

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
    # of compressed checkpoints; absent from the file of others
    storage: Literal["float32", "int8"] = "float32"  # int8: see dualmind/models/packing.py
    files: dict[str, str] = {}  # MD5 of each file beside meta.json, so that one flipped byte is noticed


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
        self._check_files()
        model = self._empty_model()
        weights = self.path / "model.safetensors"
        try:
            if self.meta.storage == "int8":
                missing, unexpected = _load_int8(model, load_file(weights))
            else:
                missing, unexpected = model.load_state_dict(load_file(weights), strict=False)
        except (RuntimeError, SafetensorError, ValueError, KeyError) as error:
            raise CheckpointError(f"{weights} does not fit its config.json: {str(error)[:600]}; {_RESTORE}") from error
        if wrong := sorted(set(missing) & _own_tensors(model).keys() | set(unexpected)):
            raise CheckpointError(f"{weights} lacks, or has beyond its config.json: {', '.join(wrong[:8])}; {_RESTORE}")
        return model.eval(), self._tokenizer()

    def _check_files(self) -> None:
        for name, md5 in self.meta.files.items():
            if (own := md5_file(self.path / name)) != md5:
                raise CheckpointError(f"{self.path / name} has MD5 {own}, not {md5} as when it was written; {_RESTORE}")

    def _empty_model(self) -> PreTrainedModel:
        try:
            config = AutoConfig.from_pretrained(self.path, local_files_only=True)
            # our own models need no float32 weights before the int8 ones; others may hold buffers that must be made
            empty = self.meta.storage == "int8" and isinstance(config, CompactConfig)
            with torch.device("meta" if empty else "cpu"):
                model: PreTrainedModel = AutoModelForSeq2SeqLM.from_config(config)
        except Exception as error:  # what a wrong value raises depends on the model's own code
            raise CheckpointError(
                f"{self.path / 'config.json'} describes no encoder-decoder: {error!r:.600}; {_RESTORE}"
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

    A model with int8 modules is stored small, with the MD5 of every file.

    Raises:
        StorageError: the disk is full or the folder cannot be written.
    """
    with atomic_folder(path) as folder:
        model.config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        small = any(isinstance(module, Int8Linear | Int8Experts) for module in model.modules())
        try:
            save_file(
                pack(model) if small else _own_tensors(model), folder / "model.safetensors", metadata={"format": "pt"}
            )
        except SafetensorError as error:  # its writer wraps what the system says, such as a full disk
            raise StorageError(f"{path} could not be written ({error}); free some disk space and run again") from error
        if small:
            files = {file.name: md5_file(file) for file in sorted(folder.iterdir())}
            meta = meta.model_copy(update={"storage": "int8", "files": files})
        write_json(folder / "meta.json", meta.model_dump(exclude_defaults=True))
    return Checkpoint.open(path)


def _load_int8(model: PreTrainedModel, stored: dict[str, Tensor]) -> tuple[list[str], list[str]]:
    """Make a model int8 and give it what was stored; names of tensors that are missing, and unexpected ones."""
    with torch.no_grad():
        to_int8(model)
    state = unpack(stored, model)
    for name, tensor in model.state_dict().items():
        if name in state and tensor.shape != state[name].shape:
            raise ValueError(f"size mismatch for {name}: {tuple(state[name].shape)}, not {tuple(tensor.shape)}")
    found = model.load_state_dict(state, strict=False, assign=True)
    for parameter in model.parameters():
        if not parameter.is_floating_point():
            parameter.requires_grad_(False)
    model.tie_weights()
    return found.missing_keys, found.unexpected_keys


def _own_tensors(model: PreTrainedModel) -> dict[str, Tensor]:
    """The model's tensors without second names of tied ones.

    safetensors' own ``save_model`` notes those names in a header whose order changes from run to run, and the bytes
    of a checkpoint must not.
    """
    tensors: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict().items():
        tensors.setdefault(tensor.data_ptr(), (name, tensor.contiguous()))
    return dict(tensors.values())
