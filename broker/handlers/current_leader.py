"""Where the leader of a partition can be reached, for those who asked the wrong broker (KIP-951)."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from broker.server.context import RequestContext
from broker.wire.errors import ErrorCode

# The errors that come with the leader that the client should have asked, and its epoch.
LEADER_CHANGED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class LeaderAndEpoch(NamedTuple):
    """The leader is -1 while there is none."""

    leader_id: int
    leader_epoch: int


class Endpoint(NamedTuple):
    """A broker, as it is reached through the listener that the client uses."""

    node_id: int
    host: str
    port: int
    rack: str | None


def current_leader(context: RequestContext, topic: str | bytes, index: int) -> LeaderAndEpoch | None:
    """The leader of a partition, here or elsewhere; `topic` is a name or an id. None if there is no such partition."""
    topics = context.services.loader.image.topics
    found = topics.by_id.get(topic) if isinstance(topic, bytes) else topics.by_name.get(topic)
    partition = None if found is None else found.partitions.get(index)
    return None if partition is None else LeaderAndEpoch(partition.leader, partition.leader_epoch)


def leader_endpoints(context: RequestContext, leader_ids: Iterable[int]) -> Iterator[Endpoint]:
    """Each broker once; those that are not to be reached are left out."""
    brokers = context.services.loader.image.cluster.brokers
    for leader_id in dict.fromkeys(leader_ids):
        broker = brokers.get(leader_id)
        if broker is not None and not broker.fenced:
            endpoint = broker.end_points.get(context.listener)
            if endpoint is not None:
                yield Endpoint(leader_id, endpoint.host, endpoint.port, broker.rack)
