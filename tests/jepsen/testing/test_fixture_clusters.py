"""The objects of the pytest fixtures, without pytest."""

from typing import Any

import pytest

from broker.client.errors import ClosedError
from jepsen.testing import Cluster, ControlError
from jepsen.testing.fixture_clusters import FixtureClusters, Kafka
from jepsen.testing.server_lease import ServerLease

pytestmark = pytest.mark.clients


def test_client_of_a_test_is_closed_although_its_faults_cannot_be_ended(server: ServerLease) -> None:
    with Cluster(nodes=1, server=server) as cluster:
        kafka = Kafka(cluster)
        topic = kafka.topic()
        assert [each.name for each in kafka.admin.list_topics()] == [topic]
        kafka.fault(api="Produce", topic=topic, error="INVALID_RECORD")
    with pytest.raises(ControlError):
        kafka.close()
    with pytest.raises(ClosedError):
        kafka.admin.list_topics()


def test_all_clusters_end_although_one_cannot_be_ended(server: ServerLease) -> None:
    clusters = FixtureClusters()
    first, second = (clusters.get(server, "info", {"nodes": 1, "seed": seed}) for seed in (1, 2))
    server.client.request("DELETE", f"/clusters/{first.name}", None)
    with pytest.raises(ControlError):
        clusters.close()
    with pytest.raises(ControlError):
        second.age()


def test_fixture_of_one_node_names_the_fixture_that_has_the_methods_of_clusters(server: ServerLease) -> None:
    kafka: Any = Kafka(Cluster(1, server=server, shared_as="histories"))
    with pytest.raises(AttributeError, match=r"the fixture `kafka` has no kill: .* Use the fixture `kafka_cluster`"):
        kafka.kill(leader_of=("orders", 0))
    with pytest.raises(AttributeError, match="the fixture `kafka` has no attribute 'kil'"):
        kafka.kil()
