"""Entries for tests."""

from typing import Any

import numpy as np

from dualmind.memory.entry import Entry, Key


def key(number: int, domain: str = "reasoning") -> Key:
    return Key.of(domain, f"question : {number} ?")


def entry(number: int, **changes: Any) -> Entry:
    """Different for each number; checked by System 2 unless something else is said."""
    reading = np.random.default_rng(number).normal(size=8).astype(np.float32)
    own: dict[str, Any] = {
        "key": key(number), "reading": reading, "reader": "1" * 32, "answer": f"answer {number}",
        "steps": (f"#1 {number}",), "depth": "full", "author": "system2", "writer": "2" * 32, "checked_by": "system2",
    }  # fmt: skip
    return Entry(**{**own, **changes})
