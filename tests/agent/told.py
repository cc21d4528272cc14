"""A writer that says what a table holds."""

from collections.abc import Sequence

import torch

from dualmind.models.decoding import Written

WORDS = ["", "#1", "#2", "#3", "=", "a", "b", "good", "bad", "]", ")", "]["]


class Told:
    """Writes given texts after a prefix, in turn; ends them at stop words as a model does."""

    def __init__(self, texts: dict[str, list[str]]) -> None:
        self.texts, self.asked = texts, list[tuple[str, int]]()

    def write(
        self,
        prompts: Sequence[str],
        *,
        max_words: int,
        copies: int = 1,
        prefix: str = "",
        stop: Sequence[str] = (),
        temperature: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> list[list[Written]]:
        assert max_words > 0 or temperature or generator
        self.asked.append((prefix, copies))
        return [[self._one(prefix, self.texts[prefix][i], stop, -float(i)) for i in range(copies)] for _ in prompts]

    def _one(self, prefix: str, text: str, stop: Sequence[str], log_probability: float) -> Written:
        ids = [WORDS.index(word) for word in prefix.split()]
        for word in text.split():
            if word in stop:
                return Written(tuple(ids), log_probability, 0.0, complete=True, stopped_by=WORDS.index(word))
            ids.append(WORDS.index(word))
        return Written(tuple(ids), log_probability, 0.0, complete=True)

    def text(self, written: Written) -> str:
        return " ".join(WORDS[i] for i in written.ids)
