"""The requests of the state client: carried out by the share coordinator of this broker, or as messages to another."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Protocol, TypeAlias

from broker.coordinator.runtime.completion import Completion
from broker.coordinator.share.coordinator import ShareCoordinator
from broker.coordinator.share.record_formats import state_batches
from broker.coordinator.share.requests import Write
from broker.coordinator.share.share_state import PartitionState, PartitionSummary, SharePartitionKey
from broker.wire.api import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from kraft import lazy_attrs

# The classes of a message, of its topics and of their partitions.
Messages: TypeAlias = tuple[type[Any], type[Any], type[Any]]

# The most bytes of a share-partition besides its batches, and of a batch, in a request.
_PARTITION_BYTES: Final = 64
_BATCH_BYTES: Final = 24


class StateRequest(Protocol):
    """A request about one share-partition. Those of one kind and one group can be sent in one message.

    `version` is the version of the message; all brokers of this project serve it.
    """

    version: ClassVar[int]
    messages: ClassVar[Messages]

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

    version: ClassVar[int] = 0
    messages: ClassVar[Messages] = (
        initialize_share_group_state.InitializeShareGroupStateRequest,
        initialize_share_group_state.InitializeStateData,
        initialize_share_group_state.PartitionData,
    )
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

    version: ClassVar[int] = 0
    messages: ClassVar[Messages] = (
        read_share_group_state.ReadShareGroupStateRequest,
        read_share_group_state.ReadStateData,
        read_share_group_state.PartitionData,
    )
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

    version: ClassVar[int] = 1
    messages: ClassVar[Messages] = (
        write_share_group_state.WriteShareGroupStateRequest,
        write_share_group_state.WriteStateData,
        write_share_group_state.PartitionData,
    )
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
            "state_batches": [write_share_group_state.StateBatch(**each._asdict()) for each in written.batches],
        }

    def value(self, result: Any) -> None:
        return None


@lazy_attrs.frozen
class DeleteState:
    """DeleteShareGroupState."""

    version: ClassVar[int] = 0
    messages: ClassVar[Messages] = (
        delete_share_group_state.DeleteShareGroupStateRequest,
        delete_share_group_state.DeleteStateData,
        delete_share_group_state.PartitionData,
    )
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

    version: ClassVar[int] = 1
    messages: ClassVar[Messages] = (
        read_share_group_state_summary.ReadShareGroupStateSummaryRequest,
        read_share_group_state_summary.ReadStateSummaryData,
        read_share_group_state_summary.PartitionData,
    )
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
    message, topic, partition = requests[0].messages
    by_topic: dict[bytes, list[Any]] = {}
    for each in requests:
        asked = partition(partition=each.key.partition, **each.fields())
        by_topic.setdefault(each.key.topic_id, []).append(asked)
    topics = [topic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in by_topic.items()]
    return message(group_id=requests[0].key.group_id, topics=topics)


def results_of(response: Any) -> dict[tuple[bytes, int], Any]:
    """The results of a response, by topic id and partition."""
    return {(topic.topic_id, result.partition): result for topic in response.results for result in topic.partitions}
