"""Errors that a user can cause. Every message names the value, the place and the remedy.

    DualmindError
    ├── ParamsError            an unknown or missing key, or a value out of range, in a params file
    ├── GameError              a household game that cannot be read or played
    ├── QuestionError          a reasoning question that cannot be drawn, read or scored
    ├── DebuggingError         a program that cannot be drawn, run or repaired
    ├── SymbolicError          an expression, formula or goal that cannot be read or takes too much to answer
    ├── DataError              a data set of the wrong form
    │   ├── ValidationFailed   a data set that did not pass its gate
    │   └── ReceiptMismatch    bytes other than those that were validated
    ├── CheckpointError        a checkpoint that is incomplete, unsafe or of other shapes
    ├── ConsolidationError     a Fisher information or a replay buffer that does not fit the model or the batch
    ├── LearningError          rewards that are no numbers, or a run that cannot be taken up again
    ├── DistillationError      a teacher and a student that do not speak one language
    ├── GateError              a gate that cannot be fitted, is damaged or belongs to other weights
    ├── SkillError             a library of skills that cannot be read or written to
    ├── RequestError           a request that an agent cannot take
    ├── GatewayError           a memory that is damaged, or an entry that may not be kept in it
    ├── CalibrationError       a threshold that cannot be proven, read or used
    │   ├── NoValidThreshold   none that passes at this alpha, delta and number of labels
    │   └── ThresholdMismatch  a threshold of other weights or of another gate
    ├── TrafficError           a log of decisions that cannot be read or written to
    ├── ServingError           a state of production that cannot be read, promoted or served
    │   └── Overloaded         a server that has more requests waiting than it may
    ├── StorageError           a file that could not be written in full
    ├── PipelineError          a stage that failed, a busy lock, a graph that cannot be read
    └── LineageError           a release that cannot be made, read or followed back
        ├── SigningKeyError    a key that is missing, expired, or no key
        ├── LedgerError        a ledger that was changed, or is being written by another process
        ├── BundleError        a release folder that is incomplete, unsafe or too large
        └── HistoryError       a git history that is missing, shallow, or cannot be read

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


class DebuggingError(DualmindError):
    """A program of the debugging domain cannot be drawn, run or repaired."""


class SymbolicError(DualmindError):
    """An expression, formula or goal in words that cannot be read, or that takes too much to answer."""


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


class LearningError(DualmindError):
    """Rewards are no numbers, a policy diverged, or a broken-off run cannot be taken up again."""


class DistillationError(DualmindError):
    """Teacher and student do not share a vocabulary, or the teacher has nothing to teach."""


class GateError(DualmindError):
    """A gate cannot be fitted, is damaged, or belongs to other weights."""


class SkillError(DualmindError):
    """A library of skills is damaged, or a skill does not belong into it."""


class RequestError(DualmindError):
    """A request is empty, too long or of an unknown form."""


class GatewayError(DualmindError):
    """A memory is damaged or of another form, or an entry may not be kept in it."""


class CalibrationError(DualmindError):
    """A threshold cannot be proven, read or used."""


class NoValidThreshold(CalibrationError):
    """No threshold passes at this alpha, delta and number of labels; the one that serves stays."""


class ThresholdMismatch(CalibrationError):
    """A threshold belongs to other weights or to another gate."""


class TrafficError(DualmindError):
    """A log of decisions cannot be read, or a record does not belong into it."""


class ServingError(DualmindError):
    """A state of production cannot be read, promoted or served; what served before stays."""


class Overloaded(ServingError):
    """More requests wait than a server may keep; ask again a little later.

    Args:
        message: what there is too much of.
        retry_s: whole seconds after which it is worth to ask again.
    """

    def __init__(self, message: str, retry_s: int) -> None:
        super().__init__(message)
        self.retry_s = retry_s


class StorageError(DualmindError):
    """A file could not be written in full; what was there before is unchanged."""


class PipelineError(DualmindError):
    """A pipeline stage failed, its lock is busy, or the graph cannot be read."""


class LineageError(DualmindError):
    """A release cannot be made, read or followed back to what it was made from."""


class SigningKeyError(LineageError):
    """A key is missing, has expired, or is no key that can sign."""


class LedgerError(LineageError):
    """A ledger was changed by other means than appending, or another process is writing to it."""


class BundleError(LineageError):
    """A release folder is incomplete, unsafe to read, too large, or exists already."""


class HistoryError(LineageError):
    """The git history is missing, shallow or cannot be read."""
