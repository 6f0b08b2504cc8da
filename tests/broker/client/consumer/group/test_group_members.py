"""Members of groups by both protocols, over real sockets against a running node."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.client.types import TopicPartition
from tests.support.client_members import WITHIN_S, ClientMember, client_member, until_owned
from tests.support.requests import create_topic
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import connected

FOUR = ["a0", "a1", "a2", "a3"]
CLASSIC: list[dict[str, Any]] = [
    {"group_protocol": "classic", "partition_assignment_strategy": [name]}
    for name in ("range", "roundrobin", "sticky", "cooperative-sticky")
]
ALL = [*CLASSIC, {"group_protocol": "consumer"}, {"group_protocol": "consumer", "group_remote_assignor": "range"}]


@asynccontextmanager
async def node_with_topic(directory: Path, **overrides: object) -> AsyncIterator[RunningNode]:
    quick = {
        "group_initial_rebalance_delay_ms": 0,
        "group_consumer_min_heartbeat_interval_ms": 200,
        "group_consumer_heartbeat_interval_ms": 200,
        **overrides,
    }
    async with running_node(directory, **quick) as node:
        async with connected(node.port) as client:
            await create_topic(client, "a", partitions=4)
        yield node


def name_of(settings: dict[str, Any]) -> str:
    strategy = settings.get("partition_assignment_strategy", [settings.get("group_remote_assignor", "default")])
    return f"{settings['group_protocol']}-{strategy[0] if isinstance(strategy, list) else strategy}"


@pytest.mark.parametrize("settings", ALL, ids=name_of)
async def test_members_share_a_topic_and_take_over_what_others_leave(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with node_with_topic(tmp_path) as node, client_member(node.port, "g", **settings) as first:
        await until_owned([first], FOUR)
        async with client_member(node.port, "g", **settings) as second:
            await until_owned([first, second], FOUR)
            with trio.fail_after(WITHIN_S):
                while len(first.names()) != 2 or len(second.names()) != 2:
                    await trio.sleep(0.01)
        await until_owned([first], FOUR)
        assert second.kinds()[-1] == "revoked"
        assert "lost" not in first.kinds() + second.kinds()
        assert_alternating(first)
    assert first.names() == []


def assert_alternating(member: ClientMember) -> None:
    """A partition is assigned only while it is not owned, and revoked only while it is."""
    owned: set[TopicPartition] = set()
    for kind, partitions in member.events:
        if kind == "assigned":
            assert not owned & set(partitions), member.events
            owned |= set(partitions)
        else:
            assert set(partitions) <= owned, member.events
            owned -= set(partitions)
