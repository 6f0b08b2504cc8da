"""A node in its own process for the blocking clients, whose calls would block a node in the test's event loop."""

from collections.abc import Iterator

import pytest

from tests.support.node_process import NodeProcess


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    node = NodeProcess(tmp_path_factory.mktemp("node") / "data")
    node.start()
    yield node.bootstrap
    node.stop()
