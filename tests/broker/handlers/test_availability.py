"""The brokers and replicas that clients can reach through their listener."""

import attrs
import pytest

from broker.handlers.availability import Availability, ClusterView
from broker.wire.errors import ErrorCode
from metadata.ids import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from metadata.image import BrokerImage, ClusterImage, PartitionImage
from metadata.records import BrokerEndpoint

ONLINE, FAILED = bytes(15) + b"\xff", bytes(15) + b"\xfe"


def broker(broker_id: int, *listeners: str, fenced: bool = False) -> BrokerImage:
    return BrokerImage(
        broker_id=broker_id,
        broker_epoch=broker_id,
        incarnation_id=bytes(16),
        end_points={name: BrokerEndpoint(name, f"{name}-{broker_id}", 9092, 0) for name in listeners},
        features={},
        rack=None,
        fenced=fenced,
        in_controlled_shutdown=False,
        log_dirs=(ONLINE,),
    )


BROKERS = (broker(1, "IN", "OUT"), broker(2, "IN"), broker(3, "IN", "OUT", fenced=True), broker(4, "OUT"))
CLUSTER = ClusterImage({each.broker_id: each for each in BROKERS})


def partition(leader: int, *replicas: int) -> PartitionImage:
    return PartitionImage(replicas=replicas, isr=replicas, leader=leader, leader_epoch=0, partition_epoch=0)


def test_only_brokers_with_the_listener_are_told_of() -> None:
    hosts = {name: [each.host for each in ClusterView(CLUSTER, name).endpoints.values()] for name in ("IN", "OUT", "X")}

    assert hosts == {"IN": ["IN-1", "IN-2"], "OUT": ["OUT-1", "OUT-4"], "X": []}


@pytest.mark.parametrize(
    ("leader", "listener", "expected"),
    [
        (1, "IN", Availability(ErrorCode.NONE, 1, [3, 4, 5])),
        (1, "OUT", Availability(ErrorCode.NONE, 1, [2, 3, 5])),
        (2, "OUT", Availability(ErrorCode.LISTENER_NOT_FOUND, -1, [2, 3, 5])),
        (3, "IN", Availability(ErrorCode.LEADER_NOT_AVAILABLE, -1, [3, 4, 5])),
        (5, "IN", Availability(ErrorCode.LEADER_NOT_AVAILABLE, -1, [3, 4, 5])),
        (-1, "IN", Availability(ErrorCode.LEADER_NOT_AVAILABLE, -1, [3, 4, 5])),
    ],
)
def test_leaders_and_replicas_that_cannot_be_reached(leader: int, listener: str, expected: Availability) -> None:
    assert ClusterView(CLUSTER, listener).availability(partition(leader, 1, 2, 3, 4, 5)) == expected


def test_replicas_in_failed_log_directories_are_offline() -> None:
    """KIP-858; an unknown directory counts as online."""
    held = attrs.evolve(partition(1, 1, 2), directories=(ONLINE, FAILED))
    unknown = attrs.evolve(partition(1, 1, 2), directories=(UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY))

    assert ClusterView(CLUSTER, "IN").availability(held).offline_replicas == [2]
    assert ClusterView(CLUSTER, "IN").availability(unknown).offline_replicas == []


def test_lost_brokers_are_listed_after_those_that_can_be_reached() -> None:
    listed = [broker_id for broker_id, _ in ClusterView(CLUSTER, "IN").with_lost([1, 3, 9])]

    assert listed == [1, 2, 3]
    assert [broker_id for broker_id, _ in ClusterView(CLUSTER, "X").with_lost([3])] == []
