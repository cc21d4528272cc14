"""Metrics of the form that the evaluate stage writes, with figures of a plausible run."""

import json
from typing import Any

from dualmind.data.validation import Check, Receipt
from dualmind.evaluation.intervals import wilson
from dualmind.evaluation.report import Sample, Timing

TASKS = {
    "look_at_obj_in_light": (18, 18),
    "pick_and_place_simple": (23, 24),
    "pick_clean_then_place_in_recep": (30, 31),
    "pick_cool_then_place_in_recep": (21, 21),
    "pick_heat_then_place_in_recep": (20, 23),
    "pick_two_obj_and_place": (12, 17),
}
HOPS = {"2": (41, 42), "3": (71, 75), "4": (12, 17)}
TIMING = Timing(p50_ms=1.42, p99_ms=2.61, throughput_per_s=4213.0, threads=1)
TRAINING: dict[str, Any] = {
    "valid_loss": 0.0812,
    "valid_accuracy": 0.971,
    "num_parameters": 161_024,
    "train_decisions": 7_912,
    "curve": [{"step": step, "score": 2.3 * 0.5 ** (step / 120) + 0.08} for step in range(50, 1501, 50)],
}
DATA: dict[str, Any] = {
    "problems": {"train": 1000, "valid_train": 200, "valid_seen": 140, "valid_unseen": 134},
    "environment_steps": 7_912,
    "expert_success": 0.998,
}
SAMPLES = [
    Sample("valid unseen, won in 2 commands", ["Your task is to: put a <mug> in sink.", "> go to desk 1\nYou see it."])
]
RECEIPTS = [
    Receipt(
        dataset="../../prepare/household/decisions.parquet",
        md5="0bb57a5e8bda24fae1947eec9f856c26",
        rows=9_480,
        suite="decisions",
        library="great_expectations 1.24.1",
        expectations=(Check(expectation="expect_x", column="", expected={}, observed="", success=True),),
    )
]


def result(won: int, games: int) -> dict[str, Any]:
    share = wilson(won, games)
    return {"success_rate": share.value, "low": share.low, "high": share.high, "num_games": games}


def mode(loss: int) -> dict[str, Any]:
    return {
        **result(124 - loss, 134),
        "steps": {"mean_steps": 11.3 + loss, "low": 10.1 + loss, "high": 12.4 + loss, "num_games": 140},
        "by_task_type": {task: result(*counts) for task, counts in TASKS.items()},
        "by_hops": {hops: result(*counts) for hops, counts in HOPS.items()},
        "within_steps": [[limit, (124 - loss) / 134 * (1 - 0.85**limit)] for limit in range(1, 51)],
    }


METRICS: dict[str, Any] = json.loads(  # as it comes from the file
    json.dumps(
        {
            "splits": {
                "valid_seen": {"greedy": mode(0), "sampled": mode(3)},
                "valid_unseen": {"greedy": mode(1), "sampled": mode(4)},
            },
            "pair": {
                "household": {
                    "system 1 alone": {**result(124, 134), "system2_share": 0.0, "mean_flops": 2.1e7},
                    "pair": {**result(131, 134), "system2_share": 0.08, "mean_flops": 3.4e7},
                    "planner, hand-written": result(134, 134),
                },
                "reasoning": {
                    "pair": {
                        **result(190, 200),
                        "system2_share": 0.15,
                        "mean_flops": 5.5e7,
                        "by_hops": {"1": {"right": 1.0, "number": 90.0}, "8": {"right": 0.9, "number": 10.0}},
                    }
                },
            },
            "calibration": {
                "threshold": 0.81,
                "upper_bound": 0.047,
                "system1_share": 0.86,
                "share_by_domain": {"household": 0.9, "reasoning": 0.85},
                "expected_calibration_error": {"raw": 0.05, "temperature": 0.03, "score": 0.02},
                "reliability": {
                    key: [{"stated": p, "right": p - 0.02, "number": 40.0} for p in (0.3, 0.6, 0.95)]
                    for key in ("raw", "score")
                },
            },
            "size": {"num_parameters": 161_024, "bytes": 644_096},
        }
    )
)
