"""Consumers of third-party clients as members of a group, each in a thread of its own, and a record of what they do."""

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.abc import ConsumerRebalanceListener as AiokafkaListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AiokafkaRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AiokafkaRoundRobin
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AiokafkaSticky
from confluent_kafka import Consumer, KafkaException
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

WITHIN_S = 60.0
SESSION_MS = 6000
_POLL_S = 0.05


class Ownership:
    """Who owns which partition, as the members were told, and what they have read.

    `clashes` are partitions that somebody was given while another one had them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.owners: dict[int, str] = {}
        self.clashes: list[str] = []
        self.read: dict[tuple[int, int], int] = {}
        self.gaps: list[str] = []
        self._next: dict[int, int] = {}

    def gained(self, name: str, partitions: Iterable[int]) -> None:
        with self._lock:
            for partition in partitions:
                other = self.owners.get(partition)
                if other not in (None, name):
                    self.clashes.append(f"{name} was given {partition}, which {other} has")
                self.owners[partition] = name

    def lost(self, name: str, partitions: Iterable[int]) -> None:
        with self._lock:
            for partition in partitions:
                if self.owners.get(partition) == name:
                    del self.owners[partition]

    def gone(self, name: str) -> None:
        """The member has ended: it owns nothing."""
        self.lost(name, [partition for partition, owner in list(self.owners.items()) if owner == name])

    def took(self, partition: int, offset: int) -> None:
        """A record was read. Whoever takes over begins no later than where the former owner was."""
        with self._lock:
            self.read[partition, offset] = self.read.get((partition, offset), 0) + 1
            expected = self._next.get(partition, 0)
            if offset > expected:
                self.gaps.append(f"partition {partition} was read from {offset}, before {expected}")
            self._next[partition] = max(expected, offset + 1)

    def shares(self) -> dict[str, int]:
        """How many partitions each has."""
        with self._lock:
            counted: dict[str, int] = {}
            for owner in self.owners.values():
                counted[owner] = counted.get(owner, 0) + 1
            return counted

    @property
    def twice(self) -> int:
        """How many records were read more than once."""
        return sum(count > 1 for count in self.read.values())


class GroupMember(ABC):
    """A consumer that reads and commits until it is stopped, or drops dead."""

    def __init__(self, bootstrap: str, group: str, topic: str, name: str, ownership: Ownership, strategy: str) -> None:
        self.bootstrap, self.group, self.topic, self.name = bootstrap, group, topic, name
        self.ownership, self.strategy = ownership, strategy
        self.instance_id: str | None = None
        self.errors: list[str] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Leave the group as a consumer that is closed does."""
        self._ending.set()
        self._thread.join(WITHIN_S)
        assert not self._thread.is_alive(), f"{self.name} does not end"
        self.ownership.gone(self.name)

    def _run(self) -> None:
        try:
            self.consume()
        except Exception as error:  # noqa: BLE001 - told by the test
            self.errors.append(repr(error))

    @abstractmethod
    def consume(self) -> None: ...


class ConfluentMember(GroupMember):
    """Of librdkafka."""

    STRATEGIES = ("range", "roundrobin", "cooperative-sticky")

    def consume(self) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "client.id": self.name,
            "partition.assignment.strategy": self.strategy,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 300,
            "auto.commit.interval.ms": 200,
        }
        if self.instance_id is not None:
            settings["group.instance.id"] = self.instance_id
        consumer = Consumer(settings)
        consumer.subscribe(
            [self.topic],
            on_assign=lambda _, given: self.ownership.gained(self.name, [each.partition for each in given]),
            on_revoke=lambda _, taken: self.ownership.lost(self.name, [each.partition for each in taken]),
            on_lost=lambda _, taken: self.ownership.lost(self.name, [each.partition for each in taken]),
        )
        while not self._ending.is_set():
            message = consumer.poll(_POLL_S)
            if message is None:
                continue
            if message.error() is not None:
                self.errors.append(str(message.error()))
            else:
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                self.ownership.took(partition, offset)
        consumer.close()


class KafkaPythonMember(GroupMember):
    """Of kafka-python."""

    STRATEGIES = ("range", "roundrobin", "sticky")

    def consume(self) -> None:
        strategies = {
            "range": RangePartitionAssignor,
            "roundrobin": RoundRobinPartitionAssignor,
            "sticky": StickyPartitionAssignor,
        }
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            client_id=self.name,
            group_instance_id=self.instance_id,
            partition_assignment_strategy=[strategies[self.strategy]],
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            auto_commit_interval_ms=200,
        )
        member = self

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
            def on_partitions_revoked(self, revoked: Any) -> None:
                member.ownership.lost(member.name, [each.partition for each in revoked])

            def on_partitions_assigned(self, assigned: Any) -> None:
                member.ownership.gained(member.name, [each.partition for each in assigned])

        consumer.subscribe([self.topic], listener=Listener())
        while not self._ending.is_set():
            for records in consumer.poll(timeout_ms=int(_POLL_S * 1000)).values():
                for record in records:
                    self.ownership.took(record.partition, record.offset)
        consumer.close()


class AiokafkaMember(GroupMember):
    """Of aiokafka, in an event loop of its own."""

    STRATEGIES = ("range", "roundrobin", "sticky")

    def consume(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        strategies = {"range": AiokafkaRange, "roundrobin": AiokafkaRoundRobin, "sticky": AiokafkaSticky}
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            client_id=self.name,
            group_instance_id=self.instance_id,
            partition_assignment_strategy=[strategies[self.strategy]],
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            auto_commit_interval_ms=200,
        )
        member = self

        class Listener(AiokafkaListener):  # type: ignore[misc]  # the library has no types
            async def on_partitions_revoked(self, revoked: Any) -> None:
                member.ownership.lost(member.name, [each.partition for each in revoked])

            async def on_partitions_assigned(self, assigned: Any) -> None:
                member.ownership.gained(member.name, [each.partition for each in assigned])

        await consumer.start()
        consumer.subscribe([self.topic], listener=Listener())
        try:
            while not self._ending.is_set():
                for records in (await consumer.getmany(timeout_ms=int(_POLL_S * 1000))).values():
                    for record in records:
                        self.ownership.took(record.partition, record.offset)
        finally:
            await consumer.stop()


def wait_until(condition: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> float:
    """Wait for something that members bring about; the seconds that took. Raises AssertionError when it does not."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + within_s, f"not within {within_s} s: {what}"
        time.sleep(0.02)
    return time.monotonic() - began


def stop_all(members: Iterable[GroupMember]) -> None:
    """End members, whatever has become of them, all at once."""
    ending = [threading.Thread(target=_stop, args=(member,)) for member in members]
    for thread in ending:
        thread.start()
    for thread in ending:
        thread.join()


def _stop(member: GroupMember) -> None:
    with suppress(AssertionError, KafkaException):
        member.stop()
