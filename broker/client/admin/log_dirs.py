"""The log directories of brokers, and the replicas in them (KIP-113, KIP-827, KIP-1066)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import attrs

from broker.client.admin.routing import Deadline, Routing, by_topic
from broker.client.brokers import Broker
from broker.client.errors import check
from broker.client.results import Failure, Outcomes, Results, failure
from broker.client.types import NodeId, PartitionNumber, TopicPartition
from broker.wire.api.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from broker.wire.api.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)

_UNKNOWN: Final = -1


class TopicPartitionReplica(NamedTuple):
    """The replica of a partition on one broker."""

    topic: str
    partition: PartitionNumber
    broker_id: NodeId

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker_id}"


class LogDirReplica(NamedTuple):
    """A replica in a log directory. `offset_lag` is the number of records that it lacks.

    A future replica is a copy that will replace the current replica, which is in another directory of the broker.
    """

    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirDamage(NamedTuple):
    """Damage in the log of a replica that is not repaired yet; `remedy` says what repairs it.

    The records from `first_offset` to the one before `end_offset` cannot be trusted. Apache Kafka does not report it.
    """

    first_offset: int
    end_offset: int
    path: str
    cause: str
    remedy: str


@attrs.frozen
class LogDir:
    """A log directory. `error` is set if it failed; the sizes of its volume are None where they are not reported.

    `damaged` are the replicas whose logs are damaged. `unrepaired_files` are the damaged files of the broker's metadata
    log that are not repaired yet, by path, with what is wrong; the first directory of a broker has all of them. It also
    has `clock_ms`, the broker's clock when it answered, in ms since 1970; None elsewhere, and from Apache Kafka.
    """

    error: Failure | None
    replicas: Mapping[TopicPartition, LogDirReplica]
    total_bytes: int | None
    usable_bytes: int | None
    is_cordoned: bool
    damaged: Mapping[TopicPartition, LogDirDamage] = attrs.field(factory=dict)
    unrepaired_files: Mapping[str, str] = attrs.field(factory=dict)
    clock_ms: int | None = None


class LogDirCalls(Routing):
    """Calls on log directories."""

    async def describe_log_dirs(
        self,
        broker_ids: Iterable[NodeId] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_ms: float | None = None,
    ) -> Results[int, dict[str, LogDir]]:
        """Describes the log directories of brokers (None: all) by path, with all their replicas or some."""
        topics = None
        if partitions is not None:
            topics = [
                DescribableLogDirTopic(topic=topic, partitions=[each.partition for each in of_topic])
                for topic, of_topic in by_topic(partitions).items()
            ]

        async def ask(broker: Broker, deadline: Deadline) -> dict[str, LogDir]:
            response: DescribeLogDirsResponse = await broker.call(DescribeLogDirsRequest(topics=topics))
            check(response.error_code)
            return {result.log_dir: _log_dir(result) for result in response.results}

        return await self._by_broker(broker_ids, ask, timeout_ms)

    async def alter_replica_log_dirs(
        self, replicas: Mapping[TopicPartitionReplica, str], *, timeout_ms: float | None = None
    ) -> Results[TopicPartitionReplica, None]:
        """Moves replicas to other log directories of their brokers, by the paths of the directories (KIP-113).

        It returns when the moves have begun; `describe_log_dirs` shows them as future replicas until they are complete.
        To ask for the present directory ends a move. REPLICA_NOT_AVAILABLE: the broker has no such replica; if it gets
        the replica, it will be in that directory.
        """

        async def ask(
            broker: Broker, pending: Sequence[TopicPartitionReplica], deadline: Deadline
        ) -> Outcomes[TopicPartitionReplica, None]:
            request = AlterReplicaLogDirsRequest(dirs=_altered({each: replicas[each] for each in pending}))
            response: AlterReplicaLogDirsResponse = await broker.call(request)
            by_partition = {(each.topic, each.partition): each for each in pending}
            return {
                by_partition[topic.topic_name, each.partition_index]: failure(each.error_code)
                for topic in response.results
                for each in topic.partitions
                if (topic.topic_name, each.partition_index) in by_partition
            }

        return await self._by_node(
            replicas, lambda replica: replica.broker_id, ask, timeout_ms, is_retried=lambda code: False
        )


def _altered(replicas: Mapping[TopicPartitionReplica, str]) -> list[AlterReplicaLogDir]:
    by_path: dict[str, list[TopicPartition]] = {}
    for replica, path in replicas.items():
        by_path.setdefault(path, []).append(TopicPartition(replica.topic, replica.partition))
    return [
        AlterReplicaLogDir(
            path=path,
            topics=[
                AlterReplicaLogDirTopic(name=topic, partitions=[each.partition for each in of_topic])
                for topic, of_topic in by_topic(partitions).items()
            ],
        )
        for path, partitions in by_path.items()
    ]


def _log_dir(result: DescribeLogDirsResult) -> LogDir:
    return LogDir(
        error=failure(result.error_code),
        replicas={
            TopicPartition(topic.name, each.partition_index): LogDirReplica(
                each.partition_size, each.offset_lag, each.is_future_key
            )
            for topic in result.topics
            for each in topic.partitions
        },
        total_bytes=None if result.total_bytes == _UNKNOWN else result.total_bytes,
        usable_bytes=None if result.usable_bytes == _UNKNOWN else result.usable_bytes,
        is_cordoned=result.is_cordoned,
        damaged={
            TopicPartition(each.topic, each.partition_index): LogDirDamage(
                each.first_offset, each.end_offset, each.path, each.cause, each.remedy
            )
            for each in result.damage
        },
        unrepaired_files={each.path: each.problem for each in result.unrepaired_files},
        clock_ms=None if result.clock_ms == _UNKNOWN else result.clock_ms,
    )
