"""Groups with members of both protocols."""

from collections.abc import Sequence
from typing import TypeAlias

from broker.coordinator.group.classic.classic_group import ClassicGroup
from broker.coordinator.group.config import ConsumerGroupConfig, GroupConfig
from tests.support.classic_consumers import ClassicConsumer
from tests.support.consumer_clients import GROUP, ConsumerClient, ConsumerGroups

# A member of either protocol.
Anyone: TypeAlias = ClassicConsumer | ConsumerClient


def shard_with(**fields: object) -> ConsumerGroups:
    """A shard with a topic of four partitions and with these configs of consumer groups."""
    shard = ConsumerGroups(GroupConfig(consumer=ConsumerGroupConfig(**fields), initial_rebalance_delay_ms=100))  # type: ignore[arg-type]
    shard.create_topic("a", 4)
    return shard


def stable_classic_members(shard: ConsumerGroups, count: int, *, is_cooperative: bool = False) -> list[ClassicConsumer]:
    """Members of a stable classic group, with their assignments."""
    members = [ClassicConsumer(shard, ["a"], is_cooperative=is_cooperative, name=f"c{at}") for at in range(count)]
    settle(shard, members)
    return members


def act(member: Anyone) -> None:
    if isinstance(member, ClassicConsumer):
        member.act()
    else:
        member.heartbeat()


def settle(shard: ConsumerGroups, members: Sequence[Anyone]) -> None:
    """Let all members follow responses until every partition has one owner and assignments stop changing."""
    for _ in range(30):
        before = [member.names() for member in members]
        for member in members:
            act(member)
            assert_no_shared_partitions(members)
        shard.pass_ms(200)
        is_quiet = all(not isinstance(member, ClassicConsumer) or member.is_settled for member in members)
        if is_quiet and before == [member.names() for member in members] and owned(members) == [0, 1, 2, 3]:
            return
    raise AssertionError(f"not settled: {[member.names() for member in members]}")


def owned(members: Sequence[Anyone]) -> list[int]:
    return sorted(index for member in members for index in member.names().get("a", set()))


def assert_no_shared_partitions(members: Sequence[Anyone]) -> None:
    assert len(owned(members)) == len(set(owned(members))), [member.names() for member in members]


def classic_group(shard: ConsumerGroups) -> ClassicGroup:
    group = shard.state.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    return group


def mixed(shard: ConsumerGroups, *, is_cooperative: bool = False) -> tuple[ClassicConsumer, ConsumerClient]:
    """A consumer group with one member of each protocol, both with their assignments."""
    member = ClassicConsumer(shard, ["a"], is_cooperative=is_cooperative, name="old")
    client = ConsumerClient(shard, "new", ["a"])
    client.heartbeat()
    settle(shard, [client, member])
    return member, client
