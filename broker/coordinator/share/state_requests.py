"""The requests of the state client: carried out by the share coordinator of this broker, or as messages to another."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Protocol

from broker.coordinator.runtime.completion import Completion
from broker.coordinator.share.coordinator import ShareCoordinator
from broker.coordinator.share.record_formats import state_batches
from broker.coordinator.share.requests import Write
from broker.coordinator.share.share_state import PartitionState, PartitionSummary, SharePartitionKey
from broker.wire.api import APIS
from kraft import lazy_attrs

# The most bytes of a share-partition besides its batches, and of a batch, in a request.
_PARTITION_BYTES: Final = 64
_BATCH_BYTES: Final = 24


class StateRequest(Protocol):
    """A request about one share-partition. Those of one kind and one group can be sent in one message.

    The message is of the API `api_key`, in a `version` that all brokers of this project serve. Its classes are imported
    when the first one is sent.
    """

    api_key: ClassVar[int]
    version: ClassVar[int]

    @property
    def key(self) -> SharePartitionKey: ...
    @property
    def size_bytes(self) -> int:
        """The most bytes that the request takes in a message."""
        ...

    def carry_out(self, coordinator: ShareCoordinator) -> Completion[Any]:
        """Has the share coordinator of this broker carry the request out."""
        ...

    def fields(self) -> dict[str, Any]:
        """The fields of the request's partition in a message, besides its index."""
        ...

    def value(self, result: Any) -> Any:
        """The value of a partition's result without an error."""
        ...


@lazy_attrs.frozen
class InitializeState:
    """InitializeShareGroupState."""

    api_key: ClassVar[int] = 83
    version: ClassVar[int] = 0
    key: SharePartitionKey
    state_epoch: int
    start_offset: int
    size_bytes: int = _PARTITION_BYTES

    def carry_out(self, coordinator: ShareCoordinator) -> Completion[None]:
        return coordinator.initialize(self.key, self.state_epoch, self.start_offset)

    def fields(self) -> dict[str, Any]:
        return {"state_epoch": self.state_epoch, "start_offset": self.start_offset}

    def value(self, result: Any) -> None:
        return None


@lazy_attrs.frozen
class ReadState:
    """ReadShareGroupState."""

    api_key: ClassVar[int] = 84
    version: ClassVar[int] = 0
    key: SharePartitionKey
    leader_epoch: int
    size_bytes: int = _PARTITION_BYTES

    def carry_out(self, coordinator: ShareCoordinator) -> Completion[PartitionState]:
        return coordinator.read(self.key, self.leader_epoch)

    def fields(self) -> dict[str, Any]:
        return {"leader_epoch": self.leader_epoch}

    def value(self, result: Any) -> PartitionState:
        return PartitionState(result.state_epoch, result.start_offset, state_batches(result.state_batches))


@lazy_attrs.frozen
class WriteState:
    """WriteShareGroupState."""

    api_key: ClassVar[int] = 85
    version: ClassVar[int] = 1
    key: SharePartitionKey
    written: Write

    @property
    def size_bytes(self) -> int:
        return _PARTITION_BYTES + _BATCH_BYTES * len(self.written.batches)

    def carry_out(self, coordinator: ShareCoordinator) -> Completion[None]:
        return coordinator.write(self.key, self.written)

    def fields(self) -> dict[str, Any]:
        written = self.written
        return {
            "state_epoch": written.state_epoch,
            "leader_epoch": written.leader_epoch,
            "start_offset": written.start_offset,
            "delivery_complete_count": written.delivery_complete_count,
            "state_batches": written.batches,
        }

    def value(self, result: Any) -> None:
        return None


@lazy_attrs.frozen
class DeleteState:
    """DeleteShareGroupState."""

    api_key: ClassVar[int] = 86
    version: ClassVar[int] = 0
    key: SharePartitionKey
    size_bytes: int = _PARTITION_BYTES

    def carry_out(self, coordinator: ShareCoordinator) -> Completion[None]:
        return coordinator.delete(self.key)

    def fields(self) -> dict[str, Any]:
        return {}

    def value(self, result: Any) -> None:
        return None


@lazy_attrs.frozen
class ReadSummary:
    """ReadShareGroupStateSummary."""

    api_key: ClassVar[int] = 87
    version: ClassVar[int] = 1
    key: SharePartitionKey
    leader_epoch: int
    size_bytes: int = _PARTITION_BYTES

    def carry_out(self, coordinator: ShareCoordinator) -> Completion[PartitionSummary]:
        return coordinator.read_summary(self.key)

    def fields(self) -> dict[str, Any]:
        return {"leader_epoch": self.leader_epoch}

    def value(self, result: Any) -> PartitionSummary:
        return PartitionSummary(
            result.state_epoch, result.leader_epoch, result.start_offset, result.delivery_complete_count
        )


def as_message(requests: Sequence[StateRequest]) -> Any:
    """The message with these requests, which are of one kind and one group, and about different share-partitions."""
    message: Any = APIS[requests[0].api_key].request
    topic = _element(message, "topics")
    partition = _element(topic, "partitions")
    by_topic: dict[bytes, list[Any]] = {}
    for each in requests:
        asked = partition(partition=each.key.partition, **each.fields())
        by_topic.setdefault(each.key.topic_id, []).append(asked)
    topics = [topic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in by_topic.items()]
    return message(group_id=requests[0].key.group_id, topics=topics)


def _element(struct: Any, field: str) -> Any:
    """The class of the elements of an array in a message."""
    return next(spec.type[0] for spec in struct.__fields__ if spec.name == field)


def results_of(response: Any) -> dict[tuple[bytes, int], Any]:
    """The results of a response, by topic id and partition."""
    return {(topic.topic_id, result.partition): result for topic in response.results for result in topic.partitions}
