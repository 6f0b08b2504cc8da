"""Valid request frames of every API that a node serves, in old and new versions.

Tests mutate them. All name topics and groups of their own, so that a mutated request that succeeds does not change
other data; an unchanged request creates groups, and their topic, at most. kafka-python encodes the requests about
topics and records, and this project's codec the others.
"""

from typing import Any

from kafka.protocol import admin, consumer, producer
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from broker.wire.codec import encode
from broker.wire.header import encode_request_header
from tests.support.valid_admin_requests import admin_messages, controller_messages, log_dir_messages
from tests.support.valid_group_requests import group_messages
from tests.support.valid_security_requests import broker_messages, security_messages
from tests.support.valid_share_requests import share_messages
from tests.support.valid_transaction_requests import transaction_messages
from tests.support.wire_client import framed

CLIENT_ID = "hostile"
GZIP = 1
_ALSO_FOR_CONTROLLERS = (18, 19, 20, 32, 37, 44, 60)


def record_batch(value: bytes = b"value", compression: int = 0) -> bytes:
    builder = DefaultRecordBatchBuilder(2, compression, 0, -1, -1, -1, 10_000_000)
    builder.append(0, timestamp=1_700_000_000_000, key=b"key", value=value, headers=[("header", b"h")])
    return bytes(builder.build())


def bomb(size_bytes: int) -> bytes:
    """A valid batch whose single value is `size_bytes` of zeros in a few kilobytes of gzip."""
    builder = DefaultRecordBatchBuilder(2, GZIP, 0, -1, -1, -1, 2 * size_bytes)
    builder.append(0, timestamp=1_700_000_000_000, key=b"key", value=bytes(size_bytes), headers=[])
    batch = bytes(builder.build())
    assert len(batch) < size_bytes // 100, "the client did not compress it"
    return batch


def frame(message: Any, version: int, correlation_id: int = 1) -> bytes:
    """The request with its header, and its length in front."""
    message.with_header(correlation_id=correlation_id, client_id=CLIENT_ID)
    return bytes(message.encode(version=version, header=True, framed=True))


def produce(topic: str, records: bytes, acks: int = -1) -> Any:
    request = producer.ProduceRequest
    partition = request.TopicProduceData.PartitionProduceData(index=0, records=records)
    return request(
        acks=acks, timeout_ms=1_000, topic_data=[request.TopicProduceData(name=topic, partition_data=[partition])]
    )


def fetch(topic: str, max_wait_ms: int = 50, max_bytes: int = 1_000_000) -> Any:
    request = consumer.FetchRequest
    partition = request.FetchTopic.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=max_bytes)
    return request(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[request.FetchTopic(topic=topic, partitions=[partition])],
    )


def frames(topic: str) -> list[bytes]:
    """Every request of a client, in several versions, about partition 0 of `topic`."""
    ours = [
        *group_messages(topic),
        *transaction_messages(topic),
        *admin_messages(topic),
        *log_dir_messages(topic),
        *security_messages(topic),
        *broker_messages(topic),
        *share_messages(),
    ]
    return [
        *(frame(message, version) for message, versions in _messages(topic) for version in versions),
        *(_our_frame(message, version) for message, versions in ours for version in versions),
    ]


def controller_frames(topic: str) -> list[bytes]:
    """Every request to a controller, of administrators and of brokers."""
    ours = [*admin_messages(topic), *security_messages(topic)]
    plain = [
        frame(message, version)
        for message, versions in _messages(topic)
        for version in versions
        if message.API_KEY in _ALSO_FOR_CONTROLLERS
    ]
    plain += [_our_frame(message, version) for message, versions in ours for version in versions]
    return plain + [
        _our_frame(message, version)
        for message, versions in controller_messages([each[4:] for each in plain[::3]])
        for version in versions
    ]


def api_keys(frames: list[bytes]) -> set[int]:
    """The APIs of these frames."""
    return {int.from_bytes(each[4:6], "big") for each in frames}


def _our_frame(message: Any, version: int) -> bytes:
    header = encode_request_header(type(message).__message__.key, version, 1, CLIENT_ID)
    return framed(header + b"".join(map(bytes, encode(message, version))))


def _messages(topic: str) -> list[tuple[Any, tuple[int, ...]]]:
    return [
        (ApiVersionsRequest(client_software_name="hostile", client_software_version="1"), (0, 2, 3, 4)),
        (_metadata(topic), (1, 4, 8, 9, 12)),
        (produce(topic, record_batch()), (3, 7, 8, 9, 11)),
        (produce(topic, record_batch(b"zipped" * 500, GZIP)), (3, 9)),
        (fetch(topic), (4, 7, 11, 12)),
        (_list_offsets(topic), (1, 4, 5, 7, 9)),
        (_offset_for_leader_epoch(topic), (2, 3, 4)),
        (producer.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), (0, 2, 4)),
        (_create_topics(topic), (2, 4, 5, 7)),
        (admin.DeleteTopicsRequest(topic_names=[f"{topic}-none"], timeout_ms=1_000), (1, 4, 5)),
        (_delete_records(topic), (0, 1, 2)),
        (_create_partitions(topic), (0, 1, 2, 3)),
        (_describe_configs(topic), (1, 3, 4)),
        (_incremental_alter_configs(topic), (0, 1)),
        (admin.ListConfigResourcesRequest(resource_types=[2, 32]), (0, 1)),
        (_describe_log_dirs(topic), (1, 2, 4)),
        (admin.DescribeClusterRequest(include_cluster_authorized_operations=True), (0, 1)),
        (_describe_topic_partitions(topic), (0,)),
    ]


def _metadata(topic: str) -> Any:
    return MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in (topic, f"{topic}-none")],
        allow_auto_topic_creation=False,
    )


def _list_offsets(topic: str) -> Any:
    request = consumer.ListOffsetsRequest
    partition = request.ListOffsetsTopic.ListOffsetsPartition(partition_index=0, timestamp=-1)
    return request(topics=[request.ListOffsetsTopic(name=topic, partitions=[partition])])


def _offset_for_leader_epoch(topic: str) -> Any:
    request = consumer.OffsetForLeaderEpochRequest
    asked = request.OffsetForLeaderTopic
    partition = asked.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    return request(topics=[asked(topic=topic, partitions=[partition])])


def _create_topics(topic: str) -> Any:
    created = admin.CreateTopicsRequest.CreatableTopic
    # The name exists and the assignment is manual, so a mutated field seldom makes this request succeed.
    asked = created(
        name=topic,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[created.CreatableReplicaAssignment(partition_index=0, broker_ids=[1])],
        configs=[created.CreatableTopicConfig(name="retention.ms", value="100000")],
    )
    return admin.CreateTopicsRequest(topics=[asked], timeout_ms=1_000, validate_only=True)


def _delete_records(topic: str) -> Any:
    deleted = admin.DeleteRecordsRequest.DeleteRecordsTopic
    partition = deleted.DeleteRecordsPartition(partition_index=0, offset=0)
    return admin.DeleteRecordsRequest(topics=[deleted(name=topic, partitions=[partition])], timeout_ms=1_000)


def _create_partitions(topic: str) -> Any:
    asked = admin.CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=1, assignments=None)
    return admin.CreatePartitionsRequest(topics=[asked], timeout_ms=1_000, validate_only=True)


def _describe_configs(topic: str) -> Any:
    resource = admin.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=2, resource_name=topic, configuration_keys=["retention.ms"]
    )
    return admin.DescribeConfigsRequest(resources=[resource], include_synonyms=True)


def _incremental_alter_configs(topic: str) -> Any:
    altered = admin.IncrementalAlterConfigsRequest.AlterConfigsResource
    config = altered.AlterableConfig(name="retention.ms", config_operation=0, value="200000")
    resource = altered(resource_type=2, resource_name=topic, configs=[config])
    return admin.IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)


def _describe_log_dirs(topic: str) -> Any:
    described = admin.DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic, partitions=[0])
    return admin.DescribeLogDirsRequest(topics=[described])


def _describe_topic_partitions(topic: str) -> Any:
    request = admin.DescribeTopicPartitionsRequest
    return request(topics=[request.TopicRequest(name=topic)], response_partition_limit=100, cursor=None)
