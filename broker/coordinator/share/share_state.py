"""The delivery state of share-partitions, and the interface for its users (KIP-932).

A share-partition is a partition as one share group sees it. Its leader reads and writes its state; the coordinator of
the group creates and deletes it. Both do so by a `ShareStateStore`.
"""

from typing import Final, NamedTuple, Protocol

from broker.coordinator.runtime.completion import Completion
from broker.wire.uuids import decode_uuid, encode_uuid
from kraft import lazy_attrs
from metadata.configuration import parse_int

# The start offset of a share-partition whose leader has yet to find where the group begins.
UNINITIALIZED: Final = -1
# The stored states of deliveries, by Kafka's numbers. Records that a consumer has acquired are stored as available.
AVAILABLE: Final = 0
ACKNOWLEDGED: Final = 2
ARCHIVING: Final = 3
ARCHIVED: Final = 4
# The parts of a coordinator's key.
_PARTS: Final = 3


class SharePartitionKey(NamedTuple):
    """Names a share-partition."""

    group_id: str
    topic_id: bytes
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The key by which FindCoordinator finds the share coordinator, with key type 2."""
        return f"{self.group_id}:{encode_uuid(self.topic_id)}:{self.partition}"

    @classmethod
    def parse(cls, text: str) -> "SharePartitionKey":
        """Reads a `coordinator_key`; a group id may contain colons. Raises ValueError with Kafka's message."""
        parts = text.rsplit(":", 2)
        if len(parts) < _PARTS:
            raise ValueError(f"Invalid key format: expected - groupId:topicId:partition, found - {text}")
        group_id, topic, partition = parts
        if not group_id.strip():
            raise ValueError("GroupId must not be empty")
        try:
            topic_id = decode_uuid(topic)
        except ValueError as error:
            raise ValueError(f"Invalid topic ID: {topic}") from error
        index = parse_int(partition)
        if index is None:
            raise ValueError(f"Invalid partition: {partition}")
        return cls(group_id, topic_id, index)


class StateBatch(NamedTuple):
    """The offsets from `first_offset` to `last_offset`, with one delivery state.

    `delivery_state` is AVAILABLE, ACKNOWLEDGED, ARCHIVING or ARCHIVED. Fields have the names of Kafka's messages and
    records, so that a batch can stand in them as it is.
    """

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@lazy_attrs.frozen
class PartitionState:
    """The state of a share-partition, as its leader reads it.

    Offsets from `start_offset` on that are in no batch are available, and were never delivered. Batches are in the
    order of offsets and do not overlap.
    """

    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]

    @property
    def delivery_complete_count(self) -> int:
        """The number of offsets in the batches whose delivery is complete (KIP-1226)."""
        return sum(
            batch.last_offset - batch.first_offset + 1
            for batch in self.batches
            if batch.delivery_state in (ACKNOWLEDGED, ARCHIVED)
        )


@lazy_attrs.frozen
class PartitionSummary:
    """The summary of a state, for group coordinators.

    Without a state, `start_offset` is UNINITIALIZED, and the epochs are 0. `delivery_complete_count` is -1 if it is not
    known.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


class ShareStateStore(Protocol):
    """Keeps the state of share-partitions.

    Methods return at once. Each completion ends with a value or a KafkaError, at most about 30 s later: requests are
    repeated while the share coordinator moves, is loaded, or cannot be reached. A request may therefore be executed
    twice; the second time has no effect for a write, even if other writes came between. Completions are done in turns
    of the store's own task, and batches that their callbacks stage are written after the turn. While 100,000 requests
    are under way, the next ones fail at once.

    Errors after all repetitions are those of the coordinator: FENCED_STATE_EPOCH, FENCED_LEADER_EPOCH, INVALID_REQUEST
    (also for a share-partition that is not initialized), UNKNOWN_TOPIC_OR_PARTITION, COORDINATOR_NOT_AVAILABLE,
    COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, NETWORK_EXCEPTION, UNKNOWN_SERVER_ERROR.
    """

    def initialize(
        self, group_id: str, topic_id: bytes, partition: int, state_epoch: int, start_offset: int
    ) -> Completion[None]:
        """Replaces the state of a share-partition by an empty one. FENCED_STATE_EPOCH if it has a later state epoch.

        `start_offset` may be UNINITIALIZED.
        """
        ...

    def read(self, group_id: str, topic_id: bytes, partition: int, leader_epoch: int) -> Completion[PartitionState]:
        """Reads the state for the leader of this epoch; leaders of earlier epochs are fenced from now on."""
        ...

    def write(
        self,
        group_id: str,
        topic_id: bytes,
        partition: int,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: tuple[StateBatch, ...],
    ) -> Completion[None]:
        """Merges batches into the state, and drops what is before `start_offset`; UNINITIALIZED leaves it as it is.

        Where batches overlap, the one with the higher delivery count wins, then the one with the higher delivery state.
        Writes of one share-partition are executed in the order of the calls only if each waits for the last one.
        """
        ...

    def delete(self, group_id: str, topic_id: bytes, partition: int) -> Completion[None]:
        """Deletes the state. Succeeds if there is none."""
        ...

    def read_summary(
        self, group_id: str, topic_id: bytes, partition: int, leader_epoch: int
    ) -> Completion[PartitionSummary]:
        """Reads the start offset of the share-partition, in any leader epoch; it fences no leader."""
        ...
