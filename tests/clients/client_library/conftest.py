"""The cluster that the tests of the client library share: three nodes of ours, or of Apache Kafka.

Apache Kafka is used with `make test-client-kafka`, or with --full.
"""

from collections.abc import Iterator

import pytest

from benchmarks import apache_kafka
from tests.support.client_peers import APACHE_KAFKA, OURS, ClientPeer, cluster_of


@pytest.fixture(scope="package", params=[OURS, APACHE_KAFKA])
def peer(request: pytest.FixtureRequest, full: bool) -> Iterator[ClientPeer]:
    is_apache_kafka = request.param == APACHE_KAFKA
    if is_apache_kafka:
        if not full and not request.config.getoption("--apache-kafka"):
            pytest.skip("`make test-client-kafka`, or --full, runs this against Apache Kafka")
        try:
            apache_kafka.jars()
        except apache_kafka.Unavailable as why:
            pytest.skip(str(why))
    with cluster_of(request.param) as cluster:
        yield ClientPeer(cluster, is_apache_kafka)
        # Clean shutdowns would take longer than the tests, because the last node waits for a lost majority.
        for member in cluster.members:
            member.kill()


@pytest.fixture
def group(topic: str) -> str:
    """An unused group id."""
    return f"group-{topic}"
