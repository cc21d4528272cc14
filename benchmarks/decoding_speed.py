"""Our decode loop against transformers' ``generate``, on the same model, and against a T5 of equal size.

python -m benchmarks.decoding_speed
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from transformers import T5Config, T5ForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput

from benchmarks.results_file import Row, write_rows
from dualmind.evaluation.intervals import bootstrap_mean
from dualmind.models.config import ReasonerConfig
from dualmind.models.decoding import write
from dualmind.models.reasoner import ReasonerForConditionalGeneration

WORDS, WRITTEN, REPEATS = 40, 16, 9
COMMAND = "python -m benchmarks.decoding_speed"


def seconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def ratio_row(claim: str, ours: Callable[[], object], theirs: Callable[[], object], target: float) -> Row:
    """Their time over ours, in pairs one after the other."""
    begun = time.monotonic()
    for _ in range(2):
        ours()
        theirs()
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(REPEATS)]
    mine, other = (1e3 * float(np.mean(side)) for side in zip(*pairs, strict=True))
    return Row.of(
        bootstrap_mean([b / a for a, b in pairs], np.random.default_rng(0)),
        target=target,
        begun=begun,
        claim=claim,
        unit="times",
        baseline=f"ours {mine:.1f} ms, theirs {other:.1f} ms, {WRITTEN} words",
        seeds=REPEATS,
        command=COMMAND,
    )


def main() -> None:
    """Measure and write."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = ReasonerForConditionalGeneration(
        ReasonerConfig(
            vocab_size=500, d_model=128, d_ff=256, num_heads=4, encoder_layers=2, decoder_layers=2, num_experts=4,
            reasoning_steps=4,
        )
    ).eval()  # fmt: skip
    model.config.eos_token_id = 2
    with torch.no_grad():
        model.lm_head.weight[2].zero_()  # random weights must not end a text early: the end is never the likeliest
    size = sum(p.numel() for p in model.parameters())
    t5 = T5ForConditionalGeneration(
        T5Config(
            vocab_size=500, d_model=128, d_kv=32, d_ff=640, num_heads=4, num_layers=4, num_decoder_layers=2,
            pad_token_id=0, eos_token_id=2, decoder_start_token_id=1,
        )
    ).eval()  # fmt: skip
    rows = []
    for batch, target in ((1, 1.3), (64, 1.0)):
        ids = torch.randint(4, 500, (batch, WORDS))
        mask = torch.ones_like(ids)
        memory = model.encoder(ids, mask)[0].detach()
        options: dict[str, Any] = {
            "max_new_tokens": WRITTEN,
            "min_new_tokens": WRITTEN,
            "do_sample": False,
            "num_beams": 1,
        }

        def ours(memory: torch.Tensor = memory, mask: torch.Tensor = mask) -> object:
            return write(model, memory, mask, max_words=WRITTEN)

        def theirs(
            memory: torch.Tensor = memory, mask: torch.Tensor = mask, options: dict[str, Any] = options
        ) -> object:
            outputs = BaseModelOutput(last_hidden_state=memory)
            return model.generate(encoder_outputs=outputs, attention_mask=mask, **options)

        rows.append(ratio_row(f"own decode loop against generate, same model, batch {batch}", ours, theirs, target))
        if batch == 1:

            def other(ids: torch.Tensor = ids, options: dict[str, Any] = options) -> object:
                return t5.generate(input_ids=ids, **options)

            def whole(ids: torch.Tensor = ids, mask: torch.Tensor = mask) -> object:
                return write(model, model.encoder(ids, mask)[0], mask, max_words=WRITTEN)

            t5_size = sum(p.numel() for p in t5.parameters())
            rows.append(
                ratio_row(f"ours ({size:,} parameters) against a T5 of {t5_size:,}, batch 1", whole, other, 2.0)
            )
    write_rows("decoding_speed", rows)
    for row in rows:
        print(f"{row.claim}: {row.value:.2f} [{row.low:.2f}, {row.high:.2f}] ({row.baseline})", flush=True)


if __name__ == "__main__":
    main()
