"""Metadata (key 3): the addresses of brokers and the leaders of partitions; may create topics.

Flexible from 9. Notable versions:
    0  an empty list of topics asks for all; from 1 on null does, and an empty list asks for none
    4  allow_auto_topic_creation
    7  leader epochs
    8  authorized operations on request (KIP-430); those of the cluster until 10
    10 the response has topic ids; requests may have them from 12 (KIP-516)
    13 an error code for the whole response (KIP-1102)
"""

from broker.wire.schema import field, request, response, struct
from broker.wire.uuids import ZERO_UUID


@struct
class MetadataRequestTopic:
    topic_id: bytes = field("uuid", "10+", default=ZERO_UUID)
    name: str | None = field("string", "0+", default="", nullable="10+")


@request(key=3, versions="0-13", flexible="9+")
class MetadataRequest:
    """`topics` is None when all are asked for."""

    topics: list[MetadataRequestTopic] | None = field([MetadataRequestTopic], "0+", factory=list, nullable="1+")
    allow_auto_topic_creation: bool = field("bool", "4+", default=True)
    include_cluster_authorized_operations: bool = field("bool", "8-10", default=False)
    include_topic_authorized_operations: bool = field("bool", "8+", default=False)


@struct
class MetadataResponseBroker:
    node_id: int = field("int32", "0+", default=0)
    host: str = field("string", "0+", default="")
    port: int = field("int32", "0+", default=0)
    rack: str | None = field("string", "1+", default=None, nullable="1+")


@struct
class MetadataResponsePartition:
    error_code: int = field("int16", "0+", default=0)
    partition_index: int = field("int32", "0+", default=0)
    leader_id: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "7+", default=-1)
    replica_nodes: list[int] = field(["int32"], "0+", factory=list)
    isr_nodes: list[int] = field(["int32"], "0+", factory=list)
    offline_replicas: list[int] = field(["int32"], "5+", factory=list)


@struct
class MetadataResponseTopic:
    error_code: int = field("int16", "0+", default=0)
    name: str | None = field("string", "0+", default="", nullable="12+")
    topic_id: bytes = field("uuid", "10+", default=ZERO_UUID)
    is_internal: bool = field("bool", "1+", default=False)
    partitions: list[MetadataResponsePartition] = field([MetadataResponsePartition], "0+", factory=list)
    topic_authorized_operations: int = field("int32", "8+", default=-2147483648)


@response(key=3, versions="0-13", flexible="9+")
class MetadataResponse:
    throttle_time_ms: int = field("int32", "3+", default=0)
    brokers: list[MetadataResponseBroker] = field([MetadataResponseBroker], "0+", factory=list)
    cluster_id: str | None = field("string", "2+", default=None, nullable="2+")
    controller_id: int = field("int32", "1+", default=-1)
    topics: list[MetadataResponseTopic] = field([MetadataResponseTopic], "0+", factory=list, pre_encoded=True)
    cluster_authorized_operations: int = field("int32", "8-10", default=-2147483648)
    error_code: int = field("int16", "13+", default=0)
