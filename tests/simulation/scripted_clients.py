"""Clients controlled by a script: they send each request once, to a given broker, and record the promises they get."""

from typing import Any

import attrs

from broker.client import ConnectionLost
from broker.wire.api.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from broker.wire.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.wire.api.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)
from broker.wire.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from broker.wire.api.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from broker.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.wire.errors import ErrorCode
from broker.wire.records import Record, encode_batch, iter_headers, iter_records
from jepsen.simulation.hosts import Host
from jepsen.simulation.subjects.node_plan import KAFKA_PORT
from jepsen.workloads.connection import Connection
from metadata.protocol import ConfigResourceType
from tests.simulation.scripted_run import ScriptedRun

# The only topic, with one partition.
TOPIC = "topic"
# No epoch, or no sequence number.
NONE = -1
PRODUCE_VERSION = 12


@attrs.frozen
class Stored:
    """A record in a log."""

    offset: int
    epoch: int
    value: str


@attrs.define
class IdempotentProducer:
    """A producer that numbers its records, so that it can retry them."""

    producer_id: int
    sequences: dict[str, int] = attrs.field(factory=dict)

    def numbers(self, value: str) -> dict[str, int]:
        """The fields of a batch for a value. They are the same whenever the value is sent again."""
        sequence = self.sequences.setdefault(value, len(self.sequences))
        return {"producer_id": self.producer_id, "producer_epoch": 0, "base_sequence": sequence}


@attrs.define(kw_only=True)
class ScriptedClients(ScriptedRun):
    """`client` is the machine of all clients, `ids` the brokers' ids by name.

    `acknowledged` has the offsets of the values that were acknowledged with acks=all, `consumed` the values that
    consumers received. None of these may ever change.
    """

    client: Host
    ids: dict[str, int]
    acknowledged: dict[str, int] = attrs.field(factory=dict)
    consumed: dict[int, str] = attrs.field(factory=dict)

    async def ask(self, name: str, request: Any, version: int) -> Any:
        """A broker's response. Raises ConnectionLost."""
        return await self.simulation.on(self.client, self._ask, name, request, version)

    async def _ask(self, name: str, request: Any, version: int) -> Any:
        connection = await Connection.open((name, KAFKA_PORT), 0)
        try:
            return await connection.call(request, version)
        finally:
            await connection.aclose()

    async def connect(self, name: str) -> Connection:
        """Open a connection for several requests, see `ask_over`. Raises ConnectionLost."""
        return await self.simulation.on(self.client, Connection.open, (name, KAFKA_PORT), 0)

    async def ask_over(self, connection: Connection, request: Any, version: int) -> Any:
        """A broker's response. Raises ConnectionLost."""
        return await self.simulation.on(self.client, connection.call, request, version)

    async def described(self, by: str) -> DescribeTopicPartitionsResponsePartition | None:
        """The partition in a broker's metadata; None without a response."""
        try:
            response = await self.ask(by, DescribeTopicPartitionsRequest(topics=[TopicRequest(name=TOPIC)]), 0)
        except ConnectionLost:
            return None
        partitions: list[DescribeTopicPartitionsResponsePartition] = response.topics[0].partitions
        return partitions[0] if partitions else None

    async def produce(
        self, name: str, *values: str, acks: int = -1, producer: IdempotentProducer | None = None
    ) -> ErrorCode | None:
        """Send each value in a batch of its own. Returns the error code of the last one, or None without a response.

        Each acknowledgement may take half a second. The next value is sent in any case.
        """
        code = None
        for value in values:
            code = await self._produce_one(name, value, acks, producer)
        return code

    async def _produce_one(
        self, name: str, value: str, acks: int, producer: IdempotentProducer | None
    ) -> ErrorCode | None:
        try:
            response = await self.ask(name, self.produce_request(value, acks, producer), PRODUCE_VERSION)
        except ConnectionLost:
            return None
        answer = response.responses[0].partition_responses[0]
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE and acks == -1:
            offset = self.acknowledged.setdefault(value, answer.base_offset)
            if offset != answer.base_offset:
                self.fail(f"NothingIsThereTwice: {value} was acknowledged at {offset} and {answer.base_offset}")
        return code

    def produce_request(self, value: str, acks: int = -1, producer: IdempotentProducer | None = None) -> ProduceRequest:
        record = Record(timestamp=int(self.client.wall() * 1000), key=None, value=value.encode())
        numbers = {} if producer is None else producer.numbers(value)
        data = PartitionProduceData(index=0, records=memoryview(encode_batch([record], **numbers)))
        topics = [TopicProduceData(name=TOPIC, partition_data=[data])]
        return ProduceRequest(acks=acks, timeout_ms=500, topic_data=topics)

    async def fetch(
        self, name: str, offset: int, *, leader_epoch: int = NONE, last_epoch: int = NONE
    ) -> PartitionData | None:
        """The records that a broker returns to a consumer; None without a response."""
        partition = FetchPartition(
            partition=0,
            fetch_offset=offset,
            current_leader_epoch=leader_epoch,
            last_fetched_epoch=last_epoch,
            partition_max_bytes=1 << 20,
        )
        topics = [FetchTopic(topic=TOPIC, partitions=[partition])]
        request = FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=-1, topics=topics)
        try:
            response = await self.ask(name, request, 12)
        except ConnectionLost:
            return None
        data: PartitionData = response.responses[0].partitions[0]
        return data

    async def consume(self, name: str, offset: int, **epochs: int) -> None:
        """Like `fetch`, and record the values."""
        data = await self.fetch(name, offset, **epochs)
        for record in [] if data is None else records_of(data):
            if self.consumed.setdefault(record.offset, record.value) != record.value:
                self.fail(f"ConsumedRecordsStay: {record} where {self.consumed[record.offset]} was")

    async def epoch_end(self, name: str, epoch: int, *, leader_epoch: int = NONE) -> EpochEndOffset:
        """The end of a leader epoch according to a broker. Raises ConnectionLost."""
        asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=leader_epoch, leader_epoch=epoch)
        topics = [OffsetForLeaderTopic(topic=TOPIC, partitions=[asked])]
        response = await self.ask(name, OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), 4)
        answer: EpochEndOffset = response.topics[0].partitions[0]
        return answer

    async def latest_offset(self, name: str) -> int | None:
        """The latest offset according to a broker, which must never decrease; None if the broker does not know it."""
        topics = [ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(timestamp=-1)])]
        response = await self.ask(name, ListOffsetsRequest(replica_id=-1, topics=topics), 5)
        answer = response.topics[0].partitions[0]
        return None if answer.error_code else answer.offset

    async def elect_preferred(self, by: str) -> None:
        """Elect the preferred leader, the first replica. Raises ConnectionLost."""
        partitions = [TopicPartitions(topic=TOPIC, partitions=[0])]
        response = await self.ask(by, ElectLeadersRequest(topic_partitions=partitions, timeout_ms=10_000), 2)
        assert response.error_code == 0, response

    async def set_config_of_all_brokers(self, by: str, name: str, value: str) -> None:
        """Set a dynamic config. Raises ConnectionLost."""
        config = AlterableConfig(name=name, value=value)
        resource = AlterConfigsResource(resource_type=ConfigResourceType.BROKER, configs=[config])
        response = await self.ask(by, IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert response.responses[0].error_code == 0, response

    async def move_log_dir(self, name: str, path: str) -> None:
        """Begin to move a broker's replica to its log directory at `path`. Raises ConnectionLost."""
        moved = AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=TOPIC, partitions=[0])])
        response = await self.ask(name, AlterReplicaLogDirsRequest(dirs=[moved]), 2)
        assert response.results[0].partitions[0].error_code == 0, response

    async def create_topic(self, *replicas: str, **configs: object) -> None:
        """Create the topic. The first replica leads; `_` in a config's name stands for `.`."""
        assignment = CreatableReplicaAssignment(broker_ids=[self.ids[name] for name in replicas])
        topic = CreatableTopic(
            name=TOPIC,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[assignment],
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=str(value).lower())
                for key, value in configs.items()
            ],
        )
        response = await self.ask(replicas[0], CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        assert response.topics[0].error_code == 0, response.topics[0].error_message


def records_of(data: PartitionData) -> list[Stored]:
    """The records in the partition's part of a Fetch response."""
    content = data.records
    assert isinstance(content, bytes | memoryview | None), "records as they were received"
    return stored_in(content or b"")


def stored_in(content: bytes | memoryview) -> list[Stored]:
    """The records in complete batches."""
    return [
        Stored(record.offset, header.partition_leader_epoch, (record.value or b"").decode())
        for at, header in iter_headers(content)
        for record in iter_records(content, at, header)
    ]
