"""OffsetCommit (key 8): the group's coordinator stores the offsets.

A group without members accepts commits of any client with generation -1. Members commit with their current generation.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from broker.coordinator.group.offsets.requests import Committer
from broker.handlers.committing_offsets import CommitResponses, CommittingOffsets
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, hold_next_request
from broker.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from broker.wire.errors import ErrorCode
from metadata.protocol import AclOperation, ResourceType

_RESPONSES: Final = CommitResponses(OffsetCommitResponseTopic, OffsetCommitResponsePartition, topic_ids_from=10)
# Partitions that are committed by one decision: some 5 ms. A topic without partitions counts as one.
_PORTION_MAX: Final = 100


def offset_commit(context: BrokerContext, request: OffsetCommitRequest) -> Work[OffsetCommitResponse]:
    """Commits the offsets in portions, each by one decision; offsets of partitions do not depend on each other."""
    if not context.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return OffsetCommitResponse(topics=_RESPONSES.refused(request.topics, ErrorCode.GROUP_AUTHORIZATION_FAILED))
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
        _add_to(response, portion.topics)
    return response


def _is_one_portion(topics: Sequence[OffsetCommitRequestTopic]) -> bool:
    return len(topics) <= _PORTION_MAX and sum([max(len(topic.partitions), 1) for topic in topics]) <= _PORTION_MAX


def _portions(context: BrokerContext, request: OffsetCommitRequest) -> Iterator[CommittingOffsets]:
    portion = CommittingOffsets(context, _RESPONSES)
    for topic in request.topics:
        count = max(len(topic.partitions), 1)
        if portion.size + count <= _PORTION_MAX:
            portion.add(topic, topic.partitions)
            continue
        for first in range(0, count, _PORTION_MAX):
            if portion.size:
                yield portion
                portion = CommittingOffsets(context, _RESPONSES)
            portion.add(topic, topic.partitions[first : first + _PORTION_MAX])
    yield portion


def _add_to(response: OffsetCommitResponse, topics: list[OffsetCommitResponseTopic]) -> None:
    """Add the topics of a portion; the first one may have begun in an earlier portion."""
    if response.topics and topics:
        last, first = response.topics[-1], topics[0]
        if (last.name, last.topic_id) == (first.name, first.topic_id):
            last.partitions += first.partitions
            topics = topics[1:]
    response.topics += topics


# 20,000 partitions with metadata of 100 bytes.
HANDLER = Handler(OffsetCommitRequest, offset_commit, request_bytes_max=4 * REQUEST_BYTES_MAX)
