"""Reads the state of simulated nodes and traces every change of their replicas.

A host is observed after each batch of its tasks, when all of them wait again, and when its process ends. Observation
does not change a node.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

import attrs

from broker.node import Node
from broker.replication.in_sync_replicas import Proposal
from broker.replication.leader_role import LeaderRole
from broker.replication.partition import Partition
from broker.replication.replica_fetcher_manager import ReplicaFetcherManager
from broker.storage.log import Log
from broker.wire.errors import KafkaError
from broker.wire.records import BatchHeader, iter_headers
from jepsen.simulation.disk import Volume
from jepsen.simulation.disk.tree import Inode
from jepsen.simulation.hosts import Host, Process
from jepsen.simulation.invariants.committed import Batch, Committed
from jepsen.simulation.trace import Event, Trace
from metadata.image import MetadataImage

_READ_BYTES = 1 << 20


@attrs.define(eq=False)
class _ObservedReplica:
    """A partition's state at the last observation. `cut_to` is the lowest offset to which the log was
    truncated since.
    """

    partition: Partition
    topic_id: str
    log: Log | None = None
    leads: bool = False
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] | None = None
    proposal: Proposal | None = None
    end_offset: int = 0
    high_watermark: int = 0
    cut_to: int | None = None


@attrs.define(eq=False)
class _ObservedNode:
    """A node, the `process` of its host, and its replicas of the watched topics."""

    process: Process
    node: Node
    image: MetadataImage | None = None
    topics: int = 0
    replicas: dict[Partition, _ObservedReplica] = attrs.field(factory=dict)


class ReplicaObserver:
    """See the module's docstring. `node_of` returns the node that runs on a host, or None.

    Replicas are observed for the topics in `watched`, and metadata for all topics.
    """

    def __init__(
        self, trace: Trace, node_of: Callable[[Host], Node | None], committed: Committed, watched: Collection[str]
    ) -> None:
        self._trace = trace
        self._node_of = node_of
        self._committed = committed
        self._watched = watched
        self._seen: dict[Host, _ObservedNode] = {}
        trace.listeners.append(self._on_event)

    def observe(self, hosts: Sequence[Host]) -> None:
        acting = []
        for host in hosts:
            seen = self._seen.get(host)
            if seen is None or seen.process is not host.process:
                seen = self._see_process(host)
            if seen is None or seen.node.loader is None:
                continue
            acting.append((host, seen))
            image = seen.node.loader.image
            if image.offset > self._committed.image.offset:
                self._observe_image(host, image)
        for host, seen in acting:
            self._observe_node(host, seen)

    def _see_process(self, host: Host) -> _ObservedNode | None:
        """Begin to observe a host's new process; None if it is not a node whose metadata are loaded."""
        process, node = host.process, self._node_of(host)
        if process is None or node is None or node.loader is None:
            return None
        seen = self._seen[host] = _ObservedNode(process, node)
        return seen

    def observe_last(self, host: Host) -> None:
        """Trace only records that the node has committed as a leader. Other state may be in the middle of a change.

        It may have committed them because of its latest metadata: a smaller ISR. So the image is observed before.
        """
        seen = self._seen.get(host)
        if seen is not None and seen.node is self._node_of(host):
            if seen.node.loader is not None:
                self._observe_image(host, seen.node.loader.image)
            for replica in seen.replicas.values():
                log = replica.partition.log
                if log is not None and log is replica.log and replica.leads:
                    self._observe_log(host, replica, log)
                    self._observe_high_watermark(host, replica)

    def _observe_image(self, host: Host, image: MetadataImage) -> None:
        if image.offset > self._committed.image.offset:
            self._committed.image = image
            self._trace.event(host.name, "metadata_seen", {"offset": image.offset})

    def _on_event(self, event: Event) -> None:
        """Note truncations: between two observations a log may be truncated and grow again."""
        if event.kind in ("partition_truncated", "committed_truncated"):
            offset, topic_id, index = (event.fields[name] for name in ("offset", "topic_id", "partition"))
            assert isinstance(offset, int), f"offset of {event}"
            for host, seen in self._seen.items():
                for replica in seen.replicas.values() if host.name == event.host else ():
                    if (replica.topic_id, replica.partition.index) == (topic_id, index):
                        replica.cut_to = offset if replica.cut_to is None else min(offset, replica.cut_to)

    def _observe_node(self, host: Host, seen: _ObservedNode) -> None:
        broker, loader = seen.node.broker, seen.node.loader
        if broker is None or loader is None:
            return
        topics = broker.partitions.topics
        if loader.image is not seen.image or len(topics) != seen.topics:
            seen.image, seen.topics = loader.image, len(topics)
            self._find_replicas(host, seen)
        changed = changed_of(seen.replicas.values())
        for replica in changed:
            self._observe_replica(host, replica)
        if changed and broker.fetchers is not None:
            self._observe_fetchers(host, broker.fetchers)

    def _observe_fetchers(self, host: Host, fetchers: ReplicaFetcherManager) -> None:
        keys = [key for key, _ in fetchers.sources()]
        if len(dict.fromkeys(keys)) < len(keys):
            twice = [(key[0].hex(), key[1]) for key in keys if keys.count(key) > 1]
            self._trace.event(host.name, "fetchers_seen", {"twice": twice})

    def _find_replicas(self, host: Host, seen: _ObservedNode) -> None:
        assert seen.node.broker is not None, "observed nodes are brokers"
        topics = seen.node.broker.partitions.topics
        found: dict[Partition, _ObservedReplica] = {}
        for name in self._watched:
            topic = topics.get(name)
            for partition in () if topic is None else topic.partitions.values():
                known = seen.replicas.pop(partition) if partition in seen.replicas else None
                found[partition] = known or _ObservedReplica(partition, partition.topic_id.hex())
        for gone in seen.replicas.values():
            if gone.log is not None:
                self._trace_removed(host, gone)
        seen.replicas = found

    def _observe_replica(self, host: Host, seen: _ObservedReplica) -> None:
        partition, log = seen.partition, seen.partition.log
        if log is not seen.log:
            self._observe_new_log(host, seen, log)
        if log is None:
            return
        self._observe_log(host, seen, log)
        if seen.leads and not partition.leads:
            self._observe_high_watermark(host, seen)  # it moved while this was the leader
        in_sync = partition.role.in_sync if isinstance(partition.role, LeaderRole) else None
        isr, proposal = (None, None) if in_sync is None else (in_sync.isr, in_sync.proposal)
        if (
            partition.leader_epoch != seen.leader_epoch
            or partition.partition_epoch != seen.partition_epoch
            or isr is not seen.isr
            or proposal is not seen.proposal
        ):
            seen.leader_epoch, seen.partition_epoch = partition.leader_epoch, partition.partition_epoch
            seen.isr, seen.proposal, seen.leads = isr, proposal, partition.leads
            maximal = () if in_sync is None else in_sync.maximal
            fields = {"leader_epoch": seen.leader_epoch, "leads": seen.leads, "maximal": maximal}
            self._trace_replica(host, seen, "replica_role", **fields)
        self._observe_high_watermark(host, seen)

    def _observe_high_watermark(self, host: Host, seen: _ObservedReplica) -> None:
        before, seen.high_watermark = seen.high_watermark, seen.partition.high_watermark
        if seen.high_watermark != before:
            log = seen.partition.log
            stable = seen.high_watermark if log is None else seen.partition.commit_state.last_stable_offset(log)
            self._trace_committed(host, seen, seen.high_watermark, stable)

    def _trace_committed(self, host: Host, seen: _ObservedReplica, high_watermark: int, stable: int) -> None:
        fields = {"high_watermark": high_watermark, "last_stable_offset": stable}
        self._trace_replica(host, seen, "replica_committed", **fields)

    def _observe_new_log(self, host: Host, seen: _ObservedReplica, log: Log | None) -> None:
        if log is None and seen.log is not None:
            self._trace_removed(host, seen)
        seen.log = log
        seen.end_offset = seen.high_watermark = 0
        seen.leader_epoch, seen.leads = -1, False
        seen.cut_to = None
        if log is not None:
            batches = batches_of(read_headers(log, log.log_start_offset, host.volume))
            seen.end_offset = batches[-1][1] if batches else log.log_start_offset
            # Only the log of an internal topic that is pruned begins later than at 0 (DeleteRecords).
            start = {"start": log.log_start_offset} if log.log_start_offset else {}
            self._trace_replica(host, seen, "replica_found", batches=batches, **start)

    def _trace_removed(self, host: Host, seen: _ObservedReplica) -> None:
        """Trace that a replica is gone.

        Records that it has committed as a leader are traced before: clients and followers may know of them.
        """
        partition = seen.partition
        high_watermark = min(partition.high_watermark, seen.end_offset)
        if seen.leads and partition.leader_epoch == seen.leader_epoch and high_watermark > seen.high_watermark:
            # The last stable offset of a replica that is gone is unknown.
            self._trace_committed(host, seen, high_watermark, high_watermark)
        self._trace_replica(host, seen, "replica_gone")

    def _observe_log(self, host: Host, seen: _ObservedReplica, log: Log) -> None:
        end_offset = log.readable_end_offset
        if end_offset == seen.end_offset and seen.cut_to is None:
            return
        cut_to = end_offset if seen.cut_to is None else min(seen.cut_to, end_offset)
        seen.cut_to = None
        if cut_to < seen.end_offset:
            seen.end_offset = cut_to
            self._trace_replica(host, seen, "replica_cut", end_offset=cut_to)
        if log.log_start_offset > seen.end_offset:  # a follower begins again where its leader's log begins
            seen.end_offset = log.log_start_offset
            self._trace_replica(host, seen, "replica_wrote", batches=(), start=log.log_start_offset)
        headers = read_headers(log, seen.end_offset, host.volume)
        if headers:
            seen.end_offset = headers[-1].next_offset
            self._trace_replica(host, seen, "replica_wrote", batches=batches_of(headers))
        if any(header.is_control for header in headers):
            self._trace_replica(host, seen, "replica_ended_transaction")

    def _trace_replica(self, host: Host, seen: _ObservedReplica, kind: str, **fields: object) -> None:
        about = {"topic": seen.partition.topic, "topic_id": seen.topic_id, "partition": seen.partition.index}
        self._trace.event(host.name, kind, {**about, **fields})


def changed_of(replicas: Iterable[_ObservedReplica]) -> list[_ObservedReplica]:
    """The replicas that differ from their last observation.

    This runs for all replicas of a node after each batch of its tasks, so it calls no functions of Python.
    """
    changed = []
    for seen in replicas:
        partition = seen.partition
        role = partition.role
        log = role.log
        if log is not seen.log or partition.commit_state.high_watermark != seen.high_watermark:
            changed.append(seen)
        elif log is not None:
            in_sync = role.in_sync if type(role) is LeaderRole else None
            if (
                log.readable_end_offset != seen.end_offset
                or seen.cut_to is not None
                or partition.leader_epoch != seen.leader_epoch
                or partition.partition_epoch != seen.partition_epoch
                or (in_sync is not None and (in_sync.isr is not seen.isr or in_sync.proposal is not seen.proposal))
            ):
                changed.append(seen)
    return changed


def read_headers(log: Log, offset: int, volume: Volume) -> list[BatchHeader]:
    """The batch headers in a log's files on `volume` from an offset on, as they were written: flipped bits are undone.

    Unreadable data counts as missing.
    """
    inodes = [volume.find(segment.path) for segment in log.segments]
    if any(isinstance(inode, Inode) and inode.flips for inode in inodes):
        return [
            header
            for segment, inode in zip(log.segments, inodes, strict=True)
            if isinstance(inode, Inode)
            for _, header in iter_headers(inode.intact(segment.written))
            if header.next_offset > offset
        ]
    headers: list[BatchHeader] = []
    try:
        while offset < log.readable_end_offset:
            found = log.read(offset, _READ_BYTES, upper_bound=log.readable_end_offset, min_one_batch=True)
            before = len(headers)
            headers += [header for _, header in iter_headers(found.file.read(found.position, found.size))]
            if len(headers) == before:
                break
            offset = headers[-1].next_offset
    except (KafkaError, OSError):
        pass  # the disk has just failed
    return headers


def batches_of(headers: Iterable[BatchHeader]) -> tuple[Batch, ...]:
    return tuple((each.base_offset, each.next_offset, each.partition_leader_epoch, each.crc) for each in headers)
