"""Access to the data that simulated nodes replicate, for invariants and checkers."""

from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b

import attrs
import trio

from broker.node import Node
from broker.storage.partition_directory import parse_partition_directory
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


async def wait_in_place(hosts: Sequence[Host], log_directories: Sequence[str]) -> None:
    """Wait until no replica moves between log directories, and the metadata has the right one of each replica."""
    while not all(_is_in_place(host, log_directories) for host in hosts):
        await trio.sleep(0.1)


def _is_in_place(host: Host, log_directories: Sequence[str]) -> bool:
    """Whether each partition is in one directory, where the metadata has it, and no copy is left."""
    node = node_on(host)
    if node is None or node.broker is None or node.loader is None:
        return False
    names = [name for path in log_directories for name in host.volume.directory(path).entries]
    present = [parsed for name in names if (parsed := parse_partition_directory(name)) is not None]
    logs = [(each.topic, each.partition) for each in present if not each.suffix]
    if any(each.suffix == "future" for each in present) or len(set(logs)) < len(logs):
        return False
    by_id = node.loader.image.topics.by_id
    for local in node.broker.partitions.local_topics:
        topic = by_id.get(local.topic_id)
        for index, partition in local.partitions.items():
            image = None if topic is None else topic.partitions.get(index)
            if image is None or image.directories[image.replicas.index(partition.local_id)] != partition.directory_id:
                return False
    return True


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
