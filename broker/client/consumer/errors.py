"""The errors of consumers, besides those of every client: of groups, and of reading from a partition."""

from broker.client.errors import ClientError
from broker.client.types import OffsetAndMetadata, TopicPartition


class CommitFailed(ClientError):
    """The group has removed this member: its offsets were not committed, and other members go on from older ones.

    Poll more often, return fewer records per poll (`max.poll.records`), or raise `max.poll.interval.ms`.
    """


class RebalanceInProgress(ClientError):
    """The group is rebalancing: the offsets were not committed. Poll, which completes that, and commit again."""


class AssignmentError(ClientError):
    """An assignor broke a rule, or a member of the group sent a subscription or an assignment that cannot be read."""


class NotAssigned(ClientError):
    """A call named a partition that is not assigned to the consumer."""


class PartitionFailed(ClientError):
    """Reading a partition failed at an offset. The position is unchanged; the next poll tries again."""

    def __init__(self, message: str, partition: TopicPartition, offset: int | None) -> None:
        super().__init__(message)
        self.partition = partition
        self.offset = offset


class NoOffsetForPartition(PartitionFailed):
    """The group has no committed offset, and `auto.offset.reset` is `none`."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(
            f"{_name(partition)} has no committed offset and auto.offset.reset is none: seek() to where to start",
            partition,
            None,
        )


class OffsetOutOfRange(PartitionFailed):
    """The log no longer has, or does not have yet, the offset to read; `auto.offset.reset` is `none`."""

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        super().__init__(
            f"offset {offset} of {_name(partition)} is out of range and auto.offset.reset is none: seek() to an offset "
            "between beginning_offsets() and end_offsets()",
            partition,
            offset,
        )


class LogTruncation(OffsetOutOfRange):
    """Records before the position were lost in a leader election (KIP-320); `auto.offset.reset` is `none`.

    `divergent_offset` is the first offset at which the log differs from what was read, None where it is not known.
    """

    def __init__(self, partition: TopicPartition, offset: int, divergent_offset: OffsetAndMetadata | None) -> None:
        super().__init__(partition, offset)
        self.divergent_offset = divergent_offset
        since = "an unknown offset" if divergent_offset is None else f"offset {divergent_offset.offset}"
        self.args = (
            f"the log of {_name(partition)} was truncated: it differs from {since} on, and the position is {offset}. "
            "Undo what came of the records after that, and seek() there",
        )


class TopicDeleted(PartitionFailed):
    """The topic is gone, or another one has been created with its name, in which the offsets mean nothing."""

    def __init__(self, partition: TopicPartition, offset: int, *, is_recreated: bool) -> None:
        what = "deleted and created again" if is_recreated else "deleted"
        super().__init__(
            f"topic {partition.topic} was {what}: offset {offset} of {_name(partition)} cannot be read",
            partition,
            offset,
        )


class CorruptRecords(PartitionFailed):
    """A batch cannot be read: its CRC, its compression or its records are wrong."""

    def __init__(self, partition: TopicPartition, offset: int, reason: str) -> None:
        super().__init__(
            f"the batch at offset {offset} of {_name(partition)} cannot be read: {reason}. "
            "To go on without it, seek past it",
            partition,
            offset,
        )


class DeserializationFailed(PartitionFailed):
    """A deserializer failed; `__cause__` is its exception."""

    def __init__(self, partition: TopicPartition, offset: int, part: str) -> None:
        super().__init__(
            f"the {part} of offset {offset} of {_name(partition)} cannot be deserialized: "
            f"seek() to offset {offset + 1} to skip the record",
            partition,
            offset,
        )


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"
