"""Invariants of partitions and their replicas, promised by Kafka's design and by KIPs 101, 497, 841 and 966."""

from collections.abc import Sequence

from jepsen.simulation.invariants.committed import Committed, CommittedLog, describe
from jepsen.simulation.invariants.replicas import integer
from jepsen.simulation.invariants.watch import Invariant
from jepsen.simulation.trace import Event


class _PartitionInvariant:
    """An invariant of single partitions, checked for those that the last event may have changed."""

    kinds: Sequence[str] = ("metadata_seen",)

    def __init__(self, committed: Committed) -> None:
        self._committed = committed

    def observe(self, event: Event) -> str | None:
        for key in self._committed.changed:
            log = self._committed.logs[key]
            wrong = self.find_violation(log)
            if wrong is not None:
                return f"{describe(key, log)} {wrong}"
        return None

    def find_violation(self, log: CommittedLog) -> str | None:
        raise NotImplementedError


class InSyncReplicasAreReplicas(_PartitionInvariant):
    """The ISR and the eligible leader replicas are replicas of the partition, and are disjoint."""

    def find_violation(self, log: CommittedLog) -> str | None:
        image = log.image
        strange = [each for each in log.eligible if each not in image.replicas]
        if strange or len(set(log.eligible)) < len(log.eligible):
            return f"has replicas {image.replicas}, ISR {image.isr}, ELR {image.eligible_leader_replicas}"
        return None


class LeadersAreInSync(_PartitionInvariant):
    """The leader is in the ISR."""

    def find_violation(self, log: CommittedLog) -> str | None:
        image = log.image
        return f"is led by {image.leader}, ISR {image.isr}" if image.leader not in (-1, *image.isr) else None


class NoFencedBrokerIsInSync(_PartitionInvariant):
    """A fenced broker is in no ISR (KIP-841).

    The last member of an ISR stays in it after a clean shutdown, because it is the only replica with all records.
    """

    def find_violation(self, log: CommittedLog) -> str | None:
        brokers = self._committed.image.cluster.brokers
        fenced = [each for each in log.image.isr if each not in brokers or brokers[each].fenced]
        if not fenced or (log.image.isr == tuple(fenced) and self._is_stopped(fenced[0])):
            return None
        return f"has the ISR {log.image.isr}, and {fenced} are fenced"

    def _is_stopped(self, broker_id: int) -> bool:
        broker = self._committed.image.cluster.brokers.get(broker_id)
        return broker is not None and broker.in_controlled_shutdown


class InSyncReplicasHoldWhatIsCommitted(_PartitionInvariant):
    """Every running member of the ISR, and every eligible leader replica, has all committed records (KIP-966)."""

    kinds: Sequence[str] = (
        *("metadata_seen", "broker_state_changed"),
        *("replica_found", "replica_role", "replica_cut", "replica_committed"),
    )

    def find_violation(self, log: CommittedLog) -> str | None:
        for broker_id, copy in self._committed.running(log):
            if copy.agreed < len(log.batches):
                image = log.image
                return (
                    f"has {log.batches[copy.agreed]} committed, and {broker_id} lacks it: ISR {image.isr}, ELR "
                    f"{image.eligible_leader_replicas}, leader {image.leader} in epoch {image.leader_epoch}"
                )
        return None


class MaximalIsrContainsIsr(_PartitionInvariant):
    """All members of the controller's ISR have the records that the leader commits (KIP-497)."""

    kinds: Sequence[str] = ("metadata_seen", "replica_role")

    def find_violation(self, log: CommittedLog) -> str | None:
        image, copy = log.image, log.copies.get(log.image.leader)
        if copy is None or copy.leader_epoch != image.leader_epoch or len(image.replicas) == 1:
            return None
        if all(each in copy.maximal for each in image.isr):
            return None
        return f"has the ISR {image.isr}, and its leader commits with {copy.maximal}"


class ReplicasAreEqual:
    """Below their high watermarks, all replicas hold the same batches, and committed batches never change."""

    kinds: Sequence[str] = ("replica_role", "replica_committed")

    def __init__(self, committed: Committed) -> None:
        self._committed = committed

    def observe(self, event: Event) -> str | None:
        return self._committed.differs


class CommittedRecordsStay:
    """A new leader has all committed records.

    The exception is a permitted loss: at least min.insync.replicas of the replicas with all records ended uncleanly,
    one of them in a power cut (KIP-966). If every append is flushed, no loss is permitted.
    """

    kinds: Sequence[str] = ("metadata_seen", "replica_found", "replica_cut", "broker_state_changed")

    def __init__(self, committed: Committed) -> None:
        self._committed = committed

    def observe(self, event: Event) -> str | None:
        return self._committed.lost


class StableRecordsAreCommitted:
    """The last stable offset of a replica is not after its high watermark.

    Consumers with read_committed read up to it, so records before it must not be lost.
    """

    kinds: Sequence[str] = ("replica_committed",)

    def observe(self, event: Event) -> str | None:
        stable, high_watermark = integer(event, "last_stable_offset"), integer(event, "high_watermark")
        if stable <= high_watermark:
            return None
        where = f"{event.fields['topic']}-{event.fields['partition']}"
        return f"{event.host} has {where} stable up to {stable}, and committed up to {high_watermark}"


class OneFetcherPerPartition:
    """A broker fetches a partition from one other broker at a time, and never from itself."""

    kinds: Sequence[str] = ("fetchers_seen",)

    def observe(self, event: Event) -> str | None:
        twice = event.fields["twice"]
        return f"{event.host} fetches {twice} from several brokers" if twice else None


def replication_invariants(committed: Committed) -> list[Invariant]:
    """All invariants of one simulation, whose committed state is `committed`."""
    return [
        committed,
        CommittedRecordsStay(committed),
        InSyncReplicasAreReplicas(committed),
        LeadersAreInSync(committed),
        NoFencedBrokerIsInSync(committed),
        MaximalIsrContainsIsr(committed),
        ReplicasAreEqual(committed),
        InSyncReplicasHoldWhatIsCommitted(committed),
        StableRecordsAreCommitted(),
        OneFetcherPerPartition(),
    ]
