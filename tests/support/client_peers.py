"""The clusters that the client library's tests run against: three nodes of ours, or three of Apache Kafka."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
import trio

from benchmarks.clusters import Cluster, apache_kafka_cluster, kraft_cluster
from broker.client import Admin, Consumer, ConsumerRecord, KafkaError, NewTopic, Producer, TopicPartition
from broker.client.admin import TopicDescription
from broker.wire.errors import ErrorCode

OURS: Final = "ours"
APACHE_KAFKA: Final = "apache-kafka"
WITHIN_S: Final = 60.0
NOON_MS: Final = 1_700_000_000_000

# The same settings for both clusters, with short timeouts: a dead broker is fenced after five seconds, and members send
# heartbeats every 200 ms.
_OVERRIDES: Final = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "log.retention.ms": "-1",  # tests write records with old timestamps
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.min.record.lock.duration.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "4",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "5000",
}
# Configs of features that this project lacks: transactions, and access control, which permits everything to the one
# user of these tests. Timeouts are longer, because three JVMs start on a few cores, and with the defaults elections
# fail.
_KAFKA_OVERRIDES: Final = {
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "controller.quorum.election.timeout.ms": "4000",
    "controller.quorum.fetch.timeout.ms": "8000",
    "initial.broker.registration.timeout.ms": "180000",
}
# A small heap, and only the fast compiler: the tests take a minute or two.
_JVM_OPTIONS: Final = ("-Xmx320M", "-Xms128M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@attrs.frozen
class ClientPeer:
    """A running cluster, and whether it has features that only Apache Kafka has."""

    cluster: Cluster
    is_apache_kafka: bool

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    async def create(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> list[TopicPartition]:
        """Creates a topic with three replicas, and returns the partitions once every broker knows their leaders."""
        async with Admin(self.bootstrap) as admin:
            created = await admin.create_topics([NewTopic(topic, partitions, 3, configs=dict(configs or {}))])
            topic_id = created.value(topic).topic_id
        await self.until_described(
            topic,
            lambda described: (
                described.topic_id == topic_id and all(each.leader is not None for each in described.partitions)
            ),
        )
        return [TopicPartition(topic, index) for index in range(partitions)]

    async def until_described(self, topic: str, holds: Callable[[TopicDescription], bool]) -> None:
        """Wait until `holds` is true for each broker's description of a topic.

        Brokers learn of a change a moment after the controller has acknowledged it.
        """
        with trio.fail_after(WITHIN_S):
            for member in self.cluster.members:
                async with Admin(member.bootstrap) as admin:
                    while True:
                        described = (await admin.describe_topics([topic])).succeeded.get(topic)
                        if described is not None and holds(described):
                            break
                        await trio.sleep(0.02)

    async def read(self, partitions: Iterable[TopicPartition], count: int, **settings: Any) -> list[ConsumerRecord]:
        """Read `count` records of these partitions from their beginning. Fails if there are more or fewer."""
        async with Consumer(self.bootstrap, auto_offset_reset="earliest", **settings) as consumer:
            consumer.assign(list(partitions))
            records = await self.take(consumer, count)
            return records + await consumer.fetch(timeout_s=0)

    async def take(self, consumer: Consumer, count: int) -> list[ConsumerRecord]:
        """Fetch until `count` records have arrived."""
        records: list[ConsumerRecord] = []
        with trio.fail_after(WITHIN_S):
            while len(records) < count:
                records += await consumer.fetch()
        return records


def cluster_of(kind: str) -> Cluster:
    """The cluster, not yet started."""
    if kind == OURS:
        return kraft_cluster(_OVERRIDES)
    return apache_kafka_cluster(_OVERRIDES | _KAFKA_OVERRIDES, jvm_options=_JVM_OPTIONS)


async def fill(peer: ClientPeer, partitions: Sequence[TopicPartition], count: int) -> None:
    """Writes `count` records, numbered and a second apart, to each partition."""
    async with Producer(peer.bootstrap) as producer:
        deliveries = [
            producer.send_soon(
                partition.topic,
                b"%d" % number,
                partition=partition.partition,
                timestamp_ms=NOON_MS + 1000 * number,
            )
            for partition in partitions
            for number in range(count)
        ]
        for delivery in deliveries:
            await delivery


def code_of(outcome: object) -> ErrorCode:
    assert isinstance(outcome, KafkaError), outcome
    return outcome.code
