"""AlterReplicaLogDirs (key 34): moves replicas of this broker between its log directories (KIP-113).

A response says that the moves have begun; DescribeLogDirs shows them. A replica that is not on this broker yet is
answered with REPLICA_NOT_AVAILABLE, and is created in the directory when it is assigned to this broker.
"""

from typing import Final

from broker.handlers.response_errors import code_of
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.slices import Steps
from broker.wire.api.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AclOperation

# Moves that are begun in one step. Each creates a few files.
_STEP_MOVES: Final = 4
_STEP_PARTITIONS: Final = 512


def alter_replica_log_dirs(
    context: BrokerContext, request: AlterReplicaLogDirsRequest
) -> Steps[AlterReplicaLogDirsResponse]:
    wanted = yield from _wanted(request)
    codes: dict[tuple[str, int], int] = {}
    for number, (key, destination) in enumerate(wanted.items()):
        if number % _STEP_MOVES == 0:
            yield
        codes[key] = _move(context, key, destination)
    return (yield from _response(codes))


def _wanted(request: AlterReplicaLogDirsRequest) -> Steps[dict[tuple[str, int], str]]:
    """The directory of each partition. As in Kafka, the last one counts if there are several."""
    wanted: dict[tuple[str, int], str] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for first in range(0, len(topic.partitions), _STEP_PARTITIONS):
                for index in topic.partitions[first : first + _STEP_PARTITIONS]:
                    wanted[topic.name, index] = directory.path
                yield
    return wanted


def _move(context: BrokerContext, key: tuple[str, int], destination: str) -> int:
    partitions = context.services.partitions
    try:
        directory = partitions.moves.check(key, destination)
        partition = partitions.find(*key)
        if partition is None:
            partitions.moves.choose_destination(key, destination)
            raise partitions.absent(*key)
        partitions.moves.begin(partition, directory)
    except KafkaError as error:
        # Clients of Kafka expect this code.
        is_elsewhere = error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.REPLICA_NOT_AVAILABLE if is_elsewhere else code_of(error)
    return ErrorCode.NONE


def _response(codes: dict[tuple[str, int], int]) -> Steps[AlterReplicaLogDirsResponse]:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for number, ((name, index), code) in enumerate(codes.items()):
        if number % _STEP_PARTITIONS == _STEP_PARTITIONS - 1:
            yield
        topic = topics.setdefault(name, AlterReplicaLogDirTopicResult(topic_name=name, partitions=[]))
        topic.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def refused(
    context: BrokerContext, request: AlterReplicaLogDirsRequest, error: KafkaError
) -> Steps[AlterReplicaLogDirsResponse]:
    """There is no error for the request: each partition gets it."""
    wanted = yield from _wanted(request)
    return (yield from _response(dict.fromkeys(wanted, code_of(error))))


HANDLER = Handler(
    AlterReplicaLogDirsRequest,
    alter_replica_log_dirs,
    request_bytes_max=REQUEST_BYTES_MAX // 4,
    refused=refused,
    operation=AclOperation.ALTER,
)
