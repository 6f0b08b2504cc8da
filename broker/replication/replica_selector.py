"""Selects the replica from which a consumer should read (KIP-392). Pure."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from broker.replication.in_sync_replicas import Follower
from broker.replication.leader_role import LeaderRole
from broker.replication.partition import Partition
from kraft import lazy_attrs
from metadata.configuration import BrokerConfigs, InvalidConfig
from metadata.image import BrokerImage


@lazy_attrs.frozen
class ReplicaView:
    """A replica that has the requested offset; `caught_up_ms` is when it last had all records of the leader."""

    broker_id: int
    rack: str | None
    log_end_offset: int
    caught_up_ms: float


# (rack of the consumer, leader, followers that have the offset) -> the replica to read from.
ReplicaSelector: TypeAlias = Callable[[str, ReplicaView, Sequence[ReplicaView]], ReplicaView]


def select_by_rack(rack: str, leader: ReplicaView, followers: Sequence[ReplicaView]) -> ReplicaView:
    """The leader if it is in the consumer's rack; else the most caught-up follower there; else the leader."""
    in_rack = [follower for follower in followers if follower.rack == rack]
    if not rack or leader.rack == rack or not in_rack:
        return leader
    return max(in_rack, key=lambda follower: (follower.log_end_offset, follower.caught_up_ms, follower.broker_id))


# By the class names of `replica.selector.class` in Kafka.
REPLICA_SELECTORS: Final[Mapping[str, ReplicaSelector]] = MappingProxyType(
    {"org.apache.kafka.common.replica.RackAwareReplicaSelector": select_by_rack}
)


def find_replica_selector(config: BrokerConfigs) -> ReplicaSelector | None:
    """The selector that `replica.selector.class` names; None if it is not set: consumers then read from leaders.

    Raises InvalidConfig for any other class.
    """
    name = config.replica_selector_class
    if name and name not in REPLICA_SELECTORS:
        raise InvalidConfig(f"replica.selector.class can be {' or '.join(REPLICA_SELECTORS)}, and not {name}")
    return REPLICA_SELECTORS[name] if name else None


def preferred_read_replica(
    partition: Partition, fetch_offset: int, *, rack: str, listener: str, select: ReplicaSelector
) -> int | None:
    """The follower to read `fetch_offset` from; None for this leader.

    Candidates are in-sync followers whose broker has the consumer's listener. From a lagging follower the consumer
    would fall behind, come back to the leader, and be sent there again.
    """
    role = partition.role
    if not isinstance(role, LeaderRole):
        return None
    in_sync = role.in_sync

    def view(broker_id: int, log_end_offset: int, caught_up_ms: float) -> ReplicaView:
        broker = partition.context.broker(broker_id)
        return ReplicaView(broker_id, broker.rack if broker else None, log_end_offset, caught_up_ms)

    def can_serve(follower: Follower) -> bool:
        has_it = follower.log_start_offset <= fetch_offset <= follower.log_end_offset
        return has_it and follower.broker_id in in_sync.isr and _is_reachable(partition, follower.broker_id, listener)

    leader = view(partition.local_id, role.log.log_end_offset, partition.context.now_ms())
    followers = [
        view(follower.broker_id, follower.log_end_offset, follower.caught_up_ms)
        for follower in in_sync.followers.values()
        if can_serve(follower)
    ]
    chosen = select(rack, leader, followers)
    return None if chosen is leader else chosen.broker_id


def _is_reachable(partition: Partition, broker_id: int, listener: str) -> bool:
    broker: BrokerImage | None = partition.context.broker(broker_id)
    return broker is not None and not broker.fenced and listener in broker.end_points
