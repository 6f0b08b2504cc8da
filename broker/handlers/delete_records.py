"""DeleteRecords (key 21): forget records below an offset by moving the log start offset (KIP-107)."""

from typing import Final

from broker.handlers.handler import Handler, RequestContext
from broker.handlers.topic_names import is_internal
from broker.wire.api.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from broker.wire.errors import ErrorCode, KafkaError

# "Everything that is committed."
HIGH_WATERMARK: Final = -1
_INVALID_LOW_WATERMARK: Final = -1


def delete_records(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    partitions = context.services.partitions
    partitions.commit_staged()
    results = []
    for topic_request in request.topics:
        answers = []
        for asked in topic_request.partitions:
            try:
                low_watermark = _delete(context, topic_request.name, asked.partition_index, asked.offset)
                code = ErrorCode.NONE
            except KafkaError as error:
                low_watermark, code = _INVALID_LOW_WATERMARK, error.code
            answers.append(
                DeleteRecordsPartitionResult(
                    partition_index=asked.partition_index, low_watermark=low_watermark, error_code=code
                )
            )
        results.append(DeleteRecordsTopicResult(name=topic_request.name, partitions=answers))
    return DeleteRecordsResponse(topics=results)


def _delete(context: RequestContext, topic_name: str, index: int, offset: int) -> int:
    partitions = context.services.partitions
    partition = partitions.get(topic_name, index)
    if is_internal(topic_name):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot delete records of internal topic {topic_name}")
    log = partition.leader_log()
    if not log.config.delete_enabled:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{partition} is only compacted, its records cannot be deleted")
    if offset == HIGH_WATERMARK:
        offset = partition.high_watermark
    if not 0 <= offset <= partition.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is beyond the high watermark of {partition}")
    try:
        log.advance_log_start_offset(offset)
    except OSError as error:
        partitions.log_failed(partition, error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: {error}") from error
    return log.log_start_offset


HANDLER = Handler(api_key=21, min_version=0, max_version=2, immediate=delete_records)
