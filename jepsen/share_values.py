"""The values and results of operations of share groups (KIP-932)."""

from typing import Final, TypeAlias

import attrs

# The leader epoch of an answer if the client does not know it.
UNKNOWN_EPOCH: Final = -1
# The result of `describe-empty-share-group`, whose value is the group, if there is no such group. Otherwise it is the
# group's state.
GONE: Final = "gone"


@attrs.frozen
class ShareGroupSettings:
    """`share-group`: the configs of a share group, which begins at the first record of each partition.

    A record is archived after `delivery_count_limit` deliveries. With `has_libraries`, some members are consumers of
    client libraries. These may acquire records, even several times, without giving them to the application. Records
    that have failed are copied to `dead_letter_topic`, if there is one (KIP-1191).
    """

    group: str
    delivery_count_limit: int
    lock_ms: int
    has_libraries: bool = False
    dead_letter_topic: str = ""


@attrs.frozen
class DeadLetter:
    """`dead-letters`: a record that failed for a group, as the dead-letter topic has it. The result is a tuple of them.

    The other operation, `dead-letters-lost`, has the group, the partition, and the first and the last offset of records
    that a node could not copy, as `LostDeadLetters`.
    """

    group: str
    topic: str
    partition: int
    offset: int
    delivery_count: int
    value: str


@attrs.frozen
class LostDeadLetters:
    """See `DeadLetter`."""

    group: str
    topic: str
    partition: int
    first_offset: int
    last_offset: int


@attrs.frozen
class Acquiring:
    """`acquire`: a member asks for records of a partition. The result is `Acquired`.

    `session` is unique: a share session, which one node keeps for the member until the connection ends. An operation
    with outcome `OK` shows that the session existed when the request was served.
    """

    group: str
    member: str
    session: str
    topic: str
    partition: int


@attrs.frozen
class Acquired:
    """`records` are (offset, value, delivery count), locked for the member for `lock_ms`.

    `leader_epoch` is the epoch in which the node led the partition meanwhile; `UNKNOWN_EPOCH` if that is not known.
    """

    records: tuple[tuple[int, str, int], ...]
    lock_ms: int
    leader_epoch: int = UNKNOWN_EPOCH


@attrs.frozen
class Acknowledging:
    """`acknowledge`: a member says what became of records. The result is the leader epoch, as in `Acquired`.

    `batches` are (first offset, last offset, `metadata.protocol.AcknowledgeType`). With `FAIL`, none of them has taken
    effect.
    """

    group: str
    member: str
    session: str
    topic: str
    partition: int
    batches: tuple[tuple[int, int, int], ...]


# A write of the share coordinator: group, topic, partition, start offset and batches, which are (first offset, last
# offset, delivery state, delivery count). The start offset is -1 if it stays as it is.
StoredWrite: TypeAlias = tuple[str, str, int, int, tuple[tuple[int, int, int, int], ...]]


@attrs.frozen
class StoredWrites:
    """The result of `read-share-states`: all writes to a partition of `__share_group_state`, in the log's order.

    The value of the operation is the index of that partition.
    """

    writes: tuple[StoredWrite, ...]
