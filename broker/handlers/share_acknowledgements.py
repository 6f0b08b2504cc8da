"""The acknowledgements in ShareFetch and ShareAcknowledge requests, and the refusals of both (KIP-932, KIP-1222)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from broker.coordinator.runtime.completion import Completion, failed, gather
from broker.handlers.authorization import check
from broker.handlers.topic_names import topic_name
from broker.net.completion import Completion as OwnCompletion
from broker.server.context import BrokerContext
from broker.server.slices import Steps
from broker.share_partitions.acknowledgement import AcknowledgementBatch
from broker.share_partitions.share_sessions import PartitionId
from broker.wire.errors import ErrorCode, KafkaError
from metadata.controller import SHARE_VERSION
from metadata.protocol import AcknowledgeType, AclOperation, ResourceType

_NOT_SERVED: Final = "This cluster has no share groups (KIP-932): share.version is 0. Consume with a consumer group."
_RENEWALS_FROM: Final = 2
# The length of a UUID as text, in characters.
_MEMBER_ID_MAX: Final = 36
# Types of acknowledgements that are carried out in one step: up to 5 ms. A batch has one, or one for each offset.
_STEP_TYPES: Final = 256


class RequestedBatch(Protocol):
    """The batch of a request."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


class RequestedPartition(Protocol):
    """The partition of a request."""

    partition_index: int

    @property
    def acknowledgement_batches(self) -> Sequence[RequestedBatch]: ...


class RequestedTopic(Protocol):
    """The topic of a request."""

    topic_id: bytes

    @property
    def partitions(self) -> Sequence[RequestedPartition]: ...


class ShareRequest(Protocol):
    """The fields that ShareFetch and ShareAcknowledge have in common."""

    group_id: str | None
    member_id: str | None
    is_renew_ack: bool

    @property
    def topics(self) -> Sequence[RequestedTopic]: ...


def checked_member(context: BrokerContext, request: ShareRequest) -> tuple[str, str]:
    """The ids of the group and of the member that sends the request. Raises KafkaError if they are refused."""
    if not context.services.loader.image.features.get(SHARE_VERSION, 0):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, _NOT_SERVED)
    if request.group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    check(context, AclOperation.READ, ResourceType.GROUP, request.group_id)
    if not request.member_id or len(request.member_id) > _MEMBER_ID_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return request.group_id, request.member_id


def begin_acknowledgements(
    context: BrokerContext, request: ShareRequest, group_id: str, member_id: str
) -> Steps[Mapping[PartitionId, Completion[None]]]:
    """Carry out the acknowledgements of a request.

    Returns completions by partition, of which each ends with None or an error. An error of one partition leaves the
    others as they are, and all records of the step in which it occurred. The last entry for a partition counts, as in
    Kafka.
    """
    requested: dict[PartitionId, Sequence[RequestedBatch]] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            requested[topic.topic_id, partition.partition_index] = partition.acknowledgement_batches
    results: dict[PartitionId, Completion[None]] = {}
    acknowledge, step_size = context.services.shares.partitions.acknowledge, 0
    for partition_id, batches in requested.items():
        parts: list[Completion[None]] = []
        try:
            name = _topic_name(context, partition_id[0])
            checked = _checked_batches(context, batches, is_renewal=request.is_renew_ack)
            _check_partition(context, name, partition_id)
            portions = _portions(checked)
        except KafkaError as error:
            portions, parts = [], [failed(error)]
        for portion in portions:
            part = acknowledge(group_id, member_id, partition_id, portion)
            parts.append(part)
            if part.done and part.outcome is not None:
                break
            step_size += sum(len(batch.types) for batch in portion)
            if step_size >= _STEP_TYPES:
                step_size = 0
                yield
        results[partition_id] = parts[0] if len(parts) == 1 else _first_error(parts)
    return results


def _first_error(parts: Sequence[Completion[None]]) -> Completion[None]:
    """Completes with the first error of the parts, or None."""
    result: Completion[None] = OwnCompletion()
    gather(parts).then(lambda outcomes: result.complete(next((each for each in outcomes if each is not None), None)))
    return result


def _topic_name(context: BrokerContext, topic_id: bytes) -> str:
    """Raises KafkaError UNKNOWN_TOPIC_ID."""
    name = topic_name(context, topic_id)
    if name is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    return name


def _check_partition(context: BrokerContext, name: str, partition_id: PartitionId) -> None:
    """Raises KafkaError for a topic that the client may not read, and for a partition that does not exist."""
    topic_id, index = partition_id
    check(context, AclOperation.READ, ResourceType.TOPIC, name)
    topic = context.services.loader.image.topics.by_id.get(topic_id)
    if topic is None or index not in topic.partitions:
        message = "This server does not host this topic-partition."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)


def _checked_batches(
    context: BrokerContext, batches: Sequence[RequestedBatch], *, is_renewal: bool
) -> list[AcknowledgementBatch]:
    """The batches for a share-partition.

    Raises KafkaError INVALID_REQUEST unless they are in the order of offsets and their types fit. Renewals need a
    request that says so.
    """
    highest = AcknowledgeType.RENEW if context.api_version >= _RENEWALS_FROM and is_renewal else AcknowledgeType.REJECT
    checked: list[AcknowledgementBatch] = []
    previous = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if not previous <= first <= last or len(types) not in (1, last - first + 1):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The acknowledgement batches are malformed.")
        for kind in (min(types), max(types)):
            # Only one is named: Kafka's clients refuse a message of more than 32 KiB.
            if not AcknowledgeType.GAP <= kind <= highest:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid acknowledge type: {kind}")
        checked.append(AcknowledgementBatch(first, last, types))
        previous = last
    return checked


def _portions(batches: Iterable[AcknowledgementBatch]) -> list[list[AcknowledgementBatch]]:
    """The batches in portions with at most `_STEP_TYPES` types each."""
    portions: list[list[AcknowledgementBatch]] = []
    room = 0
    for first, last, types in batches:
        for at in range(0, len(types), _STEP_TYPES):
            some = types if len(types) <= _STEP_TYPES else types[at : at + _STEP_TYPES]
            if len(some) > room:
                portions.append([])
                room = _STEP_TYPES
            end = last if at + len(some) == len(types) else first + at + len(some) - 1
            portions[-1].append(AcknowledgementBatch(first + at, end, some))
            room -= len(some)
    return portions
