from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import (
    PreTrainedModel,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    SwitchTransformersConfig,
    SwitchTransformersForConditionalGeneration,
)

from dualmind.data.decisions import DecisionRow
from dualmind.domains.reasoning.domain import Reasoning
from dualmind.domains.reasoning.families import FAMILIES
from dualmind.domains.reasoning.generate import Mix, generate_questions
from dualmind.errors import CheckpointError
from dualmind.learning.cloning import Lessons, clone
from dualmind.learning.writing import TokenizedTexts, conclusions_of
from dualmind.models.checkpoint import Meta, save_checkpoint
from dualmind.models.system2 import System2, Thinking, with_plan
from dualmind.models.text_model import PublishedParams
from dualmind.models.tokenizer import build_tokenizer
from stages.prepare import demonstrate
from stages.pretrain import texts
from tests.learning.demonstrations import demonstrations
from tests.learning.test_cloning import PARAMS
from tests.stages.test_pretrain import SYSTEM2

META = Meta(kind="system2", parents={}, seed=0, threads=1, steps=0, num_parameters=1, metrics={})


def questions() -> list[DecisionRow]:
    """Sixty questions about keys: enough to learn the form of an answer."""
    keys = [family for family in FAMILIES if family.name == "keys"]
    drawn = generate_questions({"train": 60}, Mix(easy_share=None, max_hops=3), 0, keys)
    domain = Reasoning(drawn)
    rows, _ = demonstrate(domain, domain.problems("train"))
    return rows


ROWS = questions()


def published(kind: str, folder: Path) -> Path:
    """A real mixture of experts with random weights and a tokenizer, as a publisher would save it."""
    tokenizer = build_tokenizer(texts(ROWS))
    torch.manual_seed(0)
    shared = {"vocab_size": len(tokenizer), "pad_token_id": 0, "eos_token_id": 2}
    model: PreTrainedModel
    if kind == "switch":
        model = SwitchTransformersForConditionalGeneration(
            SwitchTransformersConfig(
                **shared, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_decoder_layers=2, num_heads=4, num_experts=2,
                num_sparse_encoder_layers=1, num_sparse_decoder_layers=1, decoder_start_token_id=1,
            )
        )  # fmt: skip
    else:
        model = Qwen3MoeForCausalLM(
            Qwen3MoeConfig(
                **shared, hidden_size=32, intermediate_size=48, moe_intermediate_size=48, num_hidden_layers=2,
                num_attention_heads=4, num_key_value_heads=2, head_dim=8, num_experts=2, num_experts_per_tok=1,
                max_position_embeddings=256, bos_token_id=1,
            )
        )  # fmt: skip
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", ["reasoner", "switch", "qwen"])
def test_any_mixture_of_experts_learns_to_write_and_comes_back_from_disk(kind: str, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    params = SYSTEM2.model
    if kind != "reasoner":
        params = PublishedParams(kind="published", checkpoint=str(published(kind, tmp_path / "published")))
    system2 = System2.build(params, texts(ROWS), seed=0)
    data = TokenizedTexts.of([row.prompt for row in ROWS], [row.rationale for row in ROWS], system2.tokenizer)
    own = PARAMS.model_copy(update={"optimizer": "adamw", "steps": 40})
    report = clone(system2, Lessons(None, data), own, seed=0)
    assert report.curve[-1]["write"] < 0.8 * report.curve[0]["write"]
    prompts = [row.prompt for row in ROWS[:3]]
    before = system2.answer(prompts)
    save_checkpoint(tmp_path / "saved", system2.model, system2.tokenizer, META)
    after = System2.load(tmp_path / "saved").answer(prompts)
    assert [replace(own, log_probability=0.0) for own in after] == [replace(own, log_probability=0.0) for own in before]
    said = [own.log_probability for own in before]
    assert [own.log_probability for own in after] == pytest.approx(said, rel=1e-5)  # a published class sums otherwise


def test_a_decoder_only_model_says_that_it_scores_no_commands(tmp_path: Path) -> None:
    folder = published("qwen", tmp_path)
    system2 = System2.build(PublishedParams(kind="published", checkpoint=str(folder)), [], seed=0)
    with pytest.raises(CheckpointError, match="does not score commands"):
        super(System2, system2).score(["question : what now ?"], [["look", "wait"]])


def test_a_plan_is_written_and_commands_are_scored_in_its_light() -> None:
    rows = demonstrations()
    system2 = System2.build(SYSTEM2.model, texts(rows), seed=0)
    prompts, candidates = [row.prompt for row in rows[:4]], [row.candidates for row in rows[:4]]
    chosen = system2.choose(prompts, candidates)
    scores = system2.score(prompts, candidates)
    for thinking, own, score in zip(chosen, candidates, scores, strict=True):
        assert thinking.answer == own[int(score.argmax())]
        assert score.exp().sum() == pytest.approx(1.0, abs=1e-5)
    other = super(System2, system2).score([with_plan(prompts[0], "search mug")], [candidates[0]])[0]
    assert len(other) == len(scores[0])


def test_steps_and_answer_are_read_from_a_text() -> None:
    assert Thinking.of("#1 white #2 lime = lime", -0.5, 6) == Thinking(("#1 white", "#2 lime"), "lime", -0.5, 6)
    assert Thinking.of("lime", 0.0, 1) == Thinking((), "lime", 0.0, 1)
    assert Thinking.of("= a = b", 0.0, 4).answer == "b"


def test_conclusions_are_those_of_each_step_and_then_of_the_answer() -> None:
    assert conclusions_of("#1 81 13 #2 77 13 = 77 13") == ["13", "13", "13", "13", "13", "13", "13"]
    assert conclusions_of("#1 a #2 b = c") == ["a", "b", "c", "c", "c", "c", "c"]
    assert conclusions_of("search mug") == ["mug"] * 7
    assert conclusions_of(" ".join(f"#{i} v{i}" for i in range(1, 10)) + " = v9") == [f"v{i}" for i in range(1, 8)]
