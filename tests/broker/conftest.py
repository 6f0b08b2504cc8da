"""A node and a connection to it, for tests that do not choose how it is started."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    """A node with development defaults on its own directory."""
    async with running_node(tmp_path) as running:
        yield running
        assert not running.traced.of("handler_failed")


@pytest.fixture
async def client(node: RunningNode) -> AsyncIterator[WireClient]:
    async with connected(node.port) as connection:
        yield connection
