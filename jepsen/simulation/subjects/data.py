"""Access to the data that simulated nodes replicate, for invariants and checkers."""

from collections.abc import Collection, Iterable
from hashlib import blake2b

import attrs

from broker.node import Node
from broker.wire.api.metadata import MetadataResponseTopic
from broker.wire.records import iter_headers
from jepsen.simulation.hosts import Host
from jepsen.simulation.invariants import Committed
from jepsen.simulation.replica_observer import ReplicaObserver
from jepsen.simulation.simulation import Simulation
from jepsen.simulation.subjects.node_plan import FormattedNode
from jepsen.values import ReplicaLog


def observe_replicas(simulation: Simulation, committed: Committed, watched: Collection[str]) -> None:
    """Add an observer that traces the changes of these topics' replicas."""
    simulation.observers.append(ReplicaObserver(simulation.trace, node_on, committed, watched))


def node_on(host: Host) -> Node | None:
    """The node that runs on a host; None if none does."""
    process = host.process
    if isinstance(process, FormattedNode):
        return process.node
    return process if isinstance(process, Node) else None


def replica_log(host: Host, topic: str, index: int) -> ReplicaLog | None:
    """The contents of a host's log files of a partition; None without a replica."""
    node = node_on(host)
    local = None if node is None or node.broker is None else node.broker.partitions.topic(topic)
    partition = None if local is None else local.partitions.get(index)
    if partition is None or partition.log is None:
        return None
    batches = []
    for segment in partition.log.segments:
        data = segment.file.read(0, segment.written)
        for at, header in iter_headers(data):
            digest = blake2b(data[at : at + header.size], digest_size=8).hexdigest()
            batches.append((header.base_offset, header.next_offset, digest))
    return ReplicaLog(partition.high_watermark, tuple(batches))


@attrs.frozen
class DescribedPartition:
    """A partition as described by a Metadata response."""

    index: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


def described_partitions(topic: MetadataResponseTopic) -> tuple[DescribedPartition, ...]:
    return tuple(
        DescribedPartition(each.partition_index, each.leader_id, tuple(each.replica_nodes), tuple(each.isr_nodes))
        for each in topic.partitions
    )


def are_all_in_sync(partitions: Iterable[DescribedPartition]) -> bool:
    """True if each partition has a leader, and all its replicas are in sync."""
    return all(each.leader in each.isr and sorted(each.isr) == sorted(each.replicas) for each in partitions)
