"""DescribeLogDirs (key 35): the log directories, what is in them, and how full their volumes are (KIP-113, KIP-827)."""

from typing import Final

from broker.handlers.handler import Handler, RequestContext
from broker.storage.log_dir import LogDirUsage
from broker.wire.api.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from broker.wire.errors import ErrorCode

_NO_LAG: Final = 0


def describe_log_dirs(context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    context.services.partitions.commit_staged()
    wanted = (
        None
        if request.topics is None
        else {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    )
    return DescribeLogDirsResponse(results=[_result(usage, wanted) for usage in context.services.log_dirs.usage()])


def _result(usage: LogDirUsage, wanted: set[tuple[str, int]] | None) -> DescribeLogDirsResult:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for key in sorted(usage.log_sizes):
        if wanted is None or key in wanted:
            name, index = key
            topic = topics.setdefault(name, DescribeLogDirsTopic(name=name, partitions=[]))
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=index, partition_size=usage.log_sizes[key], offset_lag=_NO_LAG, is_future_key=False
                )
            )
    return DescribeLogDirsResult(
        error_code=ErrorCode.NONE if usage.error is None else ErrorCode.KAFKA_STORAGE_ERROR,
        log_dir=usage.path,
        topics=list(topics.values()),
        total_bytes=usage.total_bytes,
        usable_bytes=usage.usable_bytes,
    )


HANDLER = Handler(api_key=35, min_version=1, max_version=5, immediate=describe_log_dirs)
