"""Creation of partitions, with automatic or manual assignment of replicas."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from random import Random

from kraft import lazy_attrs
from metadata.controller.assignment import Assignment
from metadata.controller.decision import Decision
from metadata.controller.placement import StripedReplicaPlacer
from metadata.ids import UNASSIGNED_DIRECTORY
from metadata.image import ClusterImage, MetadataImage, TopicImage
from metadata.protocol import ErrorCode, KafkaError
from metadata.records import PartitionRecord
from metadata.request_context import Requester, charge_mutations

# Kafka's bound of one request, which becomes one batch of the log: every node holds the batch in memory.
MAX_PARTITIONS_PER_BATCH = 10_000

NO_ACTIVE_BROKER = "All brokers are currently fenced or in controlled shutdown."


@lazy_attrs.frozen
class NewPartitions:
    """Grows a topic to `count` partitions. `assignments` are the brokers of each new one; None places them."""

    name: str
    count: int
    assignments: Sequence[tuple[int, ...]] | None = None


@lazy_attrs.frozen
class TopicOutcome:
    """The result for one topic of a request; `error` is None if it succeeded."""

    name: str
    error: KafkaError | None = None


def create_partitions(
    image: MetadataImage, topics: Sequence[NewPartitions], rng: Random, context: Requester = None
) -> Decision[list[TopicOutcome]]:
    """Grow topics, each of which succeeds or fails independently (KIP-195). The client is charged for new partitions.

    Raises KafkaError POLICY_VIOLATION for a request that is too large for one batch.
    """
    named = Counter(topic.name for topic in topics)
    outcomes = [
        TopicOutcome(name, KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        for name, times in named.items()
        if times > 1
    ]
    records: list[PartitionRecord] = []
    for topic in topics:
        if named[topic.name] > 1:
            continue
        try:
            records += _grow(image, topic, MAX_PARTITIONS_PER_BATCH - len(records), rng, context)
            outcomes.append(TopicOutcome(topic.name))
        except KafkaError as error:
            if error.code is ErrorCode.POLICY_VIOLATION:
                raise
            outcomes.append(TopicOutcome(topic.name, error.with_traceback(None)))
    return Decision(records, outcomes)


def place_partitions(
    image: MetadataImage, topic_id: bytes, partition_ids: Iterable[int], replication_factor: int, rng: Random
) -> list[PartitionRecord]:
    """Create partitions on brokers chosen by the placer. Raises KafkaError INVALID_REPLICATION_FACTOR."""
    placer = StripedReplicaPlacer(image.cluster.brokers.values(), replication_factor, rng)
    records = []
    for partition_id in partition_ids:
        record = new_partition(image.cluster, topic_id, partition_id, placer.place())
        if record is None:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {replication_factor} time(s): {NO_ACTIVE_BROKER}",
            )
        records.append(record)
    return records


def assign_partition(
    cluster: ClusterImage, topic_id: bytes, partition_id: int, replicas: tuple[int, ...], replication_factor: int | None
) -> PartitionRecord:
    """Create a partition on the brokers chosen by the client. Raises KafkaError INVALID_REPLICA_ASSIGNMENT."""
    check_assignment(cluster, replicas, replication_factor)
    record = new_partition(cluster, topic_id, partition_id, replicas)
    if record is None:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment for partition {partition_id} are fenced or in "
            "controlled shutdown.",
        )
    return record


def new_partition(
    cluster: ClusterImage, topic_id: bytes, partition_id: int, replicas: tuple[int, ...]
) -> PartitionRecord | None:
    """Create a partition. The active replicas are its ISR, and the first of them leads. None without active ones."""
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


def _grow(
    image: MetadataImage, wanted: NewPartitions, partitions_max: int, rng: Random, context: Requester
) -> list[PartitionRecord]:
    topic = image.topics.by_name.get(wanted.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    _check_growth(topic, wanted, partitions_max)
    count = len(topic.partitions)
    charge_mutations(context, wanted.count - count)
    # The replication factor after an ongoing reassignment. Kafka counts the replicas that are being removed, too.
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
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if wanted.count < count:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {wanted.name} currently has {count} partition(s); {wanted.count} would not be an increase.",
        )
    added = wanted.count - count
    if wanted.assignments is not None and len(wanted.assignments) != added:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only {len(wanted.assignments)} assignment(s) were "
            "specified.",
        )
    if added > partitions_max:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


def check_assignment(
    cluster: ClusterImage, replicas: tuple[int, ...], replication_factor: int | None, present: Collection[int] = ()
) -> None:
    """Raises KafkaError INVALID_REPLICA_ASSIGNMENT for a broker that cannot get a replica, or another number of them.

    A broker with only cordoned log directories keeps a replica that is `present`. Kafka 4.4 refuses that, too; then no
    other replica of the partition could move meanwhile, and its leader could not be handed over by reordering.
    """
    if not replicas:
        raise _invalid_assignment("an empty replica list.")
    previous = None
    for broker_id in sorted(replicas):
        if broker_id not in cluster.brokers:
            raise _invalid_assignment(f"broker {broker_id}, but no such broker is registered.")
        if cluster.brokers[broker_id].is_cordoned and broker_id not in present:
            raise _invalid_assignment(f"broker {broker_id}, but all its log directories are cordoned.")
        if broker_id == previous:
            raise _invalid_assignment(f"the broker {broker_id} more than once.")
        previous = broker_id
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _invalid_assignment(
            f"a partition with {len(replicas)} replica(s), but this is not consistent with previous partitions, which "
            f"have {replication_factor} replica(s)."
        )


def _invalid_assignment(included: str) -> KafkaError:
    message = f"The manual partition assignment includes {included}"
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def default_directory(cluster: ClusterImage, broker_id: int) -> bytes:
    """The broker's only log directory, or UNASSIGNED_DIRECTORY: a broker with several directories chooses one."""
    log_dirs = cluster.brokers[broker_id].log_dirs
    return log_dirs[0] if len(log_dirs) == 1 else UNASSIGNED_DIRECTORY
