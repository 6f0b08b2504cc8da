"""The cluster that the tests of the client library share: three nodes of ours, or of Apache Kafka.

Apache Kafka's part runs with `make test-client-kafka`, or with --full.
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
        # Orderly shutdowns would take longer than the tests: the last node waits for a majority that is gone.
        for member in cluster.members:
            member.kill()


@pytest.fixture
def group(topic: str) -> str:
    """The name of a group that was not used before."""
    return f"group-{topic}"
