"""DeleteRecords (key 21): delete records below an offset by advancing the log start offset (KIP-107)."""

from typing import Final

from broker.handlers.authorization import check
from broker.handlers.delete_records.deletion_wait import INVALID_LOW_WATERMARK, Deletion, DeletionWait
from broker.handlers.topic_names import is_internal
from broker.replication.partition import Partition
from broker.replication.record_deletion import delete_before
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.wire.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AclOperation, ResourceType

# Stands for the high watermark: delete all committed records.
HIGH_WATERMARK: Final = -1
# Partitions whose records are deleted in one step.
_STEP_PARTITIONS: Final = 16


def delete_records(context: BrokerContext, request: DeleteRecordsRequest) -> Work[DeleteRecordsResponse]:
    partitions = context.services.partitions
    response = DeleteRecordsResponse()
    wait = DeletionWait(partitions.get)
    deleted = 0
    try:
        for topic in request.topics:
            result = DeleteRecordsTopicResult(name=topic.name)
            response.topics.append(result)
            for partition in topic.partitions:
                if not deleted % _STEP_PARTITIONS:
                    if deleted:
                        yield None
                    partitions.commit_staged()
                result.partitions.append(_delete(context, topic.name, partition, wait))
                deleted += 1
        wait.begin(context.services.deadlines, request.timeout_ms)
        yield from wait
    except BaseException:  # the connection was closed, or the handler has a bug
        wait.abandon()
        raise
    return response


def _delete(
    context: BrokerContext, topic_name: str, requested: DeleteRecordsPartition, wait: DeletionWait
) -> DeleteRecordsPartitionResult:
    """Delete records on this broker, and add the deletions that followers have yet to make to `wait`."""
    result = DeleteRecordsPartitionResult(
        partition_index=requested.partition_index, low_watermark=INVALID_LOW_WATERMARK
    )
    try:
        check(context, AclOperation.DELETE, ResourceType.TOPIC, topic_name)
        partition = context.services.partitions.get(topic_name, requested.partition_index)
        if is_internal(topic_name):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot delete records of internal topic {topic_name}")
        deletion = Deletion(partition, _delete_here(context, partition, requested.offset), result)
        if not deletion.update_result(context.services.partitions.get):
            wait.add(deletion)
    except KafkaError as error:
        result.error_code = error.code
    return result


def _delete_here(context: BrokerContext, partition: Partition, offset: int) -> int:
    """Delete the records on this broker; returns the new log start offset."""
    log = partition.leader_log()
    if not log.config.delete_enabled:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{partition} is only compacted, its records cannot be deleted")
    if offset == HIGH_WATERMARK:
        offset = partition.high_watermark
    try:
        delete_before(partition, log, offset)
    except OSError as error:
        context.services.partitions.log_failed(partition, error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: {error}") from error
    return offset


# Some 3,000 partitions.
HANDLER = Handler(DeleteRecordsRequest, delete_records, request_bytes_max=REQUEST_BYTES_MAX // 8, in_turns=True)
