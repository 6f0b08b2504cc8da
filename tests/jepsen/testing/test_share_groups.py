"""A test cluster that is founded with share groups, and a share consumer while coordinators fail (KIP-932)."""

import time

import pytest
from confluent_kafka import ShareConsumer

from broker.client import SyncAdmin
from jepsen.testing import Cluster, ControlError
from jepsen.testing.server_lease import ServerLease

RECORDS = 60
WITHIN_S = 60.0


def test_share_consumer_goes_on_when_the_coordinator_of_its_group_is_killed(server: ServerLease) -> None:
    with Cluster(3, server=server) as cluster:
        topic, group = cluster.topic("orders", partitions=3, replicas=3), cluster.group("readers")
        consumer = ShareConsumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
        consumer.subscribe([topic])
        seen: set[str] = set()
        deadline = time.monotonic() + WITHIN_S
        # The group begins with the records that come once it has partitions.
        sent = 0
        while len(seen) < 10:
            assert time.monotonic() < deadline, "no record arrives"
            cluster.produce(topic, [str(sent)])
            sent += 1
            seen |= polled(consumer)
        cluster.kill(coordinator_of=group)
        wanted = [str(number) for number in range(sent, sent + RECORDS)]
        cluster.produce(topic, wanted)
        while not seen.issuperset(wanted):
            assert time.monotonic() < deadline, sorted(set(wanted) - seen)
            seen |= polled(consumer)
        consumer.close()


def polled(consumer: ShareConsumer) -> set[str]:
    messages = consumer.poll(timeout=0.2) or []
    return {(message.value() or b"").decode() for message in messages if message.error() is None}


def test_cluster_is_founded_with_the_levels_of_features_that_it_is_given(server: ServerLease) -> None:
    with (
        Cluster(1, features={"share.version": 0}, server=server) as cluster,
        SyncAdmin(cluster.bootstrap_servers) as admin,
    ):
        finalized = admin.describe_features().finalized
    assert not finalized.get("share.version")
    assert "group.version" in finalized


@pytest.mark.parametrize("features", [{"share.version": 9}, {"no.feature": 1}])
def test_features_that_there_are_not_are_refused(server: ServerLease, features: dict[str, int]) -> None:
    with pytest.raises(ControlError):
        Cluster(1, features=features, server=server)
