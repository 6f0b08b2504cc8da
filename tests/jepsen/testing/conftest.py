"""One test server for all processes of the run."""

import os
from collections.abc import Iterator

import pytest

from jepsen.testing.server_lease import ServerLease


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerLease]:
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    lease = ServerLease.shared(shared)
    yield lease
    lease.release()
