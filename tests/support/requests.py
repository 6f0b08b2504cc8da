"""The requests that most tests need, and functions that read their responses."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from broker.wire.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.wire.records import NO_TIMESTAMP, Record, encode_batch, iter_headers, iter_records
from tests.support.wire_client import WireClient, only

PRODUCE_VERSION = 12  # the last version that names topics by name
FETCH_VERSION = 12


def batch(*values: bytes | None, key: bytes | None = None, timestamp: int = NO_TIMESTAMP, **fields: Any) -> bytes:
    """A producer's batch with these values."""
    return encode_batch([Record(timestamp=timestamp, key=key, value=value) for value in values], **fields)


def produce_request(
    records: bytes | None, *, topic: str = "topic", index: int = 0, acks: int = -1, timeout_ms: int = 1_000
) -> ProduceRequest:
    data = PartitionProduceData(index=index, records=records)
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics)


def fetch_request(
    offset: int = 0,
    *,
    topic: str = "topic",
    indexes: Iterable[int] = (0,),
    partition_max_bytes: int = 1 << 20,
    **fields: Any,
) -> FetchRequest:
    """A Fetch that does not wait, outside of any session; `fields` change it."""
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
        for index in indexes
    ]
    settings = {"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1, **fields}
    return FetchRequest(topics=[FetchTopic(topic=topic, partitions=partitions)], **settings)


async def create_topic(
    client: WireClient,
    name: str = "topic",
    *,
    partitions: int = 1,
    replicas: Sequence[int] = (),
    configs: Mapping[str, str] | None = None,
) -> bytes:
    """Create a topic and return its id. `replicas` has the broker of each partition, if the test assigns them."""
    topic = CreatableTopic(
        name=name,
        num_partitions=-1 if replicas else partitions,
        replication_factor=-1 if replicas else 1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=[broker_id])
            for index, broker_id in enumerate(replicas)
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    result = only((await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7)).topics)
    assert result.error_code == 0, f"{name}: error {result.error_code}, {result.error_message}"
    topic_id: bytes = result.topic_id
    return topic_id


async def produce(client: WireClient, records: bytes | None, version: int = PRODUCE_VERSION, **fields: Any) -> Any:
    """Produce to one partition. Returns the partition's part of the response."""
    response = await client.call(produce_request(records, **fields), version)
    return only(only(response.responses).partition_responses)


async def fetch(client: WireClient, offset: int = 0, version: int = FETCH_VERSION, **fields: Any) -> Any:
    """Fetch from one partition. Returns the partition's part of the response."""
    response = await client.call(fetch_request(offset, **fields), version)
    assert response.error_code == 0
    return only(only(response.responses).partitions)


def records_of(partition: Any) -> list[Record]:
    """The records in a partition's part of a Fetch response, which must have whole batches."""
    data = partition.records
    return [record for at, header in iter_headers(data) for record in iter_records(data, at, header)]


async def read_values(client: WireClient, offset: int = 0, **fields: Any) -> list[bytes | None]:
    """The values that one fetch of one partition returns, from `offset` on."""
    partition = await fetch(client, offset, **fields)
    assert partition.error_code == 0, f"error {partition.error_code}"
    return [record.value for record in records_of(partition) if record.offset >= offset]
