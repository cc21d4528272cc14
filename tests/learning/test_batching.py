import re
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmind.domains.household.belief import interchangeable
from dualmind.learning.augment import Renaming
from dualmind.learning.batching import TokenizedDecisions, batches
from tests.learning.demonstrations import demonstrations, small_system1


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 100), min_size=1, max_size=300), st.integers(1, 20), st.integers(1, 40))
def test_batches_are_full_and_go_through_the_data_evenly(lengths: list[int], size: int, steps: int) -> None:
    drawn = list(batches(lengths, size, steps, np.random.default_rng(0)))
    assert [len(batch) for batch in drawn] == [size] * steps
    counts = Counter(int(i) for batch in drawn for i in batch)
    window = size * 16  # batches come from windows that may not be used up at the end
    assert max(counts.values()) <= -(-(size * steps + window) // len(lengths))


def test_batches_of_a_seed_are_the_same_and_hold_prompts_of_like_length() -> None:
    lengths = np.random.default_rng(1).integers(10, 120, 2000).tolist()
    first, again = ([b.tolist() for b in batches(lengths, 32, 40, np.random.default_rng(5))] for _ in range(2))
    assert first == again
    spread = np.mean([np.ptp([lengths[i] for i in batch]) for batch in first])
    assert spread < 25  # of 110 without sorting


def test_a_batch_holds_the_words_and_the_choice_of_its_rows() -> None:
    rows, system1 = demonstrations(), small_system1()
    decisions = TokenizedDecisions.of(rows, system1)
    batch, right = decisions.batch([3, 0, 7])
    for position, index in enumerate([3, 0, 7]):
        row = rows[index]
        ids = batch.prompt_ids[position][batch.prompt_mask[position].bool()]
        assert system1.tokenizer.decode(ids) == f"{row.prompt} </s>"
        assert int(batch.command_mask[position].sum()) == len(row.candidates)
        assert int(right[position].sum()) == 1
        chosen = int(batch.commands[position, right[position]])
        end = [*batch.command_offsets.tolist(), len(batch.command_tokens)]
        assert system1.tokenizer.decode(batch.command_tokens[end[chosen] : end[chosen + 1]]) == row.target


def test_renaming_is_a_consistent_permutation_of_the_given_words() -> None:
    prompt, commands = np.array([4, 5, 6, 4, 9]), [(4, 9), (5,), (6, 6)]
    renaming = Renaming([4, 5, 6], 12, 1.0, np.random.default_rng(2))
    for _ in range(20):
        new_prompt, new_commands = renaming(prompt, commands)
        mapping = dict(zip(prompt.tolist(), new_prompt.tolist(), strict=True))
        assert mapping[9] == 9
        assert sorted([mapping[4], mapping[5], mapping[6]]) == [4, 5, 6]
        assert new_commands == [tuple(mapping[t] for t in command) for command in commands]


def test_renaming_happens_as_often_as_asked() -> None:
    renaming = Renaming(range(4, 40), 50, 0.3, np.random.default_rng(3))
    prompt = np.arange(4, 40)
    changed = sum(bool((renaming(prompt, [])[0] != prompt).any()) for _ in range(1000))
    assert changed == pytest.approx(300, abs=60)


def test_padding_changes_no_score() -> None:
    rows, system1 = demonstrations(), small_system1()
    together = system1.score([r.prompt for r in rows[:20]], [r.candidates for r in rows[:20]])
    for row, scores in zip(rows[:20], together, strict=True):
        alone = system1.score([row.prompt], [row.candidates])[0]
        torch.testing.assert_close(alone, scores, atol=1e-5, rtol=1e-5)


def test_commands_that_are_as_good_as_the_target_are_right_too() -> None:
    rows = [row for row in demonstrations() if row.target.endswith(" new")]
    decisions = TokenizedDecisions.of(rows, small_system1(), interchangeable)
    assert sum(map(len, decisions.accepted)) > len(rows)
    for row, accepted in zip(rows, decisions.accepted, strict=True):
        kinds = {re.sub(r"\d+", "", row.candidates[i]) for i in accepted}
        assert kinds == {re.sub(r"\d+", "", row.target)}
