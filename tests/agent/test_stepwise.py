from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from dualmind.agent.stepwise import (
    Candidate,
    Chain,
    FunctionScorer,
    LogProbabilityScorer,
    SymbolicScorer,
    majority_of,
    oracle_of,
    random_of,
    think,
    whole_chains,
    write_with_calls,
)
from dualmind.domains.reasoning.domain import as_prompt
from dualmind.models.decoding import Written
from dualmind.models.system2 import ReasonerParams, System2
from dualmind.symbolic.calls import SymbolicCalls
from dualmind.symbolic.checker import ReasoningChecker

PROMPT = as_prompt("close all open brackets : ( [")  # steps "]" and ")"
NEVER = float("-inf")


@pytest.fixture(scope="module")
def system() -> System2:
    """An untrained model that knows some ten words, so that all of what can be written is written."""
    params = ReasonerParams(
        kind="reasoner", d_model=16, d_ff=32, num_heads=2, encoder_layers=1, decoder_layers=1, num_experts=0,
        num_slots=2, reasoning_steps=1, validity_cutoff=0.0, concept=True, relation=False, reasoning=False,
        verification=False,
    )  # fmt: skip
    made = System2.build(params, [PROMPT, "#1 #2 #3 #4 = ] )"], seed=3)
    rare = [i for word, i in made.tokenizer.get_vocab().items() if word.isdigit()]
    with torch.no_grad():  # numbers are never written: their logits are those of padding
        made.model.lm_head.weight *= 0.1
        made.model.lm_head.weight[rare] = 0.0
    made.model.eval()
    return made


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Scripted:
    """Scores by a table of values; notes what it was asked."""

    def __init__(self, worth: Callable[[Candidate], float]) -> None:
        self.worth, self.asked = worth, list[tuple[tuple[str, ...], tuple[Candidate, ...]]]()

    def score(self, prompt: str, kept: Sequence[str], candidates: Sequence[Candidate]) -> list[float]:
        assert prompt == PROMPT
        self.asked.append((tuple(kept), tuple(candidates)))
        return [self.worth(candidate) for candidate in candidates]


def test_the_best_of_five_is_kept_at_every_step(system: System2) -> None:
    for seed in range(20):
        scorer = Scripted(lambda candidate: -len(candidate.step))
        chain = think(system, PROMPT, scorer, generator=seeded(seed), max_steps=3, max_words=24)
        assert len(chain.scores) == len(scorer.asked)
        for number, (kept, candidates) in enumerate(scorer.asked):
            assert len(candidates) == 5
            assert kept == chain.steps[:number]
            sound = [candidate for candidate in candidates if candidate.last is not None]
            if number < len(chain.steps):
                assert len(chain.steps[number]) == min(len(candidate.step) for candidate in sound)
            else:
                assert not sound
                assert chain.answer == ""


def test_a_chain_ends_where_the_kept_candidate_goes_on_to_the_answer(system: System2) -> None:
    lengths = set()
    for seed in range(20):
        chain = think(
            system, PROMPT, Scripted(lambda c: float(c.last is True)), generator=seeded(seed), num_candidates=20,
            max_words=24,
        )  # fmt: skip
        lengths.add(len(chain.steps))
    assert 1 in lengths
    for seed in range(20):
        chain = think(
            system, PROMPT, Scripted(lambda c: float(c.last is False)), generator=seeded(seed), num_candidates=40,
            max_steps=2, max_words=24,
        )  # fmt: skip
        assert len(chain.steps) <= 2


def test_a_candidate_holds_the_value_and_what_follows_it(system: System2) -> None:
    scorer = Scripted(lambda candidate: candidate.log_probability)
    for seed in range(30):
        think(system, PROMPT, scorer, generator=seeded(seed), max_steps=2, max_words=12)
    seen = [candidate for _, candidates in scorer.asked for candidate in candidates]
    assert {candidate.last for candidate in seen} == {True, False, None}
    for candidate in seen:
        assert candidate.log_probability < 0
        assert not {"=", "#1", "#2", "#3"} & set(candidate.step.split())
        assert candidate.step or candidate.last is None


def test_chains_are_the_same_for_the_same_seed(system: System2) -> None:
    def draw(seed: int) -> Chain:
        return think(system, PROMPT, LogProbabilityScorer(), generator=seeded(seed), max_steps=3, max_words=24)

    assert draw(3) == draw(3)
    assert len({draw(seed).text for seed in range(5)}) > 1


def test_only_valid_steps_are_kept_where_one_was_proposed(system: System2) -> None:
    checker, supported = ReasoningChecker(), 0
    scorer = SymbolicScorer(checker)
    for seed in range(40):
        chain = think(system, PROMPT, scorer, generator=seeded(seed), num_candidates=200, max_steps=3, max_words=24)
        for number in range(len(chain.steps)):
            if number not in chain.unsupported:
                assert checker.valid(PROMPT, chain.steps[: number + 1])
                supported += 1
    assert supported > 0


def test_the_symbolic_scorer_rules_out_wrong_values_and_answers_at_the_wrong_time() -> None:
    scorer = SymbolicScorer(ReasoningChecker())
    first = [Candidate("]", False, -1.0), Candidate(")", False, -0.1), Candidate("]", True, -0.2)]
    assert scorer.score(PROMPT, [], first) == [-1.0, NEVER, NEVER]
    second = [Candidate(")", False, -1.0), Candidate(")", True, -2.0), Candidate(")", None, -0.1)]
    assert scorer.score(PROMPT, ["]"], second) == [NEVER, -2.0, NEVER]
    assert scorer.score(as_prompt("how many eggs are left ?"), [], first) == [-1.0, -0.1, -0.2]  # it cannot say


def test_where_all_are_ruled_out_the_likeliest_is_kept_and_flagged(system: System2) -> None:
    scorer = Scripted(lambda _: NEVER)
    chain = think(system, PROMPT, scorer, generator=seeded(0), num_candidates=50, max_steps=1, max_words=24)
    assert chain.unsupported == (0,)
    sound = [candidate for candidate in scorer.asked[0][1] if candidate.last is not None]
    assert chain.steps[0] == max(sound, key=lambda candidate: candidate.log_probability).step


def test_any_function_scores_the_steps_up_to_the_candidate() -> None:
    asked: list[Sequence[Sequence[str]]] = []

    def reward(prompt: str, chains: Sequence[Sequence[str]]) -> list[float]:
        assert prompt == PROMPT
        asked.append(chains)
        return [float(chain[-1]) for chain in chains]

    candidates = [Candidate("5", False, -1.0), Candidate("7", True, -2.0)]
    assert FunctionScorer(reward).score(PROMPT, ["3"], candidates) == [5.0, 7.0]
    assert asked == [[["3", "5"], ["3", "7"]]]


def test_log_probability_of_a_chain_is_that_of_the_model(system: System2) -> None:
    likes_the_last = Scripted(lambda c: float(c.last is True))
    chains = (
        think(system, PROMPT, likes_the_last, generator=seeded(seed), num_candidates=50, max_words=12)
        for seed in range(50)
    )
    chain = next(chain for chain in chains if chain.answer)
    (ids,) = system.command_ids([chain.text])
    prompt = torch.as_tensor(system.prompt_ids([PROMPT])[0])[None]
    start, end = system.model.config.decoder_start_token_id, system.model.config.eos_token_id
    with torch.inference_mode():
        logits = system.model(input_ids=prompt, decoder_input_ids=torch.tensor([[start, *ids]])).logits[0]
    said = torch.tensor([*ids, *([end] if len(ids) < 12 else [])])  # at the limit there is no end
    likely = logits[: len(said)].log_softmax(-1).gather(1, said[:, None]).squeeze(1)
    expected = likely[1:].sum()  # the first word is given
    assert chain.log_probability == pytest.approx(float(expected), abs=1e-3)


def test_whole_chains_are_read_from_what_is_written(system: System2) -> None:
    (chains, others) = whole_chains(system, [PROMPT, PROMPT], generator=seeded(0), copies=3, max_words=12)
    assert len(chains) == len(others) == 3
    (greedy,) = whole_chains(system, [PROMPT], generator=None, copies=1, temperature=0.0, max_words=12)
    assert greedy == whole_chains(system, [PROMPT], generator=None, copies=1, temperature=0.0, max_words=12)[0]


CHAINS = [
    Chain(("1",), "6", -3.0), Chain(("2",), "6", -2.0), Chain(("3",), "7", -0.5), Chain((), "", -0.1),
    Chain((), "", -0.2), Chain((), "", -0.3),
]  # fmt: skip


def test_the_majority_is_of_answers_and_then_the_likeliest_chain() -> None:
    assert majority_of(CHAINS) == CHAINS[1]
    assert majority_of(CHAINS[1:]) == CHAINS[2]  # as many votes, but likelier
    assert majority_of(CHAINS[3:]) == CHAINS[3]


def test_the_oracle_takes_what_scores_best_and_random_takes_any() -> None:
    assert oracle_of(CHAINS, lambda chain: float(chain.answer == "6")) == CHAINS[1]
    drawn = {random_of(CHAINS, np.random.default_rng(seed)).log_probability for seed in range(60)}
    assert drawn == {chain.log_probability for chain in CHAINS}


def test_the_text_of_a_chain_is_what_an_agent_says() -> None:
    assert Chain(("3", "6"), "6", 0.0).text == "#1 3 #2 6 = 6"


class Dictated:
    """Writes what it is told, word by word as a model would, whatever was put in between."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts, self.prefixes = list(texts), list[str]()
        self.words: dict[str, int] = {}

    def ids(self, text: str) -> tuple[int, ...]:
        return tuple(self.words.setdefault(word, len(self.words)) for word in text.split())

    def text(self, written: Written) -> str:
        known = list(self.words)
        return " ".join(known[i] for i in written.ids)

    def write(
        self, prompts: Sequence[str], *, prefix: str = "", stop: Sequence[str] = (), **_: object
    ) -> list[list[Written]]:
        assert prompts == [PROMPT]
        self.prefixes.append(prefix)
        said = self.texts.pop(0)
        stopped_by = self.ids(stop[0])[0] if self.texts else None
        return [[Written(self.ids(f"{prefix} {said}"), -1.0, 0.5, complete=True, stopped_by=stopped_by)]]


def test_calls_are_answered_while_a_chain_is_written() -> None:
    writer = Dictated(["#1 [ 1 + 2", "#2 [ 3 + 3", "= 6"])
    with SymbolicCalls(limit_s=60.0) as calls:
        text = write_with_calls(writer, PROMPT, calls)
    assert text == "#1 [ 1 + 2 -> 3 ] #2 [ 3 + 3 -> 6 ] = 6"
    assert writer.prefixes == ["", "#1 [ 1 + 2 -> 3 ]", "#1 [ 1 + 2 -> 3 ] #2 [ 3 + 3 -> 6 ]"]


def test_a_chain_with_calls_stays_within_its_words(system: System2) -> None:
    with SymbolicCalls(limit_s=60.0) as calls:
        text = write_with_calls(system, PROMPT, calls, max_words=12)
        assert len(text.split()) <= 12
        writer = Dictated(["[ 1 + 2"] * 4)
        assert len(write_with_calls(writer, PROMPT, calls, max_words=12).split()) <= 12
