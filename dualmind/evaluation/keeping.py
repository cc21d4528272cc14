"""Whether what a stage made of a system may be handed on in its place."""

from collections.abc import Mapping

MEASURES = ("valid_accuracy", "answers_right")  # shares of commands and of questions, as the cloning reports them


def worse(before: Mapping[str, float], after: Mapping[str, float], tolerance: float) -> list[str]:
    """Measures in which a system lies more than ``tolerance`` below its former self.

    Args:
        before: shares in 0..1 by name; those in MEASURES count.
        after: the same of the new system.
        tolerance: that may be lost, >= 0.
    """
    return [name for name in MEASURES if name in before and not after[name] >= before[name] - tolerance - 1e-9]
