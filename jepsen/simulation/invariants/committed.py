"""The committed records of each partition, their replicas, and the possible losses, as the data invariants need them.

No node of a cluster knows all of this. `jepsen.simulation.replica_observer` adds it to the trace, as events.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

from jepsen.simulation.invariants.replicas import integer
from jepsen.simulation.trace import Event
from metadata.image import BrokerImage, MetadataImage, PartitionImage

# A batch's base offset, its end offset, the epoch of the leader that wrote it, and its checksum.
Batch: TypeAlias = tuple[int, int, int, int]
# A partition by its topic's id, in hexadecimal digits, and its index.
Key: TypeAlias = tuple[str, int]

# How a process ended, by severity: all data is on the disk, all data is in the page cache, unsynced data is lost, or
# the disk is lost.
CLEANLY: Final = 0
KILLED: Final = 1
WITHOUT_POWER: Final = 2
WITHOUT_DISK: Final = 3


@attrs.define
class Copy:
    """A running replica: the batches and the state that a broker has of a partition.

    Its first `agreed` batches equal the committed ones. `maximal` is the maximal ISR, if it `leads`. `is_suspect` is
    true if it may still hold lost batches, because it has not truncated to a leader elected after the loss.
    """

    batches: list[Batch] = attrs.field(factory=list)
    agreed: int = 0
    high_watermark: int = 0
    leader_epoch: int = -1
    leads: bool = False
    maximal: tuple[int, ...] = ()
    is_suspect: bool = False

    def cut(self, end_offset: int) -> None:
        while self.batches and self.batches[-1][1] > end_offset:
            self.batches.pop()
        self.agreed = min(self.agreed, len(self.batches))


@attrs.define
class CommittedLog:
    """One partition. `batches` are all batches that were ever committed, without permitted losses.

    `image` is its committed metadata, and `copies` are the replicas of running brokers by id. `unclean` maps the
    brokers whose process ended uncleanly since they were last in sync to the way it ended; see KILLED. `losses` are the
    leader epochs that began without all committed records. `min_isr` is the lowest effective min.insync.replicas so
    far. `damaged` are the brokers with a flipped bit in their replica's files. `may_elect_anybody` is
    unclean.leader.election.enable. `incarnations` has the number of losses that each broker's replica knows. `elected`
    is the latest elected leader with its epoch, until its replica is observed: its log is unknown until then, and it
    may be fenced before it learns of its election.
    """

    topic: str
    image: PartitionImage
    min_isr: int
    is_flushed: bool = False
    damaged: tuple[int, ...] = ()
    may_elect_anybody: bool = False
    batches: list[Batch] = attrs.field(factory=list)
    copies: dict[int, Copy] = attrs.field(factory=dict)
    unclean: dict[int, int] = attrs.field(factory=dict)
    losses: list[int] = attrs.field(factory=list)
    incarnations: dict[int, int] = attrs.field(factory=dict)
    elected: tuple[int, int] | None = None

    @property
    def end_offset(self) -> int:
        return self.batches[-1][1] if self.batches else 0

    @property
    def eligible(self) -> tuple[int, ...]:
        """The replicas that have all committed records, as the controller knows: ISR and ELR."""
        return (*self.image.isr, *self.image.eligible_leader_replicas)

    @property
    def is_loss_permitted(self) -> bool:
        """True if so many of the replicas with all records may have lost some that a loss is permitted (KIP-966)."""
        if self.may_elect_anybody:
            return True
        worst = max(self.unclean.values(), default=CLEANLY)
        has_lost = worst == WITHOUT_DISK or (worst == WITHOUT_POWER and not self.is_flushed)
        return has_lost and len(self.unclean) >= self.min_isr

    def incarnation(self, leader_epoch: int) -> int:
        """The number of losses that a broker's replica knows; None if the partition is unknown.

        A broker that knows fewer losses reports on a former incarnation.
        """
        return sum(epoch <= leader_epoch for epoch in self.losses)

    def is_current_incarnation(self, copy: Copy) -> bool:
        return self.incarnation(copy.leader_epoch) == len(self.losses)

    def append(self, copy: Copy, batches: Sequence[Batch], start: int = 0) -> None:
        """Add batches to a replica. Its log begins with them, or at `start`, if that is not 0.

        Only committed records are deleted from the beginning of a log. A replica whose log begins after them counts as
        having them.
        """
        if start:
            copy.cut(0)  # all that it had is deleted, also what was never committed
        start, end = batches[0][0] if batches else start, copy.batches[-1][1] if copy.batches else 0
        copy.batches += [each for each in self.batches if end <= each[0] and each[1] <= start]
        copy.batches += batches
        self.compare(copy)

    def compare(self, copy: Copy) -> None:
        """Update `copy.agreed`, the number of its first batches that equal the committed ones."""
        at, batches, others = copy.agreed, self.batches, copy.batches
        end = min(len(batches), len(others))
        while at < end and batches[at] == others[at]:
            at += 1
        copy.agreed = at
        if at == len(others):
            copy.is_suspect = False

    def learn(self, image: PartitionImage) -> None:
        epochs = image.leader_epoch - self.image.leader_epoch
        self.image = image
        if image.leader != -1 and epochs:
            self.elected = image.leader, image.leader_epoch
        elif epochs > 1 and image.last_known_elr:  # it was elected and fenced again between two observations
            self.elected = image.last_known_elr[0], image.leader_epoch - 1
        if self.elected is not None and self.elected[0] not in self.eligible:
            self.elected = None

    def lose(self, leader: int, leader_epoch: int) -> None:
        """Remove the records that this leader did not have when it was elected."""
        kept = self.copies[leader].agreed
        del self.batches[kept:]
        self.losses.append(leader_epoch)
        self.unclean.pop(leader, None)
        for copy in self.copies.values():
            copy.agreed = min(copy.agreed, kept)
            copy.is_suspect |= copy.agreed < len(copy.batches)

    def mark_unclean(self, broker_id: int, how: int) -> None:
        self.unclean[broker_id] = max(how, self.unclean.get(broker_id, KILLED))


class Committed:
    """The committed state of all partitions, updated by events. The watch calls it before the invariants that use it.

    `image` is the latest metadata image of any node; the event `metadata_seen` follows when it is set. `changed` has
    the partitions that the last event may have changed. `lost` has, for a partition, the records whose loss is a
    violation.
    """

    kinds: Sequence[str] = (
        *("metadata_seen", "replica_found", "replica_gone", "replica_role"),
        *("replica_wrote", "replica_cut", "replica_committed"),
        *("broker_state_changed", "process_killed", "power_cut", "process_ended", "logs_lost"),
    )

    def __init__(self, nodes: Mapping[str, int]) -> None:
        """`nodes` are the ids of the brokers by the names of their hosts."""
        self.nodes = nodes
        self.image = MetadataImage()
        self.logs: dict[Key, CommittedLog] = {}
        self.changed: list[Key] = []
        self.lost: str | None = None
        self.differs: str | None = None
        self._before = MetadataImage()
        self._epochs: dict[int, int] = {}  # the epoch of each broker's current process
        self._last_epochs: dict[int, int] = {}
        self._endings: dict[tuple[int, int], int] = {}  # by broker id and epoch: how that process ended

    def copy(self, event: Event) -> tuple[CommittedLog, Copy] | None:
        """The partition of a replica's event; None for a deleted topic."""
        log = self.logs.get(key_of(event))
        if log is None:
            return None
        return log, log.copies.setdefault(self.nodes[event.host], Copy())

    def is_registered(self, broker_id: int) -> bool:
        """True if the metadata has registered the broker's current process."""
        broker = self.image.cluster.brokers.get(broker_id)
        return broker is not None and broker.broker_epoch == self._epochs.get(broker_id)

    def observe(self, event: Event) -> str | None:
        self.changed, self.lost, self.differs = [], None, None
        match event.kind:
            case "metadata_seen":
                self._learn()
            case "broker_state_changed":
                self._register(self.nodes[event.host], integer(event, "epoch"))
            case "process_killed":
                self._end(event.host, KILLED)
            case "power_cut":
                self._end(event.host, WITHOUT_POWER)
            case "logs_lost":
                self._end(event.host, WITHOUT_DISK)
            case "process_ended":
                self._end(event.host, KILLED if event.fields["errors"] else CLEANLY)
            case _:
                self._follow(event)
        return None

    # Events of replicas

    def _follow(self, event: Event) -> None:
        found = self.copy(event)
        if found is None:
            return
        log, copy = found
        self.changed = [key_of(event)]
        match event.kind:
            case "replica_gone":
                del log.copies[self.nodes[event.host]]
            case "replica_found":
                copy.batches, copy.agreed, copy.is_suspect = [], 0, bool(log.losses)
                copy.high_watermark = 0
                log.append(copy, batches_of(event), start_of(event))
            case "replica_role":
                copy.leader_epoch, copy.maximal = integer(event, "leader_epoch"), ids_of(event, "maximal")
                copy.leads = event.fields["leads"] is True
                if copy.leads:
                    self._commit(event, log, copy)  # records below its high watermark count as committed from now on
            case "replica_wrote":
                log.append(copy, batches_of(event), start_of(event))
            case "replica_cut":
                copy.cut(integer(event, "end_offset"))
                log.compare(copy)
            case "replica_committed":
                copy.high_watermark = integer(event, "high_watermark")
                self._commit(event, log, copy)
        self._reconcile(log)
        if not copy.is_suspect:
            log.incarnations[self.nodes[event.host]] = log.incarnation(copy.leader_epoch)

    def _commit(self, event: Event, log: CommittedLog, copy: Copy) -> None:
        end_offset = copy.high_watermark
        if not log.is_current_incarnation(copy):
            return  # the replica does not know the new leader and its loss yet
        if copy.leads and end_offset > log.end_offset and copy.agreed == len(log.batches):
            log.batches += [each for each in copy.batches[copy.agreed :] if each[1] <= end_offset]
            for each in log.copies.values():
                log.compare(each)
        agreed_end = log.batches[copy.agreed - 1][1] if copy.agreed else 0
        if agreed_end < end_offset and not copy.is_suspect:
            other = log.batches[copy.agreed] if copy.agreed < len(log.batches) else None
            mine = copy.batches[copy.agreed] if copy.agreed < len(copy.batches) else None
            if mine is None and other is not None and other[1] > end_offset:
                return  # its log begins within the batch, which it is about to fetch
            self.differs = f"{event.host} has {mine} committed in {describe(key_of(event), log)}, and others {other}"

    def _reconcile(self, log: CommittedLog) -> None:
        """Compare a new leader's log with the committed records. Missing records are a permitted loss or a failure."""
        leader, epoch = log.image.leader, log.image.leader_epoch
        if leader == -1 and log.elected is not None:
            leader, epoch = log.elected
        copy = log.copies.get(leader)
        if copy is None or not self.is_registered(leader):
            return
        log.elected = None
        if copy.agreed == len(log.batches):
            return
        if log.is_loss_permitted:
            log.lose(leader, epoch)
        else:
            self.lost = (
                f"{leader} leads {log.topic} in epoch {epoch} without the committed batch "
                f"{log.batches[copy.agreed]}; ended uncleanly since in sync: {log.unclean}"
            )

    # Events of brokers

    def _register(self, broker_id: int, epoch: int) -> None:
        if epoch >= 0 and self._epochs.get(broker_id) != epoch:
            self._epochs[broker_id] = self._last_epochs[broker_id] = epoch
            for key, log in self.logs.items():
                if broker_id in log.eligible:
                    self.changed.append(key)
                    self._reconcile(log)

    def _end(self, host: str, how: int) -> None:
        broker_id = self.nodes.get(host)
        if broker_id is None:
            return
        epoch = self._epochs.pop(broker_id, None)
        if epoch is None:  # before its registration: it counts as unclean, whatever the previous incarnation was
            epoch, how = self._last_epochs.get(broker_id, -1), max(how, KILLED)
        self._endings[broker_id, epoch] = max(how, self._endings.get((broker_id, epoch), CLEANLY))
        for log in self.logs.values():
            log.copies.pop(broker_id, None)
            if how != CLEANLY and (broker_id in log.eligible or broker_id in log.unclean):
                # Recovery cuts a log at damage, so a damaged replica that has ended uncleanly may lose what follows.
                log.mark_unclean(broker_id, WITHOUT_DISK if broker_id in log.damaged else how)

    # Events of the metadata

    def _learn(self) -> None:
        before, self._before = self._before, self.image
        brokers_changed = before.cluster is not self.image.cluster or before.configs is not self.image.configs
        topics = self.image.topics.by_id
        for key in [key for key in self.logs if bytes.fromhex(key[0]) not in topics]:
            del self.logs[key]
        for topic_id, topic in topics.items():
            if not brokers_changed and before.topics.by_id.get(topic_id) is topic:
                continue
            hex_id = topic_id.hex()
            for index, partition in topic.partitions.items():
                self._learn_partition((hex_id, index), topic.name, partition)

    def _learn_partition(self, key: Key, topic: str, partition: PartitionImage) -> None:
        configs = {**self.image.configs.all_brokers(), **self.image.configs.topic(topic)}
        min_isr = min(int(configs.get("min.insync.replicas", "1")), len(partition.replicas))
        log = self.logs.get(key)
        if log is None:
            log = self.logs[key] = CommittedLog(topic, partition, min_isr)
        log.learn(partition)
        log.min_isr = min(min_isr, log.min_isr)
        log.is_flushed = configs.get("flush.messages") == "1"
        log.may_elect_anybody = configs.get("unclean.leader.election.enable") == "true"
        self.changed.append(key)
        for broker_id in log.eligible:
            ending = self._endings.get((broker_id, self._broker_epoch(broker_id)), CLEANLY)
            if ending != CLEANLY:
                log.mark_unclean(broker_id, ending)
            elif broker_id in log.unclean and self._holds(log, broker_id):
                del log.unclean[broker_id]
        self._reconcile(log)

    def _holds(self, log: CommittedLog, broker_id: int) -> bool:
        copy = log.copies.get(broker_id)
        return copy is not None and self.is_registered(broker_id) and copy.agreed == len(log.batches)

    def _broker_epoch(self, broker_id: int) -> int:
        broker: BrokerImage | None = self.image.cluster.brokers.get(broker_id)
        return -1 if broker is None else broker.broker_epoch

    def incarnation(self, host: str, topic: str, index: int) -> int | None:
        """The number of losses that a broker's replica knows; None if the partition is unknown.

        A broker that knows fewer losses than others reports on a former incarnation.
        """
        found = self.image.topics.by_name.get(topic)
        log = None if found is None else self.logs.get((found.topic_id.hex(), index))
        if log is None:
            return None
        return log.incarnations.get(self.nodes[host], 0)

    def running(self, log: CommittedLog) -> Iterator[tuple[int, Copy]]:
        """The eligible replicas whose broker's current process is registered in the metadata."""
        for broker_id in log.eligible:
            copy = log.copies.get(broker_id)
            if copy is not None and self.is_registered(broker_id):
                yield broker_id, copy


def key_of(event: Event) -> Key:
    return str(event.fields["topic_id"]), integer(event, "partition")


def start_of(event: Event) -> int:
    """The offset at which a replica's log begins, or begins again."""
    return integer(event, "start") if "start" in event.fields else 0


def batches_of(event: Event) -> Sequence[Batch]:
    batches: Any = event.fields["batches"]
    assert isinstance(batches, tuple), f"batches of {event}"
    return batches


def ids_of(event: Event, name: str) -> tuple[int, ...]:
    ids: Any = event.fields[name]
    assert isinstance(ids, tuple), f"{name} of {event}"
    return ids


def describe(key: Key, log: CommittedLog) -> str:
    return f"{log.topic}-{key[1]}"
