"""Groups of the client library whose coordinator is killed, or refuses a join."""

from pathlib import Path
from typing import Any

import pytest
import trio

from broker.client.types import OffsetAndMetadata, TopicPartition
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from tests.support.client_members import WITHIN_S, client_member, until_owned
from tests.support.requests import create_topic
from tests.support.running_cluster import RunningCluster, running_cluster
from tests.support.running_node import running_node
from tests.support.wire_client import connected

BOTH: list[dict[str, Any]] = [
    {"group_protocol": "classic", "partition_assignment_strategy": ["cooperative-sticky"]},
    {"group_protocol": "consumer"},
]
QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "offsets.topic.num.partitions": "1",
}
PARTITION = TopicPartition("a", 0)


async def coordinator(cluster: RunningCluster, asked: int) -> int:
    async with connected(cluster.port(asked)) as client:
        while True:
            response = await client.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
            if response.coordinators[0].error_code == 0:
                node_id: int = response.coordinators[0].node_id
                return node_id
            await trio.sleep(0.1)


@pytest.mark.parametrize("settings", BOTH, ids=["classic", "consumer"])
async def test_a_group_outlives_its_coordinator_and_commits_never_regress(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    async with running_cluster(tmp_path, 3, overrides=QUICK) as cluster:
        async with connected(cluster.port(1)) as client:
            await create_topic(client, "a", partitions=2)
        servers = [f"127.0.0.1:{node.port}" for node in cluster.nodes.values()]
        settings = {**settings, "enable_auto_commit": False, "request_timeout_ms": 5_000}
        async with (
            client_member(servers, "g", **settings) as first,
            client_member(servers, "g", **settings) as second,
        ):
            await until_owned([first, second], ["a0", "a1"])
            with trio.fail_after(WITHIN_S):
                while len(first.names()) != 1 or len(second.names()) != 1:
                    await trio.sleep(0.01)
            settled = first.kinds(), second.kinds()
            committer = first if PARTITION in first.state.positions else second
            acknowledged: list[int] = []
            async with trio.open_nursery() as nursery:

                async def commit_on() -> None:
                    for offset in range(1_000_000):
                        await committer.member.commit({PARTITION: OffsetAndMetadata(offset)})
                        acknowledged.append(offset)
                        await trio.sleep(0.005)

                nursery.start_soon(commit_on)
                for _ in range(2):
                    count = len(acknowledged)
                    crashed = await coordinator(cluster, next(each for each in (1, 2, 3) if cluster.nodes[each].is_up))
                    await cluster.nodes[crashed].crash()
                    with trio.fail_after(WITHIN_S):
                        while len(acknowledged) < count + 20:
                            await trio.sleep(0.01)
                    other = second if committer is first else first
                    latest = acknowledged[-1]
                    committed = (await other.member.committed([PARTITION]))[PARTITION]
                    assert committed is not None
                    assert committed.offset >= latest
                    await cluster.start(crashed)
                nursery.cancel_scope.cancel()
            assert (first.kinds(), second.kinds()) == settled
            assert [first.errors, second.errors] == [[], []]


async def test_join_is_repeated_at_once_with_the_required_member_id_kip_394(
    tmp_path: Path,
) -> None:
    """The first refusal of a join causes no pause, also the first one after a join that succeeded."""
    patient = {"retry_backoff_ms": 120_000, "retry_backoff_max_ms": 120_000, "heartbeat_interval_ms": 100}
    async with running_node(tmp_path, group_initial_rebalance_delay_ms=0) as node, connected(node.port) as client:
        await create_topic(client, "a", partitions=2)
        async with client_member(node.port, "warm", group_protocol="classic") as member:
            await until_owned([member], ["a0", "a1"])  # the coordinator is there
        async with client_member(node.port, "g", group_protocol="classic", **patient) as member:
            await until_owned([member], ["a0", "a1"])
            former = member.member.group_metadata().member_id
            leaving = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=former)])
            assert (await client.call(leaving, 5)).members[0].error_code == 0
            with trio.fail_after(WITHIN_S):
                while member.kinds() != ["assigned", "lost", "assigned"]:
                    await trio.sleep(0.01)
