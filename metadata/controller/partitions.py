"""New partitions: where their replicas go, and growing a topic."""

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random

import attrs

from metadata.controller.assignment import Assignment
from metadata.controller.decision import Decision
from metadata.controller.placement import StripedReplicaPlacer
from metadata.errors import (
    ApiError,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from metadata.ids import UNASSIGNED_DIRECTORY
from metadata.image import ClusterImage, MetadataImage, TopicImage
from metadata.records import PartitionRecord

# Kafka's bound on one request: what it makes is one batch of the log, held in memory by every node at once.
MAX_PARTITIONS_PER_BATCH = 10_000

NO_ACTIVE_BROKER = "All brokers are currently fenced or in controlled shutdown."


@attrs.frozen
class NewPartitions:
    """A topic is to have `count` partitions in all; `assignments` gives each new one's brokers, or None to have them
    placed.
    """

    name: str
    count: int
    assignments: Sequence[tuple[int, ...]] | None = None


@attrs.frozen
class TopicOutcome:
    """What came of one topic of a request; `error` is None where all went well."""

    name: str
    error: ApiError | None = None


def create_partitions(
    image: MetadataImage, topics: Sequence[NewPartitions], rng: Random
) -> Decision[list[TopicOutcome]]:
    """Grow topics, each for itself: one that cannot grow does not keep others from it (KIP-195).

    Raises PolicyViolation for a request too large to be one batch.
    """
    named = Counter(topic.name for topic in topics)
    outcomes = [
        TopicOutcome(name, InvalidRequest("Duplicate topic name.")) for name, times in named.items() if times > 1
    ]
    records: list[PartitionRecord] = []
    for topic in topics:
        if named[topic.name] > 1:
            continue
        try:
            records += _grow(image, topic, MAX_PARTITIONS_PER_BATCH - len(records), rng)
            outcomes.append(TopicOutcome(topic.name))
        except PolicyViolation:
            raise
        except ApiError as error:
            outcomes.append(TopicOutcome(topic.name, error.with_traceback(None)))
    return Decision(records, outcomes)


def place_partitions(
    image: MetadataImage, topic_id: bytes, partition_ids: Iterable[int], replication_factor: int, rng: Random
) -> list[PartitionRecord]:
    """New partitions on brokers of our choice. Raises InvalidReplicationFactor."""
    placer = StripedReplicaPlacer(image.cluster.brokers.values(), replication_factor, rng)
    records = []
    for partition_id in partition_ids:
        record = new_partition(image.cluster, topic_id, partition_id, placer.place())
        if record is None:
            raise InvalidReplicationFactor(
                f"Unable to replicate the partition {replication_factor} time(s): {NO_ACTIVE_BROKER}"
            )
        records.append(record)
    return records


def assign_partition(
    cluster: ClusterImage, topic_id: bytes, partition_id: int, replicas: tuple[int, ...], replication_factor: int | None
) -> PartitionRecord:
    """A new partition on the brokers that the client chose. Raises InvalidReplicaAssignment."""
    check_assignment(cluster, replicas, replication_factor)
    record = new_partition(cluster, topic_id, partition_id, replicas)
    if record is None:
        raise InvalidReplicaAssignment(
            f"All brokers specified in the manual partition assignment for partition {partition_id} are fenced or in "
            "controlled shutdown."
        )
    return record


def new_partition(
    cluster: ClusterImage, topic_id: bytes, partition_id: int, replicas: tuple[int, ...]
) -> PartitionRecord | None:
    """Its ISR are the active brokers among the replicas, its leader is the first of them; None if there is none."""
    isr = tuple(broker_id for broker_id in replicas if cluster.is_active(broker_id))
    if not isr:
        return None
    return PartitionRecord(
        topic_id=topic_id,
        partition_id=partition_id,
        replicas=replicas,
        isr=isr,
        leader=isr[0],
        directories=tuple(default_directory(cluster, broker_id) for broker_id in replicas),
    )


def _grow(image: MetadataImage, wanted: NewPartitions, partitions_max: int, rng: Random) -> list[PartitionRecord]:
    topic = image.topics.by_name.get(wanted.name)
    if topic is None:
        raise UnknownTopicOrPartition
    _check_growth(topic, wanted, partitions_max)
    count = len(topic.partitions)
    # What a reassignment that goes on is to end with, and not all that it needs meanwhile, which Kafka would take.
    replication_factor = len(Assignment.of(topic.partitions[0]).target)
    if wanted.assignments is None:
        return place_partitions(image, topic.topic_id, range(count, wanted.count), replication_factor, rng)
    return [
        assign_partition(image.cluster, topic.topic_id, partition_id, replicas, replication_factor)
        for partition_id, replicas in enumerate(wanted.assignments, count)
    ]


def _check_growth(topic: TopicImage, wanted: NewPartitions, partitions_max: int) -> None:
    count = len(topic.partitions)
    if wanted.count == count:
        raise InvalidPartitions(f"Topic already has {count} partition(s).")
    if wanted.count < count:
        raise InvalidPartitions(
            f"The topic {wanted.name} currently has {count} partition(s); {wanted.count} would not be an increase."
        )
    added = wanted.count - count
    if wanted.assignments is not None and len(wanted.assignments) != added:
        raise InvalidReplicaAssignment(
            f"Attempted to add {added} additional partition(s), but only {len(wanted.assignments)} assignment(s) were "
            "specified."
        )
    if added > partitions_max:
        raise PolicyViolation("Unable to perform excessively large batch operation.")


def check_assignment(cluster: ClusterImage, replicas: tuple[int, ...], replication_factor: int | None) -> None:
    """Raises InvalidReplicaAssignment for brokers that are not there, or are named twice, or are too few or many."""
    if not replicas:
        raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker_id in sorted(replicas):
        if broker_id not in cluster.brokers:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
        if broker_id == previous:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes the broker {broker_id} more than once."
            )
        previous = broker_id
    if replication_factor is not None and len(replicas) != replication_factor:
        raise InvalidReplicaAssignment(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s)."
        )


def default_directory(cluster: ClusterImage, broker_id: int) -> bytes:
    """The only log directory of the broker; a broker that has several chooses one itself."""
    log_dirs = cluster.brokers[broker_id].log_dirs
    return log_dirs[0] if len(log_dirs) == 1 else UNASSIGNED_DIRECTORY
