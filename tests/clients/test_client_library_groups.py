"""Members of the client library and of third-party clients in one group, led by either kind."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio

from benchmarks import apache_kafka
from tests.support.client_members import ClientMember, client_member
from tests.support.confluent_driver import create_topic
from tests.support.group_history import GroupHistory, Partition
from tests.support.group_members import (
    AiokafkaMember,
    ConfluentMember,
    ConsumerProtocolMember,
    GroupMember,
    KafkaPythonMember,
    Membership,
)
from tests.support.node_process import NodeProcess

# kafka-python leaves the sockets of failed connections to the garbage collector.
pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]

PARTITIONS = 12
WITHIN_S = 60.0
CASES: list[Any] = [
    pytest.param("range", [ConfluentMember, KafkaPythonMember, AiokafkaMember], id="range"),
    pytest.param("roundrobin", [ConfluentMember, KafkaPythonMember, AiokafkaMember], id="roundrobin"),
    pytest.param("sticky", [KafkaPythonMember, AiokafkaMember], id="sticky"),
    pytest.param("cooperative-sticky", [ConfluentMember], id="cooperative-sticky"),
    pytest.param("uniform", [ConsumerProtocolMember], id="kip-848"),
    # Their members are classic, ours use the consumer protocol.
    pytest.param("migrating", [ConfluentMember, KafkaPythonMember], id="migrating"),
]


@pytest.fixture
def start(groups_node: NodeProcess, topic: str) -> Iterator[Callable[..., GroupMember]]:
    """Start a member of a third-party client."""
    members: list[GroupMember] = []

    def start_one(kind: type[GroupMember], group: str, strategy: str, history: GroupHistory) -> GroupMember:
        name = f"{kind.__name__}-{len(members)}"
        membership = Membership(
            bootstrap=groups_node.bootstrap,
            group=group,
            topics=[topic],
            name=name,
            strategy="range" if strategy == "migrating" else strategy,
        )
        members.append(kind(membership, history))
        members[-1].start()
        return members[-1]

    yield start_one
    for member in members:
        member.stop()
        assert member.errors == []


@pytest.mark.parametrize("is_first", [True, False], ids=["leading", "following"])
@pytest.mark.parametrize(("strategy", "kinds"), CASES)
async def test_members_of_several_clients_share_a_group(
    strategy: str,
    kinds: list[type[GroupMember]],
    is_first: bool,
    groups_node: NodeProcess,
    topic: str,
    start: Callable[..., GroupMember],
) -> None:
    group, history = f"{strategy}-{is_first}", GroupHistory()
    settings: dict[str, Any] = (
        {"group_protocol": "consumer"}
        if strategy in ("uniform", "migrating")
        else {"group_protocol": "classic", "partition_assignment_strategy": [strategy]}
    )
    create_topic(groups_node.bootstrap, topic, PARTITIONS)
    port = int(groups_node.bootstrap.rpartition(":")[2])
    ours: list[ClientMember] = []

    async def others_begin() -> None:
        for kind in kinds:
            start(kind, group, strategy, history)
        await until_shared(topic, ours, history, len(ours) + len(kinds))

    async with AsyncExitStack() as stack:
        if not is_first:
            await others_begin()
        for _ in range(2):
            ours.append(await stack.enter_async_context(client_member(port, group, [topic], **settings)))
        await until_shared(topic, ours, history, 2 + (0 if is_first else len(kinds)))
        if is_first:
            await others_begin()
        assert [member.errors for member in ours] == [[], []]
        assert "lost" not in [kind for member in ours for kind in member.kinds()]
    await until_shared(topic, [], history, len(kinds))
    assert history.problems() == []


async def until_shared(topic: str, ours: list[ClientMember], history: GroupHistory, count: int) -> None:
    """Wait until every partition has one owner, and `count` members own equally many, with a difference of
    one at most.
    """
    wanted = sorted((topic, index) for index in range(PARTITIONS))
    with trio.fail_after(WITHIN_S):
        while True:
            shares: list[list[Partition]] = [list(member.state.positions) for member in ours]
            owners = dict(history.owners)
            shares += [
                [each for each, owner in owners.items() if owner == name] for name in sorted(set(owners.values()))
            ]
            sizes = [len(share) for share in shares if share]
            is_even = len(sizes) == count and max(sizes) - min(sizes) <= 1
            if is_even and sorted(each for share in shares for each in share) == wanted:
                return
            await trio.sleep(0.05)


@pytest.mark.parametrize("strategy", ["StickyAssignor", "CooperativeStickyAssignor"])
@pytest.mark.usefixtures("kafka_jars")
async def test_members_share_a_group_with_the_consumer_of_apache_kafka(
    strategy: str, groups_node: NodeProcess, topic: str
) -> None:
    """First a member of the library leads the group, then Java's consumer."""
    create_topic(groups_node.bootstrap, topic, PARTITIONS)
    port = int(groups_node.bootstrap.rpartition(":")[2])
    name = f"org.apache.kafka.clients.consumer.{strategy}"
    settings: dict[str, Any] = {"group_protocol": "classic", "partition_assignment_strategy": [name]}
    command = apache_kafka.java(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", groups_node.bootstrap, "--topic", topic, "--group", strategy),
        *("--command-property", f"partition.assignment.strategy={name}"),
    )
    async with AsyncExitStack() as stack:
        async with client_member(port, strategy, [topic], **settings) as first:
            await until_count(first, PARTITIONS)
            java = await trio.lowlevel.open_process(command, stdout=subprocess.DEVNULL)
            stack.callback(java.kill)
            await until_count(first, PARTITIONS // 2)
        async with client_member(port, strategy, [topic], **settings) as second:
            await until_count(second, PARTITIONS // 2)
            java.terminate()  # the Java consumer leaves the group
            await java.wait()
            await until_count(second, PARTITIONS)
            assert "lost" not in first.kinds() + second.kinds()
            assert first.errors == second.errors == []


async def until_count(member: ClientMember, count: int) -> None:
    with trio.fail_after(WITHIN_S):
        while len(member.names()) != count:
            await trio.sleep(0.05)
