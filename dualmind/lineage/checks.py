"""What an audit says of one question: the verdict, why, what was expected and found, and what to do."""

from pydantic import BaseModel, ConfigDict


class Check(BaseModel):
    """One question that was asked of a release."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str  # "bytes", "signature", "parents", ...
    ok: bool
    subject: str  # a path in the project or in the bundle; "" where it is about the whole release
    reason: str
    expected: str
    found: str
    remedy: str


def passed(name: str, reason: str) -> Check:
    """A question whose answer is as it should be."""
    return Check(name=name, ok=True, subject="", reason=reason, expected="", found="", remedy="")


def failed(name: str, reason: str, *, remedy: str, expected: str = "", found: str = "", subject: str = "") -> Check:
    """A question whose answer is not, or which cannot be answered."""
    return Check(
        name=name, ok=False, subject=subject, reason=reason, expected=expected, found=found, remedy=remedy
    )  # fmt: skip


def settle(name: str, failures: list[Check], reason: str) -> list[Check]:
    """The failures, or where there are none that all is well."""
    return failures or [passed(name, reason)]
