"""ListOffsets (key 2): the earliest, latest or a timestamp's offset of partitions.

Special timestamps: -1 latest, -2 earliest, -3 the record of the largest timestamp (KIP-734, from version 7), and the
tiered storage ones: -4 earliest local (from 8), -5 latest tiered (from 9) and -6 earliest pending upload (from 11,
KIP-1023). There is no tiered storage: all records are local, and -5 and -6 return offset -1.

The latest offset is the log's end for followers and debugging clients, and the end of committed records for consumers.
Debugging clients may ask any replica.
"""

from typing import Final

from broker.handlers.fetch.policies import DEBUGGING_REPLICA_ID
from broker.replication.partition import Partition
from broker.server.context import BrokerContext
from broker.server.handler import Handler
from broker.server.slices import Steps
from broker.storage.timestamp_search import find_max_timestamp, search_timestamp
from broker.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AclOperation, ResourceType

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

_NEEDED_VERSION: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_OF_TIERED_STORAGE: Final = (LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
_NEVER: Final = 1 << 15
_UNKNOWN: Final = -1
_CONSUMER_REPLICA_ID: Final = -1
_STEP_PARTITIONS: Final = 16
_OFFSET_NOT_AVAILABLE_FROM: Final = 5


def list_offsets(context: BrokerContext, request: ListOffsetsRequest) -> Steps[ListOffsetsResponse]:
    partitions = context.services.partitions
    partitions.commit_staged()
    asked_before: set[tuple[str, int]] = set()
    repeated: set[tuple[str, int]] = set()
    for topic in request.topics:
        for requested in topic.partitions:
            key = (topic.name, requested.partition_index)
            (repeated if key in asked_before else asked_before).add(key)
            if not requested.partition_index % _STEP_PARTITIONS:
                yield
    topics: dict[str, ListOffsetsTopicResponse] = {}
    for topic in request.topics:
        answer = topics.setdefault(topic.name, ListOffsetsTopicResponse(name=topic.name))
        is_allowed = context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name)
        for number, requested in enumerate(topic.partitions):
            key = (topic.name, requested.partition_index)
            if key in asked_before:
                asked_before.remove(key)  # the response has one entry per partition
                refusal = _refusal(is_allowed, key in repeated)
                answer.partitions.append((yield from _answer(context, request, topic.name, requested, refusal)))
            if number % _STEP_PARTITIONS == _STEP_PARTITIONS - 1:
                yield
        yield
    return ListOffsetsResponse(topics=list(topics.values()))


def _refusal(is_allowed: bool, is_repeated: bool) -> KafkaError | None:
    if not is_allowed:
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if is_repeated:
        return KafkaError(ErrorCode.INVALID_REQUEST, "the partition is asked for more than once")
    return None


def _answer(
    context: BrokerContext,
    request: ListOffsetsRequest,
    topic_name: str,
    requested: ListOffsetsPartition,
    refusal: KafkaError | None,
) -> Steps[ListOffsetsPartitionResponse]:
    try:
        if refusal is not None:
            raise refusal
        return (yield from _list_one(context, request, topic_name, requested))
    except KafkaError as error:
        return ListOffsetsPartitionResponse(
            partition_index=requested.partition_index,
            error_code=error.code,
            timestamp=_UNKNOWN,
            offset=_UNKNOWN,
            leader_epoch=_UNKNOWN,
        )


def _list_one(
    context: BrokerContext, request: ListOffsetsRequest, topic_name: str, requested: ListOffsetsPartition
) -> Steps[ListOffsetsPartitionResponse]:
    if requested.timestamp < 0 and context.api_version < _NEEDED_VERSION.get(requested.timestamp, _NEVER):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {requested.timestamp} needs a later version")
    partition = context.services.partitions.get(topic_name, requested.partition_index)
    is_debugging = request.replica_id == DEBUGGING_REPLICA_ID
    is_consumer = request.replica_id == _CONSUMER_REPLICA_ID
    log = (partition.readable_log if is_debugging else partition.leader_log)(requested.current_leader_epoch)
    end = partition.commit_state.end_for(log, request.isolation_level) if is_consumer else log.readable_end_offset
    timestamp, offset, epoch = _UNKNOWN, _UNKNOWN, _UNKNOWN
    if requested.timestamp == LATEST:
        if is_consumer:
            _check_available(context, partition)
        offset, epoch = end, partition.leader_epoch
    elif requested.timestamp in (EARLIEST, EARLIEST_LOCAL):
        offset = log.log_start_offset
        epoch = log.epochs.epoch_for_offset(offset)
    elif requested.timestamp not in _OF_TIERED_STORAGE:
        if requested.timestamp == MAX_TIMESTAMP:
            found = find_max_timestamp(log)
        else:
            found = yield from search_timestamp(log, requested.timestamp)
        if found is not None and found.offset < end:
            timestamp, offset, epoch = found.timestamp, found.offset, found.leader_epoch
        elif found is not None and is_consumer:
            _check_available(context, partition)
    return ListOffsetsPartitionResponse(
        partition_index=partition.index, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


def _check_available(context: BrokerContext, partition: Partition) -> None:
    """Raises KafkaError while a new leader does not know the high watermark yet (KIP-207).

    It could return an earlier offset than its predecessor did. The error is OFFSET_NOT_AVAILABLE, or, for versions that
    do not know it, another one after which clients retry.
    """
    if not partition.role.knows_committed:
        is_known = context.api_version >= _OFFSET_NOT_AVAILABLE_FROM
        code = ErrorCode.OFFSET_NOT_AVAILABLE if is_known else ErrorCode.LEADER_NOT_AVAILABLE
        raise KafkaError(code, f"the high watermark of {partition} is below the start of its leader epoch")


HANDLER = Handler(ListOffsetsRequest, list_offsets)
