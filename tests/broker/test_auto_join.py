"""Controllers that add themselves to the voters, over real sockets (KIP-1186)."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Final

import pytest
import trio

from broker.client import Admin, ErrorCode, KafkaError, NewTopic
from broker.config import read_config
from broker.node.formatting import Formatting, format_directories
from jepsen.processes.ports import free_ports
from kraft.env import Env, real_env
from metadata.configuration import InvalidConfig
from tests.support.inline_disk import InlineDisk
from tests.support.running_cluster import ClusterNode, RunningCluster, running_cluster
from tests.support.running_node import Traced

AUTO_JOIN: Final = {"controller.quorum.auto.join.enable": "true"}
CONTROLLERS: Final = {1: "broker,controller", 2: "controller", 3: "controller"}
WITHIN_S: Final = 30


async def voters_of(admin: Admin) -> Mapping[int, bytes]:
    """The directory ids of the voters, by node id. While there is no leader, it is asked for again."""
    while True:
        try:
            return {voter.id: voter.directory_id for voter in (await admin.describe_metadata_quorum()).voters}
        except KafkaError as error:
            if error.code not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT):
                raise


async def replace_disk(node: ClusterNode, cluster_id: str) -> None:
    """Give a node that is down empty directories, formatted for a controller that joins an existing quorum."""
    for directory in node.config.log_directories:
        shutil.rmtree(directory)
    node.disk = InlineDisk()
    env = Env(node.disk, Random(), real_env(Traced()).wall, Traced())
    await format_directories(env, node.config, Formatting(cluster_id), ignore_formatted=False, report=lambda line: None)


def cluster_id_of(cluster: RunningCluster) -> str:
    node = cluster.nodes[1].node
    assert node is not None
    return node.cluster_id


async def test_kip_1186_controllers_with_new_disks_replace_their_former_directories(tmp_path: Path) -> None:
    of_nodes = dict.fromkeys(CONTROLLERS, AUTO_JOIN)
    async with running_cluster(tmp_path, CONTROLLERS, of_nodes=of_nodes) as cluster:
        async with Admin(f"127.0.0.1:{cluster.port(1)}") as admin:
            before = await voters_of(admin)
            for node_id in (3, 2):
                await cluster.nodes[node_id].stop()
                await replace_disk(cluster.nodes[node_id], cluster_id_of(cluster))
                await cluster.start(node_id)
                with trio.fail_after(WITHIN_S):
                    while (now := await voters_of(admin)).get(node_id, before[node_id]) == before[node_id]:
                        await trio.sleep(0.02)
                assert sorted(now) == [1, 2, 3]
            await admin.create_topics([NewTopic("after", 1)])
        for node_id in (2, 3):
            assert cluster.nodes[node_id].traced.of("join_refused") == []


async def test_kip_1186_controller_that_does_not_answer_at_its_address_says_so_once(tmp_path: Path) -> None:
    (closed,) = free_ports(1)
    of_nodes = {3: AUTO_JOIN | {"advertised.listeners": f"CONTROLLER://127.0.0.1:{closed}"}}
    async with running_cluster(tmp_path, CONTROLLERS, of_nodes=of_nodes) as cluster:
        node = cluster.nodes[3]
        async with Admin(f"127.0.0.1:{cluster.port(1)}") as admin:
            await node.stop()
            await replace_disk(node, cluster_id_of(cluster))
            await cluster.start(3)
            await cluster.until(lambda: bool(node.traced.of("join_refused")))
            await trio.sleep(2.5)  # more than two fetch timeouts, after each of which the node asks again
            assert sorted(await voters_of(admin)) == [1, 2]
    reasons = [event["reason"] for event in node.traced.of("join_refused")]
    assert reasons == ["REQUEST_TIMED_OUT: Node 3 does not answer at the address that was given for it"]


async def test_kip_1186_controller_that_is_not_configured_to_join_stays_an_observer(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, CONTROLLERS) as cluster, Admin(f"127.0.0.1:{cluster.port(1)}") as admin:
        before = await voters_of(admin)
        await cluster.nodes[3].stop()
        await replace_disk(cluster.nodes[3], cluster_id_of(cluster))
        await cluster.start(3)
        await trio.sleep(2.5)
        assert await voters_of(admin) == before


def test_config_is_refused_without_the_controller_role() -> None:
    """The message is Kafka's."""
    lines = [
        *("process.roles=broker", "node.id=4", "listeners=PLAINTEXT://:9092", "controller.listener.names=CONTROLLER"),
        "controller.quorum.bootstrap.servers=localhost:9093",
        "controller.quorum.auto.join.enable=true",
    ]
    with pytest.raises(InvalidConfig) as refused:
        read_config("".join(f"{line}\n" for line in lines).encode())
    assert (
        "controller.quorum.auto.join.enable is only supported when process.roles contains the 'controller' role."
        in (str(refused.value))
    )
