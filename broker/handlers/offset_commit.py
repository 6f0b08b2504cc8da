"""OffsetCommit (key 8): the group's coordinator stores the offsets.

A group without members accepts commits of any client with generation -1. Members commit with their current generation.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from broker.coordinator.group.offsets.requests import Committer, OffsetToCommit
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, hold_next_request
from broker.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.image import TopicImage
from metadata.protocol import AclOperation, ResourceType

_TOPIC_IDS_FROM: Final = 10
# Partitions that are committed by one decision: some 5 ms. A topic without partitions counts as one.
_PORTION_MAX: Final = 100


def offset_commit(context: BrokerContext, request: OffsetCommitRequest) -> Work[OffsetCommitResponse]:
    """Commits the offsets in portions, each by one decision; offsets of partitions do not depend on each other."""
    if not context.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return _refused(request)
    if not _is_one_portion(request.topics):
        yield from hold_next_request()
    committer = Committer(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        context.api_version,
    )
    groups = context.services.groups
    response = OffsetCommitResponse()
    for portion in _portions(context, request):
        if response.topics:
            yield None
        if portion.offsets:
            outcome = yield from groups.offset_commit(committer, portion.offsets, request.retention_time_ms)
            portion.set_error_codes(outcome)
        portion.add_to(response)
    return response


def _refused(request: OffsetCommitRequest) -> OffsetCommitResponse:
    """The response to a client that is not allowed to use the group."""
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _is_one_portion(topics: Sequence[OffsetCommitRequestTopic]) -> bool:
    return len(topics) <= _PORTION_MAX and sum(max(len(topic.partitions), 1) for topic in topics) <= _PORTION_MAX


def _portions(context: BrokerContext, request: OffsetCommitRequest) -> Iterator["_Portion"]:
    portion = _Portion()
    for topic in request.topics:
        count = max(len(topic.partitions), 1)
        if portion.size + count <= _PORTION_MAX:
            portion.add(context, topic, topic.partitions)
            continue
        for first in range(0, count, _PORTION_MAX):
            if portion.size:
                yield portion
                portion = _Portion()
            portion.add(context, topic, topic.partitions[first : first + _PORTION_MAX])
    yield portion


class _Portion:
    """The part of a request that one decision commits: its offsets, and its topics in the response.

    `committing` has the responses of the partitions in `offsets`, in the same order.
    """

    def __init__(self) -> None:
        self.offsets: list[OffsetToCommit] = []
        self.topics: list[OffsetCommitResponseTopic] = []
        self.committing: list[OffsetCommitResponsePartition] = []
        self.size = 0

    def add(
        self,
        context: BrokerContext,
        topic: OffsetCommitRequestTopic,
        partitions: Sequence[OffsetCommitRequestPartition],
    ) -> None:
        """Add some partitions of a topic; partitions that do not exist are refused."""
        image = _topic(context, topic)
        refusal = _refusal(context, topic, image)
        responses = []
        for partition in partitions:
            index = partition.partition_index
            response = OffsetCommitResponsePartition(partition_index=index)
            responses.append(response)
            if image is None or refusal or index not in image.partitions:
                response.error_code = refusal or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            self.offsets.append(
                OffsetToCommit(
                    image.name,
                    topic.topic_id,
                    index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata,
                )
            )
            self.committing.append(response)
        self.topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=responses))
        self.size += max(len(partitions), 1)

    def set_error_codes(self, outcome: list[ErrorCode] | KafkaError) -> None:
        """Set the error codes of `committing` from the outcome of the decision."""
        codes = [outcome.code] * len(self.committing) if isinstance(outcome, KafkaError) else outcome
        for response, code in zip(self.committing, codes, strict=True):
            response.error_code = code

    def add_to(self, response: OffsetCommitResponse) -> None:
        """Add the topics to the response; the first one may have begun in an earlier portion."""
        topics = self.topics
        if response.topics and topics:
            last, first = response.topics[-1], topics[0]
            if (last.name, last.topic_id) == (first.name, first.topic_id):
                last.partitions += first.partitions
                topics = topics[1:]
        response.topics += topics


def _topic(context: BrokerContext, topic: OffsetCommitRequestTopic) -> TopicImage | None:
    topics = context.services.loader.image.topics
    if context.api_version >= _TOPIC_IDS_FROM:
        return topics.by_id.get(topic.topic_id)
    return topics.by_name.get(topic.name)


def _refusal(context: BrokerContext, topic: OffsetCommitRequestTopic, image: TopicImage | None) -> ErrorCode:
    """NONE, or the error for all partitions of a topic. The client of an unknown id learns no more than that."""
    if image is None and context.api_version >= _TOPIC_IDS_FROM:
        return ErrorCode.UNKNOWN_TOPIC_ID
    name = topic.name if image is None else image.name
    if not context.allows(AclOperation.READ, ResourceType.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if image is None else ErrorCode.NONE


# 20,000 partitions with metadata of 100 bytes.
HANDLER = Handler(OffsetCommitRequest, offset_commit, request_bytes_max=4 * REQUEST_BYTES_MAX)
