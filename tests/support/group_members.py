"""Consumers of third-party clients, and of the client library, as members of a group that report their events.

Each runs in a thread of its own.
"""

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import attrs
import trio
from aiokafka import AIOKafkaConsumer
from aiokafka.abc import ConsumerRebalanceListener as AiokafkaListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AiokafkaRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AiokafkaRoundRobin
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AiokafkaSticky
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from broker.client import Consumer as LibraryConsumer
from broker.client.consumer.group import RebalanceListener
from tests.support.group_history import GroupHistory, Partition

WITHIN_S = 60.0
SESSION_MS = 6000
_POLL_S = 0.05


@attrs.frozen(kw_only=True)
class Membership:
    """The plan of a member, as values that JSON can represent.

    `topics` may be a pattern that begins with ^, for clients that support one. `begins_at` is the start position in
    partitions without a committed offset, in the client's own terms. `settings` are added to those of its kind.
    """

    bootstrap: str
    group: str
    topics: list[str]
    name: str
    strategy: str
    instance_id: str | None = None
    begins_at: str = "earliest"
    settings: dict[str, Any] = attrs.field(factory=dict)


class GroupMember(ABC):
    """A consumer that reads and commits until it is stopped."""

    STRATEGIES: tuple[str, ...]
    # The client's term for no start position.
    NOWHERE = "none"

    def __init__(self, membership: Membership, history: GroupHistory) -> None:
        self.membership, self.history = membership, history
        self.name = membership.name
        self.errors: list[str] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Leave the group, as closing a consumer does."""
        self._ending.set()
        self._thread.join(WITHIN_S)
        assert not self._thread.is_alive(), f"{self.name} does not end"

    @property
    def is_ending(self) -> bool:
        return self._ending.is_set()

    def _run(self) -> None:
        try:
            self.consume()
        except Exception as error:  # noqa: BLE001 - told by the test
            self.errors.append(repr(error))
        self.history.gone(self.name)

    @abstractmethod
    def consume(self) -> None: ...


class ConfluentMember(GroupMember):
    """A member of librdkafka, in a classic group."""

    NOWHERE = "error"

    STRATEGIES: tuple[str, ...] = ("range", "roundrobin", "cooperative-sticky")

    def settings(self) -> dict[str, Any]:
        """The settings of this kind of member."""
        return {
            "partition.assignment.strategy": self.membership.strategy,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 300,
        }

    def consume(self) -> None:
        membership = self.membership
        settings: dict[str, Any] = {
            "bootstrap.servers": membership.bootstrap,
            "group.id": membership.group,
            "client.id": membership.name,
            "auto.offset.reset": membership.begins_at,
            "auto.commit.interval.ms": 200,
            "on_commit": self._committed,
            **self.settings(),
            **membership.settings,
        }
        if membership.instance_id is not None:
            settings["group.instance.id"] = membership.instance_id
        consumer = Consumer(settings)
        consumer.subscribe(
            membership.topics,
            on_assign=lambda _, given: self.history.gained(self.name, _named(given)),
            on_revoke=lambda _, taken: self.history.revoked(self.name, _named(taken)),
            on_lost=lambda _, taken: self.history.lost(self.name, _named(taken)),
        )
        while not self.is_ending:
            message = consumer.poll(_POLL_S)
            if message is None:
                continue
            if message.error() is not None:
                self.errors.append(str(message.error()))
                continue
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            self.history.took(self.name, (topic, partition), offset)
        consumer.close()

    def _committed(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            if error is None and each.error is None and each.offset >= 0:
                self.history.committed(self.name, (each.topic, each.partition), each.offset)


class ConsumerProtocolMember(ConfluentMember):
    """A member of librdkafka, in a group of KIP-848."""

    STRATEGIES: tuple[str, ...] = ("uniform", "range")

    def settings(self) -> dict[str, Any]:
        return {"group.protocol": "consumer", "group.remote.assignor": self.membership.strategy}


class KafkaPythonListener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    """Reports each revocation once: a consumer that is closed while it joins a generation is notified of the revoked
    partitions again.
    """

    def __init__(self, name: str, history: GroupHistory) -> None:
        self._name, self._history = name, history
        self._given_up: set[Partition] = set()

    def on_partitions_revoked(self, revoked: Any) -> None:
        given_up = [each for each in _named(revoked) if each not in self._given_up]
        self._given_up.update(given_up)
        self._history.revoked(self._name, given_up)

    def on_partitions_lost(self, lost: Any) -> None:
        self._history.lost(self._name, _named(lost))

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._given_up.clear()
        self._history.gained(self._name, _named(assigned))


class KafkaPythonMember(GroupMember):
    """A member of kafka-python."""

    STRATEGIES = ("range", "roundrobin", "sticky")

    def consume(self) -> None:
        strategies = {
            "range": RangePartitionAssignor,
            "roundrobin": RoundRobinPartitionAssignor,
            "sticky": StickyPartitionAssignor,
        }
        membership = self.membership
        consumer = KafkaConsumer(
            bootstrap_servers=membership.bootstrap.split(","),
            group_id=membership.group,
            client_id=membership.name,
            group_instance_id=membership.instance_id,
            partition_assignment_strategy=[strategies[membership.strategy]],
            auto_offset_reset=membership.begins_at,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            auto_commit_interval_ms=200,
            **membership.settings,
        )
        consumer.subscribe(membership.topics, listener=KafkaPythonListener(self.name, self.history))
        while not self.is_ending:
            for records in consumer.poll(timeout_ms=int(_POLL_S * 1000)).values():
                for record in records:
                    self.history.took(self.name, (record.topic, record.partition), record.offset)
        consumer.close()


class AiokafkaMember(GroupMember):
    """A member of aiokafka, in an event loop of its own."""

    STRATEGIES = ("range", "roundrobin", "sticky")

    def consume(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        strategies = {"range": AiokafkaRange, "roundrobin": AiokafkaRoundRobin, "sticky": AiokafkaSticky}
        membership = self.membership
        # The library keeps a member's assignment in the assignor's class, which all members of a process would share.
        assignor = type(membership.strategy, (strategies[membership.strategy],), {})
        consumer = AIOKafkaConsumer(
            bootstrap_servers=membership.bootstrap,
            group_id=membership.group,
            client_id=membership.name,
            group_instance_id=membership.instance_id,
            partition_assignment_strategy=[assignor],
            auto_offset_reset=membership.begins_at,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            auto_commit_interval_ms=200,
            **membership.settings,
        )
        member = self
        is_leaving = False

        class Listener(AiokafkaListener):  # type: ignore[misc]  # the library has no types
            async def on_partitions_revoked(self, revoked: Any) -> None:
                if not is_leaving:
                    member.history.revoked(member.name, _named(revoked))

            async def on_partitions_lost(self, lost: Any) -> None:
                if not is_leaving:
                    member.history.lost(member.name, _named(lost))

            async def on_partitions_assigned(self, assigned: Any) -> None:
                if not is_leaving:
                    member.history.gained(member.name, _named(assigned))

        await consumer.start()
        consumer.subscribe(membership.topics, listener=Listener())
        try:
            while not self.is_ending:
                for records in (await consumer.getmany(timeout_ms=int(_POLL_S * 1000))).values():
                    for record in records:
                        self.history.took(self.name, (record.topic, record.partition), record.offset)
        finally:
            # aiokafka leaves without calling its listener. Others may have its partitions before it gets the response.
            # Until it has left it may still join a rebalance, and call the listener for partitions it does not read.
            is_leaving = True
            self.history.gone(self.name)
            await consumer.stop()


class LibraryMember(GroupMember):
    """A member of this project's client library, in a classic group, in an event loop of its own."""

    # The other strategies are tested in groups of several clients.
    STRATEGIES: tuple[str, ...] = ("sticky", "cooperative-sticky")

    def settings(self) -> dict[str, Any]:
        """The settings of this kind of member."""
        return {
            "group.protocol": "classic",
            "partition.assignment.strategy": [self.membership.strategy],
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 300,
        }

    def consume(self) -> None:
        trio.run(self._consume)

    async def _consume(self) -> None:
        membership = self.membership
        settings: dict[str, Any] = {
            "group.id": membership.group,
            "client.id": membership.name,
            "group.instance.id": membership.instance_id,
            "auto.offset.reset": membership.begins_at,
            "auto.commit.interval.ms": 200,
            **self.settings(),
            **membership.settings,
        }
        is_pattern = membership.topics[0].startswith("^")
        async with LibraryConsumer(membership.bootstrap.split(","), config=settings) as consumer:
            if is_pattern:
                consumer.subscribe(pattern=membership.topics[0], listener=LibraryListener(self))
            else:
                consumer.subscribe(membership.topics, listener=LibraryListener(self))
            while not self.is_ending:
                for record in await consumer.fetch(timeout_s=_POLL_S):
                    self.history.took(self.name, (record.topic, record.partition), record.offset)


class LibraryConsumerProtocolMember(LibraryMember):
    """A member of this project's client library, in a group of KIP-848."""

    STRATEGIES: tuple[str, ...] = ("uniform", "range")

    def settings(self) -> dict[str, Any]:
        return {"group.protocol": "consumer", "group.remote.assignor": self.membership.strategy}


class LibraryListener(RebalanceListener):
    """Reports assignments and revocations to the history."""

    def __init__(self, member: LibraryMember) -> None:
        self._member = member

    async def on_assigned(self, partitions: Any) -> None:
        self._member.history.gained(self._member.name, _named(partitions))

    async def on_revoked(self, partitions: Any) -> None:
        self._member.history.revoked(self._member.name, _named(partitions))

    async def on_lost(self, partitions: Any) -> None:
        self._member.history.lost(self._member.name, _named(partitions))


KINDS: tuple[type[GroupMember], ...] = (
    ConfluentMember,
    ConsumerProtocolMember,
    KafkaPythonMember,
    AiokafkaMember,
    LibraryMember,
    LibraryConsumerProtocolMember,
)


def _named(partitions: Iterable[Any]) -> list[Partition]:
    return [(each.topic, each.partition) for each in partitions]


def wait_until(
    condition: Callable[[], bool], what: str | Callable[[], str], within_s: float = WITHIN_S, every_s: float = 0.02
) -> float:
    """Wait until a condition on the members holds. Returns the seconds. Raises AssertionError on timeout."""
    began = time.monotonic()
    while not condition():
        told = what if isinstance(what, str) else what()
        assert time.monotonic() < began + within_s, f"not within {within_s} s: {told}"
        time.sleep(every_s)
    return time.monotonic() - began


def stop_all(members: Iterable[Any]) -> list[str]:
    """Stop all members at the same time, in whatever state. Returns the errors."""
    troubles: list[str] = []
    ending = [threading.Thread(target=_stop, args=(member, troubles)) for member in members]
    for thread in ending:
        thread.start()
    for thread in ending:
        thread.join()
    return troubles


def _stop(member: Any, troubles: list[str]) -> None:
    try:
        member.stop()
    except (AssertionError, KafkaException) as error:
        troubles.append(str(error))
