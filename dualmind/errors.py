"""Errors that a user can cause. Every message names the value, the place and the remedy.

    DualmindError
    ├── ParamsError            an unknown or missing key, or a value out of range, in a params file
    ├── GameError              a household game that cannot be read or played
    ├── QuestionError          a reasoning question that cannot be drawn, read or scored
    ├── DataError              a data set of the wrong form
    │   ├── ValidationFailed   a data set that did not pass its gate
    │   └── ReceiptMismatch    bytes other than those that were validated
    ├── CheckpointError        a checkpoint that is incomplete, unsafe or of other shapes
    ├── ConsolidationError     a Fisher information or a replay buffer that does not fit the model or the batch
    ├── DistillationError      a teacher and a student that do not speak one language
    ├── GateError              a gate that cannot be fitted, is damaged or belongs to other weights
    ├── RequestError           a request that an agent cannot take
    ├── StorageError           a file that could not be written in full
    └── PipelineError          a stage that failed, a busy lock, a graph that cannot be read

``ValueError`` is among the bases because a caller who catches it catches what a user can cause;
our own mistakes are assertions.
"""


class DualmindError(ValueError):
    """Base of all errors that a user of dualmind can cause."""


class ParamsError(DualmindError):
    """A params file has an unknown key, a missing key or a value out of range."""


class GameError(DualmindError):
    """A household game cannot be read or played."""


class QuestionError(DualmindError):
    """A reasoning question cannot be drawn, read or scored."""


class DataError(DualmindError):
    """A data set does not have the expected form."""


class ValidationFailed(DataError):
    """A data set did not pass its validation gate."""


class ReceiptMismatch(DataError):
    """A file is not the one that its receipt was written for."""


class CheckpointError(DualmindError):
    """A checkpoint is incomplete, unsafe to load, or has other shapes than its config."""


class ConsolidationError(DualmindError):
    """A Fisher information or a replay buffer does not fit the model or the batch."""


class DistillationError(DualmindError):
    """Teacher and student do not share a vocabulary, or the teacher has nothing to teach."""


class GateError(DualmindError):
    """A gate cannot be fitted, is damaged, or belongs to other weights."""


class RequestError(DualmindError):
    """A request is empty, too long or of an unknown form."""


class StorageError(DualmindError):
    """A file could not be written in full; what was there before is unchanged."""


class PipelineError(DualmindError):
    """A pipeline stage failed, its lock is busy, or the graph cannot be read."""
