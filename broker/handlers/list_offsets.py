"""ListOffsets (key 2): the earliest, latest or a timestamp's offset of partitions.

Special timestamps: -1 latest, -2 earliest, -3 the record of the largest timestamp (KIP-734, from version 7), and the
tiered storage ones: -4 earliest local (from 8) and -5 latest tiered (from 9). Without tiered storage all is local.
"""

from collections import Counter
from typing import Final

from broker.handlers.handler import Handler, RequestContext
from broker.replication.partition import Partition
from broker.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from broker.wire.errors import ErrorCode, KafkaError

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5

_NEEDED_VERSION: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
_UNKNOWN: Final = -1


def list_offsets(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    partitions = context.services.partitions
    partitions.commit_staged()
    responses = []
    for topic_request in request.topics:
        times_asked = Counter(partition.partition_index for partition in topic_request.partitions)
        topic = partitions.topic(topic_request.name)
        answers = []
        for asked in topic_request.partitions:
            try:
                if times_asked[asked.partition_index] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "the partition is asked for more than once")
                partition = None if topic is None else topic.partitions.get(asked.partition_index)
                if partition is None:
                    raise partitions.absent(topic_request.name)
                answers.append(_list_one(context, request, partition, asked))
            except KafkaError as error:
                answers.append(
                    ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index,
                        error_code=error.code,
                        timestamp=_UNKNOWN,
                        offset=_UNKNOWN,
                        leader_epoch=_UNKNOWN,
                    )
                )
        responses.append(ListOffsetsTopicResponse(name=topic_request.name, partitions=answers))
    return ListOffsetsResponse(topics=responses)


def _list_one(
    context: RequestContext, request: ListOffsetsRequest, partition: Partition, asked: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    if asked.timestamp < 0 and context.api_version < _NEEDED_VERSION.get(asked.timestamp, 0):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {asked.timestamp} needs a later version")
    log = partition.leader_log(asked.current_leader_epoch)
    end = partition.end_for(log, request.isolation_level)
    timestamp, offset, epoch = _UNKNOWN, _UNKNOWN, _UNKNOWN
    if asked.timestamp == LATEST:
        offset, epoch = end, partition.leader_epoch
    elif asked.timestamp in (EARLIEST, EARLIEST_LOCAL):
        offset = log.log_start_offset
        epoch = log.epochs.epoch_for_offset(offset)
    elif asked.timestamp != LATEST_TIERED:
        found = (
            log.max_timestamp_offset()
            if asked.timestamp == MAX_TIMESTAMP
            else log.offset_for_timestamp(asked.timestamp, upper_bound=end)
        )
        if found is not None and found.offset < end:
            timestamp, offset, epoch = found.timestamp, found.offset, found.leader_epoch
    return ListOffsetsPartitionResponse(
        partition_index=partition.index, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


HANDLER = Handler(api_key=2, min_version=1, max_version=10, immediate=list_offsets)
