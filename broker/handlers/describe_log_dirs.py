"""DescribeLogDirs (key 35): log directories, sizes of partitions, and space on volumes (KIP-113, KIP-827).

A directory counts as cordoned (KIP-1066) once the controllers know it, that is, once it gets no new replicas.
"""

from typing import Final

from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.slices import STEP_ITEMS, Steps
from broker.storage.log_dir_usage import LogDirUsage, usage_of_directories
from broker.wire.api.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsDamage,
    DescribeLogDirsFile,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AclOperation

_STEP_PARTITIONS: Final = 512
# The damaged replicas that a response names for each directory.
_DAMAGE_MAX: Final = 1000


def describe_log_dirs(context: BrokerContext, request: DescribeLogDirsRequest) -> Steps[DescribeLogDirsResponse]:
    context.services.partitions.commit_staged()
    wanted = None if request.topics is None else (yield from _wanted(request.topics))
    results = []
    cordoned = _cordoned_paths(context)
    for usage in usage_of_directories(context.services.log_manager, context.services.env.disk):
        result = yield from _result(usage, wanted)
        result.is_cordoned = usage.path in cordoned
        result.damage = _damage(context, usage.path, wanted)
        results.append(result)
    if results:
        # The directory of the metadata log may be none of these, so all of its files are in the first result.
        unrepaired = context.services.scrub_statistics.unrepaired
        results[0].unrepaired_files = [
            DescribeLogDirsFile(path=path, problem=problem) for path, problem in unrepaired.items()
        ]
        results[0].clock_ms = context.services.now_ms()
    return DescribeLogDirsResponse(results=results)


def _wanted(topics: list[DescribableLogDirTopic]) -> Steps[set[tuple[str, int]]]:
    wanted: set[tuple[str, int]] = set()
    for number, topic in enumerate(topics):
        for first in range(0, len(topic.partitions), _STEP_PARTITIONS):
            wanted.update((topic.topic, index) for index in topic.partitions[first : first + _STEP_PARTITIONS])
            if first:
                yield
        if not number % STEP_ITEMS:
            yield
    return wanted


def _cordoned_paths(context: BrokerContext) -> list[str]:
    services = context.services
    broker = services.loader.image.cluster.brokers.get(services.config.node_id)
    known = () if broker is None else broker.cordoned_log_dirs
    return [path for path, each in services.log_manager.directories.items() if each.directory_id in known]


def _damage(context: BrokerContext, path: str, wanted: set[tuple[str, int]] | None) -> list[DescribeLogDirsDamage]:
    """The damage of the replicas in the directory `path`."""
    found: list[DescribeLogDirsDamage] = []
    for partition, replica in context.services.partitions.damaged.replicas.items():
        is_wanted = wanted is None or (partition.topic, partition.index) in wanted
        if is_wanted and len(found) < _DAMAGE_MAX and replica.log.directory.rpartition("/")[0] == path:
            damage = replica.first
            found.append(
                DescribeLogDirsDamage(
                    topic=partition.topic,
                    partition_index=partition.index,
                    first_offset=damage.first_offset,
                    end_offset=damage.end_offset,
                    path=damage.file,
                    cause=damage.cause,
                    remedy=replica.remedy + (f" (the last attempt: {replica.failure})" if replica.failure else ""),
                )
            )
    return found


def _result(usage: LogDirUsage, wanted: set[tuple[str, int]] | None) -> Steps[DescribeLogDirsResult]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for number, key in enumerate(sorted(usage.logs)):
        if number % STEP_ITEMS == STEP_ITEMS - 1:
            yield
        if wanted is None or key in wanted:
            name, index = key
            topic = topics.setdefault(name, DescribeLogDirsTopic(name=name, partitions=[]))
            log = usage.logs[key]
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=index,
                    partition_size=log.size_bytes,
                    offset_lag=log.offset_lag,
                    is_future_key=log.is_future,
                )
            )
    return DescribeLogDirsResult(
        error_code=ErrorCode.NONE if usage.error is None else ErrorCode.KAFKA_STORAGE_ERROR,
        log_dir=usage.path,
        topics=list(topics.values()),
        total_bytes=usage.total_bytes,
        usable_bytes=usage.usable_bytes,
    )


def refused(context: BrokerContext, request: DescribeLogDirsRequest, error: KafkaError) -> DescribeLogDirsResponse:
    """Up to version 2 there is no error for the request: the response has no directories."""
    return DescribeLogDirsResponse(error_code=error.code)


HANDLER = Handler(
    DescribeLogDirsRequest,
    describe_log_dirs,
    request_bytes_max=REQUEST_BYTES_MAX // 4,
    refused=refused,
    operation=AclOperation.DESCRIBE,
)
