"""The values and results of operations. The docstring of each class names its functions.

The classes do not depend on any client, so that checkers and reports can read the history of every client.
"""

from typing import Final

import attrs

# The prefix of the names of topics that several clients create and delete.
SHARED_NAMES: Final = "shared-"


@attrs.frozen
class WantedTopic:
    """`create-topic`: a topic that is to be there; the result is its id, as Kafka writes ids.

    `is_flushed`: with flush.messages=1, so that an acknowledged record is on the disk. `replication_factor` -1 means
    the cluster's default.
    """

    name: str
    partitions: int
    is_flushed: bool = False
    configs: tuple[tuple[str, str], ...] = ()
    replication_factor: int = -1


@attrs.frozen
class SeenTopic:
    """`list-topics`: the result has one by each topic's name, as Metadata tells of it."""

    topic_id: str
    partitions: int


@attrs.frozen
class Change:
    """`share-topic`, `grow-topic`, `drop-topic`: what is done to a name that several clients use.

    `partitions` is how many to create, or to have. The result is the name of Kafka's error.
    """

    name: str
    partitions: int = 0


@attrs.frozen
class Sending:
    """`send`: one batch; the result is the offset of its first record.

    `session` and `sequence` are the producer's, for its order: what is sent later in a session has a higher sequence,
    and the values are "<session>/<anything>/<sequence>". An empty session promises no order. With `goes_on`, the
    producer continues its session after a partition has lost records of it (KIP-360).
    """

    topic: str
    partition: int
    session: str
    sequence: int
    values: tuple[str, ...]
    goes_on: bool = False


@attrs.frozen
class Polling:
    """`poll`: a read from an offset on; the result has (offset, value) of each record."""

    topic: str
    partition: int
    offset: int


@attrs.frozen
class Ownership:
    """`assign`, `revoke`, `lose`: what a member of a group may consume, as (topic, index) pairs.

    `assign` is called when it asks, and done when it is told. From then on it owns them, besides what it has; what it
    has already it keeps, in another generation. From the call of `revoke` on (it was asked to give them up) or of
    `lose` (they were taken away) it owns them no more. `generation` is that of the group, or the member's epoch
    where it has one (KIP-848); -1 where it is not known. `instance` names a static member, under whatever member id
    (KIP-345).
    """

    group: str
    member: str
    generation: int
    partitions: tuple[tuple[str, int], ...]
    instance: str = ""


@attrs.frozen
class GroupPoll:
    """`poll-group`: what a member got of a partition that it owns; the result has (offset, value) of each record."""

    group: str
    member: str
    topic: str
    partition: int


@attrs.frozen
class Commit:
    """`commit`: (topic, index, offset) of where a group is to go on."""

    group: str
    member: str
    generation: int
    offsets: tuple[tuple[str, int, int], ...]


@attrs.frozen
class CommittedRead:
    """`fetch-committed`: the result has (topic, index, offset) of each that was asked for, -1 where there is none.

    An administrator who asks is no member.
    """

    group: str
    member: str
    partitions: tuple[tuple[str, int], ...]


@attrs.frozen
class ReplicaRead:
    """`read-replica`: what a node's disk has of a partition, once all is over; the result is a `ReplicaLog`."""

    topic: str
    partition: int
    node: str


@attrs.frozen
class ReplicaLog:
    """`batches` are (base offset, offset after the last record, digest of all bytes), in order.

    `high_watermark` is the replica's high watermark.
    """

    high_watermark: int
    batches: tuple[tuple[int, int, str], ...]


@attrs.frozen
class Healing:
    """`heal`: from the end of the last fault until `what` is as it should be; it has to be so `within_seconds`."""

    what: str
    within_seconds: float
