"""OffsetDelete (key 47): delete a group's offsets of topics to which it is not subscribed (KIP-496)."""

from collections.abc import Sequence
from typing import Final

from broker.coordinator.runtime.completion import Completion
from broker.server.context import RequestContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from broker.wire.errors import ErrorCode, KafkaError

# Partitions of a topic whose offsets are deleted by one decision.
_FEW: Final = 100


def offset_delete(context: RequestContext, request: OffsetDeleteRequest) -> Work[OffsetDeleteResponse]:
    """Deletes portions of the offsets by one decision each.

    The first decision is about the group alone, which is checked even if none of the partitions exists.
    """
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    yield None
    permitted = yield from context.services.groups.offset_delete(request.group_id, ())
    if isinstance(permitted, KafkaError):
        return OffsetDeleteResponse(error_code=permitted.code)
    response = OffsetDeleteResponse()
    for topic in request.topics:
        answer = OffsetDeleteResponseTopic(name=topic.name)
        response.topics.append(answer)
        for first in range(0, len(topic.partitions), _FEW):
            yield None
            indexes = [each.partition_index for each in topic.partitions[first : first + _FEW]]
            portion = _Portion(context, topic.name, indexes)
            completion = portion.begin(context, request.group_id)
            if completion is not None:
                outcome = yield from completion
                if isinstance(outcome, KafkaError):
                    return OffsetDeleteResponse(error_code=outcome.code)
                portion.settle(outcome)
            answer.partitions += portion.answers
    return response


class _Portion:
    """Partitions of one topic and their responses; existing partitions wait for a decision."""

    def __init__(self, context: RequestContext, topic: str, indexes: Sequence[int]) -> None:
        image = context.services.loader.image.topics.by_name.get(topic)
        self._topic = topic
        self._waiting: list[OffsetDeleteResponsePartition] = []
        self.answers: list[OffsetDeleteResponsePartition] = []
        for index in indexes:
            answer = OffsetDeleteResponsePartition(partition_index=index)
            self.answers.append(answer)
            if image is not None and index in image.partitions:
                self._waiting.append(answer)
            else:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def begin(self, context: RequestContext, group_id: str) -> Completion[list[ErrorCode]] | None:
        """Start the decision; None if no partition exists."""
        if not self._waiting:
            return None
        partitions = [(self._topic, answer.partition_index) for answer in self._waiting]
        return context.services.groups.offset_delete(group_id, partitions)

    def settle(self, outcome: list[ErrorCode]) -> None:
        for answer, code in zip(self._waiting, outcome, strict=True):
            answer.error_code = code


HANDLER = Handler(OffsetDeleteRequest, offset_delete, request_bytes_max=REQUEST_BYTES_MAX // 4)
