from collections.abc import Iterator

import pytest

from tests.serving.running import Server, make_root, running


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests that leave it as they found it."""
    root = tmp_path_factory.mktemp("server")
    make_root(root)
    with running(root) as found:
        yield found
