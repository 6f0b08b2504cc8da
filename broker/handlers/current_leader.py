"""The leader of a partition and its endpoint, for responses to clients that asked another broker (KIP-951)."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from broker.server.context import BrokerContext
from broker.wire.errors import ErrorCode

# Responses with these errors contain the current leader and its epoch.
LEADER_CHANGED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class LeaderAndEpoch(NamedTuple):
    """A leader and its epoch. `leader_id` is -1 if the partition has no leader."""

    leader_id: int
    leader_epoch: int


class Endpoint(NamedTuple):
    """A broker's endpoint of the listener that the client uses."""

    node_id: int
    host: str
    port: int
    rack: str | None


def current_leader(context: BrokerContext, topic: str | bytes, index: int) -> LeaderAndEpoch | None:
    """The leader of a partition, here or elsewhere; `topic` is a name or an id. None if there is no such partition."""
    topics = context.services.loader.image.topics
    found = topics.by_id.get(topic) if isinstance(topic, bytes) else topics.by_name.get(topic)
    partition = None if found is None else found.partitions.get(index)
    return None if partition is None else LeaderAndEpoch(partition.leader, partition.leader_epoch)


def leader_endpoints(context: BrokerContext, leader_ids: Iterable[int]) -> Iterator[Endpoint]:
    """The endpoints of these brokers, each once, without brokers that the client cannot reach."""
    brokers = context.services.loader.image.cluster.brokers
    for leader_id in dict.fromkeys(leader_ids):
        broker = brokers.get(leader_id)
        if broker is not None and not broker.fenced:
            endpoint = broker.end_points.get(context.listener)
            if endpoint is not None:
                yield Endpoint(leader_id, endpoint.host, endpoint.port, broker.rack)
