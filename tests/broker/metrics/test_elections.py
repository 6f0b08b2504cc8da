"""Elections of leaders are counted as the metadata has them (KIP-704: an unclean one makes the leader recover)."""

from broker.metrics.collectors import Elections
from metadata.image import MetadataDelta, MetadataImage
from metadata.records import (
    LEADER_RECOVERED,
    LEADER_RECOVERING,
    NO_LEADER,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)

TOPIC = bytes(15) + b"\x01"


def image_with_partition(elections: Elections) -> MetadataImage:
    return applied(
        MetadataImage(),
        elections,
        TopicRecord(name="orders", topic_id=TOPIC),
        PartitionRecord(
            partition_id=0,
            topic_id=TOPIC,
            replicas=(1, 2, 3),
            isr=(1, 2, 3),
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=(bytes(16),) * 3,
        ),
    )


def applied(image: MetadataImage, elections: Elections, *records: object) -> MetadataImage:
    delta = MetadataDelta(image)
    delta.replay(records)  # type: ignore[arg-type]
    after = delta.apply(image.offset + len(records))
    elections.publish(delta, after)
    return after


def change(**changes: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=TOPIC, **changes)  # type: ignore[arg-type]


def test_first_leader_and_lost_leaders_are_no_elections() -> None:
    elections = Elections()
    image = image_with_partition(elections)
    applied(image, elections, change(leader=NO_LEADER))
    assert (elections.total, elections.unclean) == (0, 0)


def test_election_of_an_in_sync_replica_is_clean_even_if_several_changes_come_at_once() -> None:
    elections = Elections()
    image = image_with_partition(elections)
    image = applied(image, elections, change(isr=(1,)))
    applied(image, elections, change(isr=(1, 3)), change(isr=(3,), leader=3))
    assert (elections.total, elections.unclean) == (1, 0)


def test_election_of_a_leader_that_has_to_recover_is_unclean() -> None:
    elections = Elections()
    image = image_with_partition(elections)
    image = applied(image, elections, change(isr=(1,), leader=NO_LEADER))
    image = applied(image, elections, change(isr=(2,), leader=2, leader_recovery_state=LEADER_RECOVERING))
    applied(image, elections, change(leader_recovery_state=LEADER_RECOVERED))
    assert (elections.total, elections.unclean) == (1, 1)
