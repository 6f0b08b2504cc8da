"""Each invariant of replication detects its violation in a trace of a few events."""

from collections.abc import Callable

import attrs
import pytest

from jepsen.simulation.invariants import Committed, Watch, replication_invariants
from jepsen.simulation.trace import Trace
from metadata.image import BrokerImage, ClusterImage, MetadataDelta, MetadataImage
from metadata.protocol import ConfigResourceType
from metadata.records import ConfigRecord, MetadataRecord, PartitionChangeRecord, PartitionRecord, TopicRecord

TOPIC_ID = bytes(range(16))
FIRST, SECOND, THIRD = (0, 2, 0, 77), (2, 3, 0, 78), (3, 4, 0, 79)
EPOCH_AFTER_RESTART = 50


class SampleTrace:
    """Brokers 1 to 3 replicate a partition with min.insync.replicas=2. Broker 1 leads, and all have the first batch.

    This batch is committed.
    """

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.trace = Trace(lambda: 0.0)
        self.committed = Committed({"n1": 1, "n2": 2, "n3": 3})
        Watch(
            self.trace,
            replication_invariants(self.committed),
            lambda violation: self.broken.append(violation.partition(":")[0]),
        )
        self.image = MetadataImage()
        for broker_id in (1, 2, 3):
            self.registers(broker_id, broker_id)
        topic = TopicRecord(name="topic", topic_id=TOPIC_ID)
        partition = PartitionRecord(
            topic_id=TOPIC_ID,
            partition_id=0,
            replicas=(1, 2, 3),
            isr=(1, 2, 3),
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
        )
        config = ConfigRecord(
            resource_type=ConfigResourceType.TOPIC, resource_name="topic", name="min.insync.replicas", value="2"
        )
        self.learns(topic, partition, config)
        for node in (1, 2, 3):
            self.finds(node)
            self.role(node, 0, (1, 2, 3) if node == 1 else ())
            self.writes(node, FIRST)
        self.commits(1, 2)

    def tell(self, node: int, kind: str, **fields: object) -> None:
        self.trace.event(f"n{node}", kind, {"topic": "topic", "topic_id": TOPIC_ID.hex(), "partition": 0, **fields})

    def registers(self, node: int, epoch: int, *, fenced: bool = False, is_stopping: bool = False) -> None:
        """Register the broker's current process, in the metadata and in its own state."""
        self.knows(node, epoch, fenced=fenced, is_stopping=is_stopping)
        self.tell(node, "broker_state_changed", epoch=epoch)

    def knows(self, node: int, epoch: int, *, fenced: bool = False, is_stopping: bool = False) -> None:
        broker = BrokerImage(node, epoch, bytes(16), {}, {}, None, fenced, is_stopping, ())
        cluster = ClusterImage({**self.image.cluster.brokers, node: broker})
        self._sees(attrs.evolve(self.image, cluster=cluster, offset=self.image.offset + 1))

    def learns(self, *records: MetadataRecord) -> None:
        delta = MetadataDelta(self.image)
        delta.replay(records)
        self._sees(delta.apply(self.image.offset + 1))

    def _sees(self, image: MetadataImage) -> None:
        self.image = self.committed.image = image
        self.tell(1, "metadata_seen", offset=image.offset)

    def changes(self, **changes: object) -> None:
        self.learns(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, **changes))  # type: ignore[arg-type]

    def finds(self, node: int, *batches: tuple[int, int, int, int]) -> None:
        self.tell(node, "replica_found", batches=batches)

    def role(self, node: int, leader_epoch: int, maximal: tuple[int, ...] = ()) -> None:
        self.tell(node, "replica_role", leader_epoch=leader_epoch, leads=maximal != (), maximal=maximal)

    def writes(self, node: int, *batches: tuple[int, int, int, int]) -> None:
        self.tell(node, "replica_wrote", batches=batches)

    def cuts(self, node: int, end_offset: int) -> None:
        self.tell(node, "replica_cut", end_offset=end_offset)

    def commits(self, node: int, high_watermark: int, last_stable_offset: int | None = None) -> None:
        """Move the high watermark. Without open transactions, it is the last stable offset too."""
        stable = high_watermark if last_stable_offset is None else last_stable_offset
        self.tell(node, "replica_committed", high_watermark=high_watermark, last_stable_offset=stable)

    def ends(self, node: int, kind: str, *errors: str) -> None:
        self.tell(node, kind, errors=list(errors))


def test_fault_free_run_violates_nothing() -> None:
    sample = SampleTrace()
    sample.changes(isr=(1, 2))
    sample.role(1, 0, (1, 2))
    sample.writes(1, SECOND)
    sample.writes(2, SECOND)
    sample.commits(1, 3)
    sample.commits(2, 3)
    sample.ends(1, "process_killed")
    sample.changes(isr=(2,), leader=2, eligible_leader_replicas=(1,))
    sample.role(2, 1, (2,))
    sample.registers(1, 9)
    sample.changes(eligible_leader_replicas=())
    sample.finds(1, FIRST, SECOND, THIRD)
    sample.role(1, 1)
    sample.cuts(1, 3)
    sample.role(2, 1, (2, 1))
    sample.changes(isr=(2, 1))
    assert sample.broken == []
    assert sample.committed.logs[TOPIC_ID.hex(), 0].unclean == {}


def test_as_many_losses_as_there_must_be_replicas_in_sync_are_excused() -> None:
    sample = SampleTrace()
    all_are_gone(sample)
    sample.changes(leader=2, isr=(2,))
    sample.finds(2)
    sample.role(2, 2, (2,))
    sample.registers(2, 9)
    sample.writes(2, (0, 1, 2, 5))
    sample.commits(2, 1)
    assert sample.broken == []
    log = sample.committed.logs[TOPIC_ID.hex(), 0]
    assert (log.losses, log.batches) == ([2], [(0, 1, 2, 5)])


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_loss_is_excused_though_the_elected_is_fenced_before_it_hears_of_it(*, is_seen: bool) -> None:
    sample = SampleTrace()
    all_are_gone(sample)
    sample.finds(2)
    sample.knows(2, 9)
    elected = PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=2, isr=(2,))
    fenced = PartitionChangeRecord(
        topic_id=TOPIC_ID, partition_id=0, leader=-1, isr=(), eligible_leader_replicas=(2,), last_known_elr=(2,)
    )
    if is_seen:
        sample.learns(elected)
        sample.learns(fenced)
    else:
        sample.learns(elected, fenced)
    sample.tell(2, "broker_state_changed", epoch=9)
    assert sample.broken == []
    log = sample.committed.logs[TOPIC_ID.hex(), 0]
    assert (log.losses, log.batches) == ([2], [])


def test_a_loss_is_not_excused_by_an_election_of_before() -> None:
    sample = SampleTrace()
    sample.changes(leader=2)
    for node in (1, 2, 3):
        sample.ends(node, "power_cut")
    sample.changes(leader=-1, isr=(), eligible_leader_replicas=(2,))
    sample.finds(2)
    sample.registers(2, 9)
    assert sample.broken == ["InSyncReplicasHoldWhatIsCommitted"]


def test_high_watermark_of_a_new_leader_counts() -> None:
    """A checkpoint from before a loss may have a high watermark that only later records reach."""
    sample = SampleTrace()
    for node in (1, 2):
        sample.ends(node, "power_cut")
    sample.changes(isr=(), leader=-1)
    sample.changes(leader=2, isr=(2,))
    sample.finds(2)
    sample.registers(2, 9)
    sample.role(2, 2, (2,))
    sample.writes(2, (0, 1, 2, 5))
    sample.ends(2, "process_killed")
    sample.changes(isr=(), leader=-1)
    sample.finds(2, (0, 1, 2, 5))
    sample.commits(2, 1)
    sample.changes(leader=2, isr=(2,))
    sample.registers(2, 10)
    sample.role(2, 4, (2,))
    sample.cuts(3, 0)
    sample.role(3, 4)
    sample.writes(3, (0, 1, 2, 5))
    sample.commits(3, 1)
    assert sample.broken == []


def test_replicas_of_a_log_whose_front_was_deleted_count_as_having_it() -> None:
    """Broker 2 restarts, and broker 3 begins again where its leader's log begins, without its uncommitted batch."""
    sample = SampleTrace()
    sample.changes(isr=(1, 2))
    sample.role(1, 0, (1, 2))
    sample.writes(3, (2, 3, 0, 99))
    for node in (1, 2):
        sample.writes(node, SECOND, THIRD)
    sample.commits(1, 4)
    sample.tell(2, "replica_found", batches=(THIRD,), start=3)
    sample.commits(2, 4)
    sample.tell(3, "replica_wrote", batches=(), start=3)
    sample.commits(3, 3)
    sample.writes(3, THIRD)
    sample.commits(3, 4)
    assert sample.broken == []
    copies = sample.committed.logs[TOPIC_ID.hex(), 0].copies
    assert copies[2].batches == copies[3].batches == [FIRST, SECOND, THIRD]


def test_replica_that_lacks_a_batch_is_found_though_the_front_of_its_log_was_deleted() -> None:
    sample = SampleTrace()
    for node in (1, 2, 3):
        sample.writes(node, SECOND, THIRD)
    sample.commits(1, 4)
    sample.tell(2, "replica_found", batches=(), start=3)
    assert sample.broken == ["InSyncReplicasHoldWhatIsCommitted"]


def test_recreated_replica_has_no_high_watermark_until_it_reports_one() -> None:
    """The replica was created again, or truncated unobserved; its former high watermark does not count."""
    sample = SampleTrace()
    sample.ends(1, "power_cut")
    sample.changes(isr=(2, 3), leader=2)
    sample.finds(2, FIRST)
    sample.commits(2, 2)
    sample.finds(2)
    sample.role(2, 1, (2, 3))
    assert "ReplicasAreEqual" not in sample.broken


def test_replica_with_lost_records_reports_on_a_former_incarnation_until_it_truncates() -> None:
    sample = SampleTrace()
    for node in (1, 2):
        sample.ends(node, "power_cut")
    sample.changes(isr=(), leader=-1)
    sample.changes(leader=2, isr=(2,))
    sample.finds(2)
    sample.role(2, 2, (2,))
    sample.registers(2, 9)
    sample.role(3, 2)
    assert sample.committed.incarnation("n3", "topic", 0) == 0
    sample.cuts(3, 0)
    assert sample.committed.incarnation("n3", "topic", 0) == 1
    assert sample.broken == []


def test_reports_of_a_replica_are_of_the_incarnation_that_it_knows() -> None:
    sample = SampleTrace()
    assert sample.committed.incarnation("n2", "topic", 0) == 0
    all_are_gone(sample)
    sample.changes(leader=2, isr=(2,))
    sample.finds(2)
    sample.registers(2, 9)
    sample.role(2, 2, (2,))
    assert sample.committed.incarnation("n2", "topic", 0) == 1
    assert sample.committed.incarnation("n3", "topic", 0) == 0
    assert sample.committed.incarnation("n3", "no such topic", 0) is None


def all_are_gone(sample: SampleTrace) -> None:
    for node in (1, 2, 3):
        sample.ends(node, "power_cut")
    sample.changes(isr=(), leader=-1)


def isr_beyond_replicas(sample: SampleTrace) -> None:
    sample.changes(isr=(1, 2, 4))


def both_in_sync_and_eligible(sample: SampleTrace) -> None:
    sample.changes(isr=(1,), eligible_leader_replicas=(1, 2))


def leader_out_of_sync(sample: SampleTrace) -> None:
    sample.changes(isr=(2, 3))


def fenced_in_sync(sample: SampleTrace) -> None:
    sample.knows(3, 3, fenced=True)


def member_lacks_what_is_committed(sample: SampleTrace) -> None:
    sample.changes(isr=(1, 2))
    sample.writes(1, SECOND)
    sample.writes(2, SECOND)
    sample.commits(1, 3)
    sample.changes(isr=(1, 2, 3))


def eligible_replica_cuts_what_is_committed(sample: SampleTrace) -> None:
    sample.changes(isr=(1,), eligible_leader_replicas=(2,))
    sample.cuts(2, 0)


def committed_ahead_of_a_member(sample: SampleTrace) -> None:
    sample.writes(1, SECOND)
    sample.commits(1, 3)


def leader_forgets_a_member(sample: SampleTrace) -> None:
    sample.role(1, 0, (1, 2))


def stable_after_the_high_watermark(sample: SampleTrace) -> None:
    sample.writes(1, SECOND)
    sample.commits(1, 2, last_stable_offset=3)


def another_record_at_the_same_offset(sample: SampleTrace) -> None:
    sample.changes(isr=(1, 2))
    sample.writes(1, SECOND)
    sample.writes(2, SECOND)
    sample.commits(1, 3)
    sample.writes(3, (2, 3, 0, 99))
    sample.commits(3, 3)


def leader_without_what_is_committed(sample: SampleTrace) -> None:
    """The broker ended cleanly, but its replica has no records."""
    sample.ends(2, "process_ended")
    sample.changes(isr=(2,), leader=2)
    sample.finds(2)
    sample.registers(2, 9)


def one_loss_that_is_no_excuse(sample: SampleTrace) -> None:
    sample.ends(1, "power_cut")
    sample.changes(isr=(2, 3), leader=2)
    sample.changes(isr=(1,), leader=1)
    sample.finds(1)
    sample.registers(1, 9)


def two_kills_that_lose_nothing(sample: SampleTrace) -> None:
    """The page cache survives."""
    for node in (1, 2, 3):
        sample.ends(node, "process_killed")
    sample.changes(isr=(1,), leader=1)
    sample.finds(1)
    sample.registers(1, 9)


def a_flushed_record_that_is_lost(sample: SampleTrace) -> None:
    sample.learns(
        ConfigRecord(resource_type=ConfigResourceType.TOPIC, resource_name="topic", name="flush.messages", value="1")
    )
    all_are_gone(sample)
    sample.changes(leader=2, isr=(2,))
    sample.finds(2)
    sample.registers(2, 9)


def two_fetchers(sample: SampleTrace) -> None:
    sample.tell(1, "fetchers_seen", twice=[(TOPIC_ID.hex(), 0)])


@pytest.mark.parametrize(
    ("breach", "invariant"),
    [
        (isr_beyond_replicas, "InSyncReplicasAreReplicas"),
        (both_in_sync_and_eligible, "InSyncReplicasAreReplicas"),
        (leader_out_of_sync, "LeadersAreInSync"),
        (fenced_in_sync, "NoFencedBrokerIsInSync"),
        (member_lacks_what_is_committed, "InSyncReplicasHoldWhatIsCommitted"),
        (eligible_replica_cuts_what_is_committed, "InSyncReplicasHoldWhatIsCommitted"),
        (committed_ahead_of_a_member, "InSyncReplicasHoldWhatIsCommitted"),
        (leader_forgets_a_member, "MaximalIsrContainsIsr"),
        (another_record_at_the_same_offset, "ReplicasAreEqual"),
        (stable_after_the_high_watermark, "StableRecordsAreCommitted"),
        (leader_without_what_is_committed, "CommittedRecordsStay"),
        (one_loss_that_is_no_excuse, "CommittedRecordsStay"),
        (two_kills_that_lose_nothing, "CommittedRecordsStay"),
        (a_flushed_record_that_is_lost, "CommittedRecordsStay"),
        (two_fetchers, "OneFetcherPerPartition"),
    ],
)
def test_a_breach_is_seen(breach: Callable[[SampleTrace], None], invariant: str) -> None:
    sample = SampleTrace()
    assert sample.broken == []
    breach(sample)
    assert sample.broken[:1] == [invariant]
