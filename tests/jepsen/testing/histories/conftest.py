"""One node for all tests of recorders, and a recorder for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jepsen.testing import Cluster
from jepsen.testing.histories import Recorder
from jepsen.testing.server_lease import ServerLease


@pytest.fixture(scope="session")
def node(server: ServerLease) -> Cluster:
    return Cluster(1, server=server, shared_as="histories")


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    with Recorder(tmp_path / "history") as recorder:
        yield recorder
