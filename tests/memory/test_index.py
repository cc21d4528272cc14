import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from dualmind.errors import GatewayError
from dualmind.memory.index import VectorIndex
from tests.memory.entries import key


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(2, 20), st.integers(1, 70))
def test_neighbours_are_those_that_scikit_learn_finds(seed: int, number: int, size: int, wanted: int) -> None:
    rng = np.random.default_rng(seed)
    readings = rng.normal(size=(number, size)).astype(np.float32)
    index = VectorIndex.of([key(i) for i in range(number)], list(readings))
    query = rng.normal(size=size).astype(np.float32)
    found = index.near(query, wanted)
    reference = NearestNeighbors(n_neighbors=min(wanted, number), metric="cosine").fit(readings)
    distances, _ = reference.kneighbors(query[None])
    assert [cosine for _, cosine in found] == pytest.approx(1 - distances[0], abs=1e-5)
    assert len({own for own, _ in found}) == min(wanted, number)


def test_a_reading_of_zeros_is_like_nothing() -> None:
    index = VectorIndex.of([key(0), key(1)], [np.zeros(3, np.float32), np.ones(3, np.float32)])
    assert index.near(np.ones(3, np.float32), 2) == [(key(1), pytest.approx(1.0)), (key(0), 0.0)]
    assert {cosine for _, cosine in index.near(np.zeros(3, np.float32), 2)} == {0.0}


def test_readings_of_other_sizes_are_refused() -> None:
    with pytest.raises(GatewayError, match=r"\[2, 3\] numbers"):
        VectorIndex.of([key(0), key(1)], [np.zeros(2, np.float32), np.zeros(3, np.float32)])
    index = VectorIndex.of([key(0)], [np.ones(2, np.float32)])
    with pytest.raises(GatewayError, match="cannot be compared with those of 2 numbers"):
        index.near(np.ones(3, np.float32), 1)
    assert VectorIndex.of([], []).near(np.ones(3, np.float32), 1) == []
