"""AssignReplicasToDirs (key 73): a broker reports the log directories of its replicas (KIP-858)."""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class Partition:
    partition_index: int = field("int32", "0+", default=0)


@struct
class Topic:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[Partition] = field([Partition], "0+", factory=list)


@struct
class Directory:
    id_: bytes = field("uuid", "0+", default=ZERO_UUID)
    topics: list[Topic] = field([Topic], "0+", factory=list)


@request(key=73, versions="0", flexible="0+")
class AssignReplicasToDirsRequest:
    broker_id: int = field("int32", "0+", default=0)
    broker_epoch: int = field("int64", "0+", default=-1)
    directories: list[Directory] = field([Directory], "0+", factory=list)


@struct
class PartitionResult:
    partition_index: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)


@struct
class TopicResult:
    topic_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[PartitionResult] = field([PartitionResult], "0+", factory=list)


@struct
class DirectoryResult:
    id_: bytes = field("uuid", "0+", default=ZERO_UUID)
    topics: list[TopicResult] = field([TopicResult], "0+", factory=list)


@response(key=73, versions="0", flexible="0+")
class AssignReplicasToDirsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    directories: list[DirectoryResult] = field([DirectoryResult], "0+", factory=list)
