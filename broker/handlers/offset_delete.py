"""OffsetDelete (key 47): delete a group's offsets of topics to which it is not subscribed (KIP-496)."""

from collections.abc import Sequence
from typing import Final

from broker.coordinator.runtime.completion import Completion
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, hold_next_request
from broker.wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AclOperation, ResourceType

# Partitions of a topic whose offsets are deleted by one decision.
_PORTION_MAX: Final = 100


def offset_delete(context: BrokerContext, request: OffsetDeleteRequest) -> Work[OffsetDeleteResponse]:
    """Deletes the offsets in portions, each by one decision.

    The first decision is about the group alone, which is checked even if none of the partitions exists.
    """
    if not context.allows(AclOperation.DELETE, ResourceType.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    yield from hold_next_request()
    permitted = yield from context.services.groups.offset_delete(request.group_id, ())
    if isinstance(permitted, KafkaError):
        return OffsetDeleteResponse(error_code=permitted.code)
    response = OffsetDeleteResponse()
    for topic in request.topics:
        answer = OffsetDeleteResponseTopic(name=topic.name)
        response.topics.append(answer)
        for first in range(0, len(topic.partitions), _PORTION_MAX):
            yield None
            indexes = [each.partition_index for each in topic.partitions[first : first + _PORTION_MAX]]
            portion = _Portion(context, topic.name, indexes)
            completion = portion.delete(context, request.group_id)
            if completion is not None:
                outcome = yield from completion
                if isinstance(outcome, KafkaError):
                    return OffsetDeleteResponse(error_code=outcome.code)
                portion.set_error_codes(outcome)
            answer.partitions += portion.responses
    return response


class _Portion:
    """Partitions of one topic, and their part of the response. `_deleting` has those of the partitions that exist."""

    def __init__(self, context: BrokerContext, topic: str, indexes: Sequence[int]) -> None:
        image = context.services.loader.image.topics.by_name.get(topic)
        self._topic = topic
        self._deleting: list[OffsetDeleteResponsePartition] = []
        self.responses: list[OffsetDeleteResponsePartition] = []
        is_allowed = context.allows(AclOperation.READ, ResourceType.TOPIC, topic)
        for index in indexes:
            answer = OffsetDeleteResponsePartition(partition_index=index)
            self.responses.append(answer)
            if not is_allowed:
                answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif image is not None and index in image.partitions:
                self._deleting.append(answer)
            else:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def delete(self, context: BrokerContext, group_id: str) -> Completion[list[ErrorCode]] | None:
        """Delete the offsets of the partitions that exist; None if there are none."""
        if not self._deleting:
            return None
        partitions = [(self._topic, answer.partition_index) for answer in self._deleting]
        return context.services.groups.offset_delete(group_id, partitions)

    def set_error_codes(self, codes: list[ErrorCode]) -> None:
        for answer, code in zip(self._deleting, codes, strict=True):
            answer.error_code = code


HANDLER = Handler(OffsetDeleteRequest, offset_delete, request_bytes_max=REQUEST_BYTES_MAX // 4)
