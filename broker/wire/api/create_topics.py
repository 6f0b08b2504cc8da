"""CreateTopics (key 19): create topics.

Flexible from 5. Notable versions:
    4  -1 for partitions and replication factor takes the broker's defaults (KIP-464)
    5  the response has the partition count, replication factor and configs (KIP-525)
    6  may answer THROTTLING_QUOTA_EXCEEDED (KIP-599)
    7  the response has the topic id (KIP-516)
"""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class CreatableReplicaAssignment:
    partition_index: int = field("int32", "0+", default=0)
    broker_ids: list[int] = field(["int32"], "0+", factory=list)


@struct
class CreatableTopicConfig:
    name: str = field("string", "0+", default="")
    value: str | None = field("string", "0+", default="", nullable="0+")


@struct
class CreatableTopic:
    """`num_partitions` and `replication_factor` are -1 with manual assignments, or to take the defaults."""

    name: str = field("string", "0+", default="")
    num_partitions: int = field("int32", "0+", default=0)
    replication_factor: int = field("int16", "0+", default=0)
    assignments: list[CreatableReplicaAssignment] = field([CreatableReplicaAssignment], "0+", factory=list)
    configs: list[CreatableTopicConfig] = field([CreatableTopicConfig], "0+", factory=list)


@request(key=19, versions="2-7", flexible="5+")
class CreateTopicsRequest:
    """With `validate_only` nothing is created, but everything is checked."""

    topics: list[CreatableTopic] = field([CreatableTopic], "0+", factory=list)
    timeout_ms: int = field("int32", "0+", default=60000)
    validate_only: bool = field("bool", "1+", default=False)


@struct
class CreatableTopicConfigs:
    name: str = field("string", "5+", default="")
    value: str | None = field("string", "5+", default="", nullable="5+")
    read_only: bool = field("bool", "5+", default=False)
    config_source: int = field("int8", "5+", default=-1)
    is_sensitive: bool = field("bool", "5+", default=False)


@struct
class CreatableTopicResult:
    name: str = field("string", "0+", default="")
    topic_id: bytes = field("uuid", "7+", default=ZERO_UUID)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "1+", default="", nullable="0+")
    topic_config_error_code: int = field("int16", "5+", default=0, tag=0, tagged="5+")
    num_partitions: int = field("int32", "5+", default=-1)
    replication_factor: int = field("int16", "5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = field([CreatableTopicConfigs], "5+", factory=list, nullable="5+")


@response(key=19, versions="2-7", flexible="5+")
class CreateTopicsResponse:
    throttle_time_ms: int = field("int32", "2+", default=0)
    topics: list[CreatableTopicResult] = field([CreatableTopicResult], "0+", factory=list)
