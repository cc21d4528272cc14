"""Small sound data sets to start from; each test spoils one thing."""

from dataclasses import replace

from dualmind.data.decisions import DecisionRow
from dualmind.data.problems import ProblemRow
from dualmind.data.suites import SuiteParams

PARAMS = SuiteParams(min_decisions=4, min_problems=4, max_prompt_chars=200)


def decision_rows() -> list[DecisionRow]:
    """Two training games and one of valid_train, two steps each."""
    return [
        DecisionRow(
            example_id=f"game{game}/{step}",
            domain="household",
            split=split,
            problem_id=f"game{game}",
            step_index=step,
            hops=2,
            prompt="goal : put a mug in sink | hold : nothing | here : mid-room",
            candidates=("go to desk 1 new", "go to sink 1 new"),
            target="go to desk 1 new",
            rationale="mugs are often on desks",
            reward=float(step == 1),
            source="searcher",
        )
        for game, split in enumerate(["train", "train", "valid_train"])
        for step in range(2)
    ]


def problem_rows() -> list[ProblemRow]:
    """One game of each split; the unseen one plays in another room."""
    rows = [
        ProblemRow(
            problem_id=f"game{index}",
            domain="household",
            split=split,
            task_type="pick_and_place_simple",
            layout="room301",
            hops=2,
            text="put a mug in sink.",
            payload=f'{{"id": "game{index}", "things": [{index}]}}',
        )
        for index, split in enumerate(["train", "valid_train", "valid_seen", "valid_unseen"])
    ]
    return [*rows[:3], replace(rows[3], layout="room10")]
