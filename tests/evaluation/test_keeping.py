import pytest

from dualmind.evaluation.keeping import worse


@pytest.mark.parametrize(
    ("after", "lost"),
    [
        ({"valid_accuracy": 0.9, "answers_right": 0.5}, []),
        ({"valid_accuracy": 0.88, "answers_right": 0.9}, []),  # within the tolerance
        ({"valid_accuracy": 0.87, "answers_right": 0.9}, ["valid_accuracy"]),
        ({"valid_accuracy": 0.0, "answers_right": 0.0}, ["valid_accuracy", "answers_right"]),
        ({"valid_accuracy": float("nan"), "answers_right": 0.5}, ["valid_accuracy"]),
    ],
)
def test_a_loss_beyond_the_tolerance_counts_in_each_measure(after: dict[str, float], lost: list[str]) -> None:
    before = {"valid_loss": 1.0, "valid_accuracy": 0.9, "answers_right": 0.5, "answers_right_hops_1": 1.0}
    assert worse(before, {"valid_loss": 9.0, "answers_right_hops_1": 0.0, **after}, 0.02) == lost


def test_what_was_not_measured_before_cannot_be_lost() -> None:
    assert worse({"answers_right": 0.5}, {"answers_right": 0.5}, 0.0) == []
