from collections.abc import Iterator

import pytest

import flows.training  # noqa: F401  # before Prefect itself, so that its settings are ours

# isort: split
from prefect.testing.utilities import prefect_test_harness


@pytest.fixture(scope="session")
def server() -> Iterator[None]:
    """One Prefect server for all tests of flows: it takes many seconds to start."""
    with prefect_test_harness(server_startup_timeout=300):
        yield
