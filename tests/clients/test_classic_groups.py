"""Groups of real clients: ten members over sixty partitions, that come and go; nothing is skipped or read by two."""

import gc
import warnings
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.confluent_driver import create_topic
from tests.support.group_members import (
    AiokafkaMember,
    ConfluentMember,
    GroupMember,
    KafkaPythonMember,
    Ownership,
    stop_all,
    wait_until,
)
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.clients

PARTITIONS = 60
RECORDS_EACH = 10
GROUP = "group"
KINDS: list[type[GroupMember]] = [ConfluentMember, KafkaPythonMember, AiokafkaMember]
CASES = [
    pytest.param(kind, strategy, id=f"{kind.__name__}-{strategy}")
    for kind in (ConfluentMember, KafkaPythonMember, AiokafkaMember)
    for strategy in kind.STRATEGIES
]


@pytest.fixture
def node(new_node: Callable[..., NodeProcess]) -> Iterator[NodeProcess]:
    node = new_node(group_initial_rebalance_delay_ms=500, offsets_topic_num_partitions=4)
    node.start()
    yield node
    node.stop()


class Play:
    """A topic, a group on it, and what its members have done."""

    def __init__(self, bootstrap: str, topic: str, kind: type[GroupMember], strategy: str) -> None:
        self.bootstrap, self.topic, self.kind, self.strategy = bootstrap, topic, kind, strategy
        self.ownership = Ownership()
        self.members: dict[str, GroupMember] = {}
        self.produced: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
        create_topic(bootstrap, topic, PARTITIONS)

    def produce(self) -> None:
        """Some records to each partition."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, "acks": "all"})
        for partition in range(PARTITIONS):
            for _ in range(RECORDS_EACH):
                producer.produce(self.topic, value=b"record", partition=partition)
            self.produced[partition] += RECORDS_EACH
        assert producer.flush(30) == 0

    def come(self, *names: str, static: bool = False) -> None:
        for name in names:
            member = self.kind(self.bootstrap, GROUP, self.topic, name, self.ownership, self.strategy)
            member.instance_id = name if static else None
            self.members[name] = member
            member.start()

    def go(self, *names: str) -> None:
        stop_all([self.members.pop(name) for name in names])

    def shared(self) -> float:
        """Wait until all partitions are shared evenly, as far as they can be; the seconds that took."""
        names = set(self.members)
        fewest, more = divmod(PARTITIONS, len(names))

        def is_shared() -> bool:
            shares = self.ownership.shares()
            return set(shares) == names and set(shares.values()) <= {fewest, fewest + bool(more)}

        return wait_until(is_shared, f"{PARTITIONS} partitions among {sorted(names)}: {self.ownership.shares()}")

    def all_read(self) -> float:
        """Wait until all that was produced has been read; the seconds that took."""
        count = sum(self.produced.values())
        return wait_until(lambda: len(self.ownership.read) >= count, f"{count} records")

    def end(self) -> None:
        """Everybody leaves; then everything is committed, and nothing was wrong."""
        errors = [error for member in self.members.values() for error in member.errors]
        self.go(*self.members)
        assert self.committed() == self.produced
        assert self.ownership.clashes == []
        assert self.ownership.gaps == []
        assert errors == []

    def committed(self) -> dict[int, int]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": GROUP})
        try:
            asked = [TopicPartition(self.topic, partition) for partition in range(PARTITIONS)]
            return {each.partition: each.offset for each in consumer.committed(asked, timeout=30)}
        finally:
            consumer.close()

    def description(self) -> tuple[str, int]:
        """The state of the group, and how many members it has."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        described = admin.describe_consumer_groups([GROUP])[GROUP].result(30)
        return described.state.name, len(described.members)


Beginning: TypeAlias = Callable[[type[GroupMember], str], Play]


@pytest.fixture
def begin(node: NodeProcess, topic: str) -> Iterator[Beginning]:
    """Make a play, whose members are gone when the test is over."""
    plays: list[Play] = []

    def begin_one(kind: type[GroupMember], strategy: str) -> Play:
        plays.append(Play(node.bootstrap, topic, kind, strategy))
        return plays[-1]

    yield begin_one
    for play in plays:
        play.go(*play.members)
    # kafka-python leaves the sockets of connections that failed for the collector to close.
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        gc.collect()


@pytest.mark.parametrize(("kind", "strategy"), CASES)
def test_members_come_and_go_and_nothing_is_skipped(
    kind: type[GroupMember], strategy: str, begin: Beginning, figure: Callable[[str], None]
) -> None:
    play = begin(kind, strategy)
    play.produce()
    play.come(*"abcd")
    play.shared()
    play.come(*"efghij")
    joined = play.shared()
    assert play.description() == ("STABLE", 10)
    play.produce()
    play.all_read()
    play.go("b", "h")
    left = play.shared()
    play.produce()
    play.all_read()
    figure(f"ten share after {joined:.1f} s, eight after {left:.1f} s, {play.ownership.twice} records read twice")
    play.end()
    assert play.description() == ("EMPTY", 0)


@pytest.mark.parametrize("kind", KINDS)
def test_static_members_come_back_to_what_they_had(kind: type[GroupMember], begin: Beginning) -> None:
    play = begin(kind, "range")
    play.come(*"abc", static=True)
    play.shared()
    before = dict(play.ownership.owners)
    play.produce()
    play.all_read()
    play.go("b")
    play.come("b", static=True)
    play.shared()
    assert play.ownership.owners == before
    play.produce()
    play.all_read()
    assert play.description() == ("STABLE", 3)
    errors = [error for member in play.members.values() for error in member.errors]
    assert (errors, play.ownership.clashes, play.ownership.gaps) == ([], [], [])


@pytest.mark.parametrize("kind", KINDS)
def test_commits_survive_the_coordinator(kind: type[GroupMember], begin: Beginning, node: NodeProcess) -> None:
    play = begin(kind, "range")
    play.produce()
    play.come(*"abc")
    play.shared()
    play.all_read()
    wait_until(lambda: play.committed() == play.produced, "commits")
    node.kill()
    node.start()
    assert play.committed() == play.produced
    play.produce()
    play.all_read()
    play.shared()
    assert play.ownership.gaps == []
    assert play.ownership.twice == 0
