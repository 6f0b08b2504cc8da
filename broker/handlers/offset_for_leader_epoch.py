"""OffsetForLeaderEpoch (key 23): the end offset of a leader epoch, to find where a log diverged (KIP-101, KIP-320)."""

from broker.handlers.authorization import check
from broker.replication.partition import Partition
from broker.server.context import BrokerContext
from broker.server.handler import Handler
from broker.server.slices import STEP_ITEMS, Steps
from broker.wire.api.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from broker.wire.errors import KafkaError
from metadata.protocol import AclOperation, ResourceType


def offset_for_leader_epoch(
    context: BrokerContext, request: OffsetForLeaderEpochRequest
) -> Steps[OffsetForLeaderEpochResponse]:
    partitions = context.services.partitions
    partitions.commit_staged()
    is_follower = context.allows_cluster(AclOperation.CLUSTER_ACTION, is_tried=False)
    results = []
    for topic_request in request.topics:
        answers: list[EpochEndOffset] = []
        yield
        for requested in topic_request.partitions:
            if len(answers) % STEP_ITEMS == STEP_ITEMS - 1:
                yield
            try:
                if not is_follower:
                    check(context, AclOperation.DESCRIBE, ResourceType.TOPIC, topic_request.topic)
                answers.append(_end_offset(partitions.get(topic_request.topic, requested.partition), requested))
            except KafkaError as error:
                answers.append(EpochEndOffset(partition=requested.partition, error_code=error.code))
        results.append(OffsetForLeaderTopicResult(topic=topic_request.topic, partitions=answers))
    return OffsetForLeaderEpochResponse(topics=results)


def _end_offset(partition: Partition, requested: OffsetForLeaderPartition) -> EpochEndOffset:
    log = partition.leader_log(requested.current_leader_epoch)
    epoch, end_offset = log.epochs.end_offset_for(requested.leader_epoch, log.log_end_offset)
    return EpochEndOffset(partition=partition.index, leader_epoch=epoch, end_offset=end_offset)


HANDLER = Handler(OffsetForLeaderEpochRequest, offset_for_leader_epoch)
