"""AlterReplicaLogDirs (key 34): moves replicas between the log directories of a broker (KIP-113).

Flexible from 2.
"""

from broker.wire.schema import field, request, response, struct


@struct
class AlterReplicaLogDirTopic:
    name: str = field("string", "0+", default="")
    partitions: list[int] = field(["int32"], "0+", factory=list)


@struct
class AlterReplicaLogDir:
    path: str = field("string", "0+", default="")
    topics: list[AlterReplicaLogDirTopic] = field([AlterReplicaLogDirTopic], "0+", factory=list)


@request(key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    dirs: list[AlterReplicaLogDir] = field([AlterReplicaLogDir], "0+", factory=list)


@struct
class AlterReplicaLogDirPartitionResult:
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: str = field("string", "0+", default="")
    partitions: list[AlterReplicaLogDirPartitionResult] = field([AlterReplicaLogDirPartitionResult], "0+", factory=list)


@response(key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    results: list[AlterReplicaLogDirTopicResult] = field([AlterReplicaLogDirTopicResult], "0+", factory=list)
