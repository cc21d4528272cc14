from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmind.learning.augment import Renaming, rename
from dualmind.learning.batching import TokenizedDecisions, batches
from tests.learning.demonstrations import demonstrations, small_system1


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 100), min_size=1, max_size=300), st.integers(1, 20), st.integers(1, 40))
def test_batches_are_full_repeat_no_decision_and_go_through_the_data_evenly(
    lengths: list[int], size: int, steps: int
) -> None:
    drawn = list(batches(lengths, size, steps, np.random.default_rng(0)))
    full = min(size, len(lengths))
    assert [len(set(batch.tolist())) for batch in drawn] == [full] * steps
    counts = Counter(int(i) for batch in drawn for i in batch)
    assert max(counts.values()) <= -(-steps // (len(lengths) // full))  # once in each epoch


def test_batches_of_a_seed_are_the_same_and_hold_prompts_of_like_length() -> None:
    lengths = np.random.default_rng(1).integers(10, 120, 2000).tolist()
    first, again = ([b.tolist() for b in batches(lengths, 32, 40, np.random.default_rng(5))] for _ in range(2))
    assert first == again
    spread = np.mean([np.ptp([lengths[i] for i in batch]) for batch in first])
    assert spread < 25  # of 110 without sorting


def test_a_batch_holds_the_words_and_the_choice_of_its_rows() -> None:
    rows, system1 = demonstrations(), small_system1()
    decisions = TokenizedDecisions.of(rows, system1)
    batch, chosen = decisions.batch([3, 0, 7])
    for position, index in enumerate([3, 0, 7]):
        row = rows[index]
        ids = batch.prompt_ids[position][batch.prompt_mask[position].bool()]
        assert system1.tokenizer.decode(ids) == f"{row.prompt} </s>"
        assert int(batch.command_mask[position].sum()) == len(row.candidates)
        command = int(batch.commands[position, chosen[position]])
        end = [*batch.command_offsets.tolist(), len(batch.command_tokens)]
        assert system1.tokenizer.decode(batch.command_tokens[end[command] : end[command + 1]]) == row.target


def test_renaming_is_a_consistent_permutation_of_the_given_words() -> None:
    prompt, commands = np.array([4, 5, 6, 4, 9]), [(4, 9), (5,), (6, 6)]
    renaming = Renaming([4, 5, 6], 12, 1.0, np.random.default_rng(2))
    for _ in range(20):
        new_prompt, new_commands = rename(prompt, commands, *renaming.draw(1))
        mapping = dict(zip(prompt.tolist(), new_prompt.tolist(), strict=True))
        assert mapping[9] == 9
        assert sorted([mapping[4], mapping[5], mapping[6]]) == [4, 5, 6]
        assert new_commands == [tuple(mapping[t] for t in command) for command in commands]


def test_renaming_happens_as_often_as_asked() -> None:
    renaming = Renaming(range(4, 40), 50, 0.3, np.random.default_rng(3))
    changed = sum(table is not None for table in renaming.draw(1000))
    assert changed == pytest.approx(300, abs=60)


def test_padding_changes_no_score() -> None:
    rows, system1 = demonstrations(), small_system1()
    together = system1.score([r.prompt for r in rows[:20]], [r.candidates for r in rows[:20]])
    for row, scores in zip(rows[:20], together, strict=True):
        alone = system1.score([row.prompt], [row.candidates])[0]
        torch.testing.assert_close(alone, scores, atol=1e-5, rtol=1e-5)
