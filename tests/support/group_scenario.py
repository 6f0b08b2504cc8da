"""A group of real clients for scenario tests: its topics, its members, and the history of their events."""

import gc
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from broker.client import ConfigChange, ConfigResource, ConfigResourceType, SyncAdmin
from tests.support.confluent_driver import create_replicated_topic
from tests.support.group_history import GroupHistory, Partition
from tests.support.group_members import ConfluentMember, GroupMember, Membership, stop_all, wait_until
from tests.support.member_process import MemberProcess

RECORDS_EACH = 10
_MOVING = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)


class GroupScenario:
    """One group. `topics` has the number of partitions of each topic.

    Offset 0 of each partition is committed before the first member joins, and members fail without a committed offset.
    So a coordinator that loses an offset is detected. (Also, if librdkafka 2.16 looks up the start of a partition while
    the partition is revoked, it delivers fetched messages twice.)
    """

    def __init__(
        self,
        bootstrap: str,
        topics: Mapping[str, int],
        *,
        group: str | None = None,
        replicas: int = 1,
        kind: type[GroupMember] = ConfluentMember,
        strategy: str = "range",
        subscription: Sequence[str] = (),
        begins_at: str | None = None,
        settings: Mapping[str, Any] | None = None,
        group_configs: Mapping[str, str] | None = None,
    ) -> None:
        """The group is named after its first topic by default. Without `begins_at`, topics that are created later are
        not read. `group_configs` are configs of the resource GROUP, which apply to the consumer protocol.
        """
        self.bootstrap, self.replicas = bootstrap, replicas
        self.group = group or f"group-of-{next(iter(topics))}"
        self.kind, self.strategy, self.settings = kind, strategy, dict(settings or {})
        self.subscription, self.begins_at = list(subscription or topics), begins_at
        self.history = GroupHistory()
        self.members: dict[str, GroupMember | MemberProcess] = {}
        self.produced: dict[Partition, int] = {}
        # Made here, because librdkafka takes half a second until it has a producer id.
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 5,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        if group_configs:
            self._configure(group_configs)
        for topic, partitions in topics.items():
            self.create_topic(topic, partitions)
        self._commit_the_beginning()

    def _configure(self, configs: Mapping[str, str]) -> None:
        changes = [ConfigChange(name, value) for name, value in configs.items()]
        with SyncAdmin(self.bootstrap) as admin:
            resource = ConfigResource(ConfigResourceType.GROUP, self.group)
            admin.incremental_alter_configs({resource: changes}).raise_first()

    def _commit_the_beginning(self) -> None:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group})
        beginning = [TopicPartition(topic, index, 0) for topic, index in self.produced]
        committed = consumer.commit(offsets=beginning, asynchronous=False)
        assert committed is not None
        assert all(each.error is None for each in committed), committed
        consumer.close()

    def create_topic(self, topic: str, partitions: int) -> None:
        create_replicated_topic(self.bootstrap, topic, partitions, self.replicas)
        self.produced |= {(topic, index): 0 for index in range(partitions)}

    def produce(self, records_each: int = RECORDS_EACH) -> None:
        """Produce some records to each partition."""
        errors: list[KafkaError] = []

        def note(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                errors.append(error)

        for topic, index in self.produced:
            for _ in range(records_each):
                self._producer.produce(topic, value=b"record", partition=index, on_delivery=note)
            self.produced[topic, index] += records_each
        assert self._producer.flush(60) == 0
        assert not errors, errors

    def start_members(
        self,
        *names: str,
        kind: type[GroupMember] | None = None,
        strategy: str | None = None,
        is_static: bool = False,
        is_process: bool = False,
    ) -> None:
        """Start new members, of the scenario's kind by default."""
        chosen = kind or self.kind
        for name in names:
            membership = Membership(
                bootstrap=self.bootstrap,
                group=self.group,
                topics=self.subscription,
                name=name,
                strategy=strategy or self.strategy,
                instance_id=name if is_static else None,
                begins_at=self.begins_at or chosen.NOWHERE,
                settings=self.settings,
            )
            make = MemberProcess if is_process else _in_thread
            self.members[name] = make(chosen, membership, self.history)
            self.members[name].start()

    def close(self, *names: str) -> None:
        """Close members, so that they leave the group."""
        troubles = stop_all([self.members.pop(name) for name in names])
        assert not troubles, troubles

    def kill(self, *names: str) -> None:
        """Kill the processes of members, so that they do not leave the group."""
        for name in names:
            member = self.members.pop(name)
            assert isinstance(member, MemberProcess), f"{name} is no process"
            member.kill()

    def shared(self, within_s: float = 60) -> float:
        """Wait until the partitions are distributed as evenly as possible. Returns the seconds."""
        names = set(self.members)
        fewest, more = divmod(len(self.produced), len(names))

        def is_shared() -> bool:
            shares = self.history.shares()
            return set(shares) == names and set(shares.values()) <= {fewest, fewest + bool(more)}

        def what() -> str:
            return f"{len(self.produced)} partitions among {sorted(names)}: {dict(self.history.shares())}"

        return wait_until(is_shared, what, within_s)

    def all_read(self, within_s: float = 60) -> float:
        """Wait until all produced records have been read. Returns the seconds."""
        count = sum(self.produced.values())
        return wait_until(
            lambda: len(self.history.read) >= count, lambda: f"{len(self.history.read)} of {count} records", within_s
        )

    def all_committed(self, within_s: float = 60) -> float:
        """Wait until the coordinator returns the end offsets as committed. Returns the seconds."""
        return wait_until(lambda: self.committed() == self.produced, "commits", within_s, every_s=0.2)

    def end(self) -> None:
        """Close all members, and check that everything is committed and the history has no problems."""
        members = list(self.members.values())
        self.close(*self.members)
        errors, problems, committed = (
            [error for member in members for error in member.errors],
            self.history.problems(),
            self.committed(),
        )
        assert not errors, errors
        assert not problems, "\n".join(problems)
        assert committed == self.produced, sorted(committed.items() ^ self.produced.items())

    def committed(self) -> dict[Partition, int]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group})
        try:
            asked = [TopicPartition(topic, index) for topic, index in self.produced]
            return {(each.topic, each.partition): each.offset for each in consumer.committed(asked, timeout=30)}
        finally:
            consumer.close()

    def is_described_as(self, type_: str, state: str, members: int) -> None:
        """Wait until the coordinator describes the group with this type, state and number of members."""
        wanted = type_, state, members
        wait_until(
            lambda: self.description() == wanted, lambda: f"{wanted}: {self.description()}", within_s=30, every_s=0.05
        )

    def is_stable(self) -> None:
        """Wait until the coordinator describes the group as stable with all members."""
        wanted = "STABLE", len(self.members)
        wait_until(
            lambda: self.description()[1:] == wanted,
            lambda: f"{wanted}: {self.description()}",
            within_s=30,
            every_s=0.05,
        )

    def description(self) -> tuple[str, str, int]:
        """The type, the state, and the number of members of the group."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        described = admin.describe_consumer_groups([self.group])[self.group].result(30)
        return described.type.name, described.state.name, len(described.members)

    def coordinator(self) -> int:
        """The broker that coordinates the group. Retries, because the asked broker may not know it yet."""
        found: list[int] = []

        def is_found() -> bool:
            # librdkafka caches the first coordinator for a long time.
            admin = AdminClient({"bootstrap.servers": self.bootstrap})
            try:
                found.append(int(admin.describe_consumer_groups([self.group])[self.group].result(30).coordinator.id))
            except KafkaException as error:
                if error.args[0].code() not in _MOVING:
                    raise
            return bool(found)

        wait_until(is_found, f"the coordinator of {self.group}")
        return found[0]


def _in_thread(kind: type[GroupMember], membership: Membership, history: GroupHistory) -> GroupMember:
    return kind(membership, history)


def ten_join_and_two_leave(scenario: GroupScenario, type_: str) -> str:
    """Join ten members to a group of this type, let two leave, and then all. Returns the measured times as text."""
    scenario.produce()
    scenario.start_members(*"abcd")
    scenario.shared()
    scenario.start_members(*"efghij")
    joined = scenario.shared()
    scenario.is_described_as(type_, "STABLE", 10)
    scenario.produce()
    scenario.all_read()
    scenario.close("b", "h")
    left = scenario.shared()
    scenario.produce()
    scenario.all_read()
    scenario.end()
    scenario.is_described_as(type_, "EMPTY", 0)
    return f"ten share after {joined:.1f} s, eight after {left:.1f} s, {scenario.history.twice} records read twice"


def discard(scenarios: Sequence[GroupScenario]) -> None:
    """Stop all members that still run."""
    for scenario in scenarios:
        stop_all(scenario.members.values())
    # kafka-python leaves the sockets of failed connections open until they are garbage collected.
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        gc.collect()


Beginning = Callable[..., GroupScenario]
