from pathlib import Path

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from dualmind.errors import CheckpointError
from dualmind.models.decoding import Written
from dualmind.models.system1 import System1
from dualmind.models.text_model import PublishedParams, TextModel
from dualmind.models.tokenizer import build_tokenizer
from tests.learning.demonstrations import demonstrations, small_system1
from tests.models.test_system1 import tiny_published

PROMPT = max((row.prompt for row in demonstrations()), key=len)


@pytest.fixture(params=["compact", "t5", "bart", "qwen"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> TextModel:
    torch.set_num_threads(1)
    if request.param == "compact":
        return small_system1()
    if request.param == "qwen":
        tokenizer = build_tokenizer([row.prompt for row in demonstrations()])
        torch.manual_seed(0)
        config = Qwen3Config(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1, head_dim=8,
            num_attention_heads=4, num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        )  # fmt: skip
        return TextModel(Qwen3ForCausalLM(config).eval(), tokenizer)
    folder = tiny_published(request.param, tmp_path / "published")
    made = System1.build(PublishedParams(kind="published", checkpoint=str(folder)), [], seed=0)
    made.model.eval()
    return made


def write(model: TextModel, prefix: str = "", stop: tuple[str, ...] = (), max_words: int = 8) -> Written:
    ((written,),) = model.write([PROMPT], max_words=max_words, prefix=prefix, stop=stop)
    return written


def words(model: TextModel, written: Written) -> list[str]:
    found = model.tokenizer.convert_ids_to_tokens(list(written.ids))
    assert isinstance(found, list)
    return found


def test_writing_goes_on_from_its_own_beginning_as_before(model: TextModel) -> None:
    prefix = "clean mug"
    free = write(model, prefix)
    assert words(model, free)[:2] == ["clean", "mug"]
    longer = " ".join(words(model, free)[:4])
    if "<" not in longer:  # special tokens are no text
        again = write(model, longer)
        assert again.ids == free.ids
        assert again.log_probability > free.log_probability  # fewer words are judged


def test_no_more_words_are_written_than_allowed(model: TextModel) -> None:
    for max_words in (2, 5):
        assert len(write(model, "clean mug", max_words=max_words).ids) <= max_words


def test_draws_come_from_the_generator_and_leave_the_global_one(model: TextModel) -> None:
    def draw(state: int, seed: int) -> list[tuple[int, ...]]:
        torch.manual_seed(state)
        source = torch.Generator().manual_seed(seed)
        (texts,) = model.write([PROMPT], max_words=8, copies=4, temperature=2.0, generator=source)
        assert torch.equal(torch.rand(1), torch.rand(1, generator=torch.Generator().manual_seed(state)))
        return [written.ids for written in texts]

    assert draw(1, 5) == draw(2, 5) != draw(1, 6)


def test_writing_stops_before_a_stop_word(model: TextModel) -> None:
    free = words(model, write(model, "clean"))
    word = next((own for own in free[1:] if not own.startswith("<")), None)
    if word is not None:
        stopped = write(model, "clean", stop=(word,))
        assert words(model, stopped) == free[: free.index(word, 1)]
        assert stopped.complete
        assert model.tokenizer.convert_ids_to_tokens(stopped.stopped_by) == word


def test_a_stop_word_that_is_not_known_stops_nothing(model: TextModel) -> None:
    assert write(model, stop=("xyzzy",)) == write(model)


def test_a_stop_word_of_several_tokens_is_an_error(model: TextModel) -> None:
    with pytest.raises(CheckpointError, match="'clean mug' is 2 tokens"):
        write(model, stop=("clean mug",))
