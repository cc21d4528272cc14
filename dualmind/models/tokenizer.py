"""A word-level tokenizer made from training text; domains write their prompts as words parted by single blanks."""

from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
_ROLES = ("pad_token", "bos_token", "eos_token", "unk_token")
_NUMBERS = [str(n) for n in range(100)]  # so that a number not seen in training is not unknown


def build_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """A tokenizer over all words of ``texts`` and the numbers to 99, sorted: the same texts give the same file."""
    words = {word for text in texts for word in text.split()}
    words.update(_NUMBERS)
    vocabulary = {word: index for index, word in enumerate([*SPECIAL, *sorted(words - set(SPECIAL))])}
    backend = Tokenizer(WordLevel(vocabulary, unk_token=SPECIAL[3]))
    backend.pre_tokenizer = WhitespaceSplit()
    backend.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", vocabulary["</s>"])])
    return PreTrainedTokenizerFast(tokenizer_object=backend, **dict(zip(_ROLES, SPECIAL, strict=True)))


class WordIds:
    """Token ids of texts, remembered: prompts share phrases, and the same commands come back at every step.

    Published tokenizers go the same way; only the ids differ.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, capacity: int = 100_000) -> None:
        self._tokenizer, self._capacity = tokenizer, capacity
        self._known: dict[str, tuple[int, ...]] = {}

    def __call__(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Ids of each text, without special tokens."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing:
            if len(self._known) + len(missing) > self._capacity:
                self._known.clear()
                missing = list(dict.fromkeys(texts))
            ids = self._tokenizer(missing, add_special_tokens=False)["input_ids"]
            self._known.update((text, tuple(own)) for text, own in zip(missing, ids, strict=True))
        return [self._known[text] for text in texts]
