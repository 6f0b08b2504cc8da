"""One node of ours and one of Apache Kafka, with the same configs."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.apache_kafka import ApacheKafka, java
from benchmarks.peers import Kraft

CONFIGS: Final = {
    "auto.create.topics.enable": "false",
    "group.coordinator.append.linger.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.assignor.offload.enable": "false",
    # The defaults differ.
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.min.heartbeat.interval.ms": "5000",
    "group.initial.rebalance.delay.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.share.assignor.offload.enable": "false",
    # The share sessions of ended sequences stay.
    "group.share.max.share.sessions": "1000000",
    # Sequences wait until locks have expired.
    "group.share.min.record.lock.duration.ms": "1000",
    # The fetch sessions of ended sequences stay.
    "max.incremental.fetch.session.cache.slots": "1000000",
    # Kafka removes empty groups when it looks for expired offsets.
    "offsets.retention.check.interval.ms": "2147483647",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    # The records of steps have fixed times, which are long ago: producers would expire by them.
    "producer.id.expiration.check.interval.ms": "2147483647",
    "share.coordinator.append.linger.ms": "0",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
}


# One thread of each kind, so that requests on different connections are handled in the order in which they are sent.
_ONE_THREAD_EACH: Final = {"num.io.threads": "1", "num.network.threads": "1"}


# Each topic costs several fsyncs, which take the longest time of all on a busy disk; memory needs none.
_MEMORY: Final = Path("/dev/shm")
_PARENT: Final = _MEMORY if os.access(_MEMORY, os.W_OK) else None


class _SmallKraft(Kraft):
    parent = _PARENT


class _SmallKafka(ApacheKafka):
    parent = _PARENT
    jvm_options = ("-Xmx768M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

    def __init__(self, configs: Mapping[str, str]) -> None:
        super().__init__()
        self._configs = configs

    def properties(self) -> dict[str, str]:
        return super().properties() | self._configs | _ONE_THREAD_EACH

    def command(self) -> list[str]:
        """Logs warnings only: lines about each new topic would take as long as the sequences."""
        return java("kafka.Kafka", str(self._properties), options=list(self.jvm_options))


class Ports(NamedTuple):
    """The ports for clients, and those of the controllers."""

    kafka: int
    ours: int
    kafka_controller: int
    our_controller: int


@contextmanager
def running_servers(configs: Mapping[str, str] | None = None) -> Iterator[Ports]:
    """Both servers, with new data directories, and with more configs. Raises `benchmarks.apache_kafka.Unavailable`."""
    settings = {**CONFIGS, **(configs or {})}
    kafka, ours = _SmallKafka(settings), _SmallKraft(settings)
    with ExitStack() as started:
        for each in (kafka, ours):
            started.callback(each.remove)
            each.launch()
        for each in (kafka, ours):
            each.wait_serving()
        yield Ports(kafka.port, ours.port, kafka.controller_port, ours.controller_port)
