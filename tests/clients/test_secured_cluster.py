"""Three node processes with mTLS between them, and clients with SCRAM over TLS, while certificates, users and nodes
change under writes with acks=all.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from broker.client import (
    Admin,
    AuthenticationFailed,
    ConnectionLost,
    Consumer,
    NewTopic,
    Producer,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
    TopicPartition,
)
from broker.net.tls_stream import start_tls
from broker.wire.api.metadata import MetadataRequest
from jepsen.processes.cluster_status import topic_status
from jepsen.processes.nodes import NodeProcess, ProcessCluster, issue_certificate, running_cluster
from jepsen.workloads.connection import Connection, read_security
from tests.support.linux import needs_loopback_addresses

pytestmark = pytest.mark.clients

TOPIC = "orders"
GUEST = "guest"
WITHIN_S = 60.0
QUICK = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}


@attrs.define
class Writes:
    """The records that were acknowledged. Every other outcome fails the test."""

    acknowledged: int = 0

    async def next(self, count: int = 50) -> None:
        """Wait until so many further records are acknowledged."""
        target = self.acknowledged + count
        with trio.fail_after(WITHIN_S):
            while self.acknowledged < target:
                await trio.sleep(0.02)


@asynccontextmanager
async def writing(cluster: ProcessCluster, writes: Writes, **settings: int) -> AsyncIterator[None]:
    """Write records with acks=all, one after the other, until the block ends."""
    stopping = trio.Event()

    async def write(producer: Producer[bytes, bytes]) -> None:
        while not stopping.is_set():
            await producer.send(TOPIC, b"%d" % writes.acknowledged)
            writes.acknowledged += 1

    async with (
        Producer(cluster.bootstrap, config=cluster.client_configs, linger_ms=0, **settings) as producer,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(write, producer)
        yield
        stopping.set()


async def served_certificate(cluster: ProcessCluster, node: NodeProcess) -> bytes | None:
    tls = read_security(cluster.client_configs).tls
    assert tls is not None
    transport = await trio.open_tcp_stream("127.0.0.1", node.ports.open)
    async with await start_tls(transport, tls(), server_hostname="127.0.0.1") as stream:
        return stream.peer_certificate


async def replace_certificates(cluster: ProcessCluster, writes: Writes) -> None:
    nodes = list(cluster.nodes.values())
    before = [await served_certificate(cluster, node) for node in nodes]
    for node in nodes:
        issue_certificate(cluster, node)
    for node, certificate in zip(nodes, before, strict=True):
        with trio.fail_after(WITHIN_S):
            while await served_certificate(cluster, node) == certificate:
                await trio.sleep(0.1)
    await writes.next()


async def add_and_remove_a_user(cluster: ProcessCluster) -> None:
    """The connection of a removed user ends with its session, and its next authentication is refused (KIP-368)."""
    node = cluster.nodes["n1"]
    security = read_security({**cluster.client_configs, "sasl.username": GUEST, "sasl.password": "secret"})

    async def connected() -> Connection:
        return await Connection.open(("127.0.0.1", node.ports.open), 0, security=security)

    async with Admin(cluster.bootstrap, config=cluster.client_configs) as admin:
        addition = ScramUpsertion(GUEST, ScramMechanism.SCRAM_SHA_512, "secret")
        (await admin.alter_user_scram_credentials([addition])).raise_first()
        with trio.fail_after(WITHIN_S):
            while True:
                try:
                    connection = await connected()
                    break
                except AuthenticationFailed:  # the node has not applied the change yet
                    await trio.sleep(0.05)
        deletion = ScramDeletion(GUEST, ScramMechanism.SCRAM_SHA_512)
        (await admin.alter_user_scram_credentials([deletion])).raise_first()
    with trio.fail_after(WITHIN_S), pytest.raises(ConnectionLost):
        await ask_again_and_again(connection)
    await connection.aclose()
    with pytest.raises(AuthenticationFailed, match="invalid credentials"):
        await connected()


async def ask_again_and_again(connection: Connection) -> None:
    while True:
        assert (await connection.call(MetadataRequest(topics=[]), 12)).brokers
        await trio.sleep(0.1)


async def kill_and_start(cluster: ProcessCluster, name: str, writes: Writes) -> None:
    node = cluster.nodes[name]
    await node.kill()
    await writes.next()
    await node.start()
    await node.wait_serving()
    with trio.fail_after(WITHIN_S):
        while not await is_whole(cluster):
            await trio.sleep(0.1)
    await writes.next()


async def is_whole(cluster: ProcessCluster) -> bool:
    seen = [await topic_status(node, TOPIC) for node in cluster.nodes.values()]
    return all(each is not None and all(partition.is_whole for partition in each) for each in seen)


@needs_loopback_addresses  # of the links between the nodes
async def test_certificates_users_and_nodes_change_without_a_lost_acknowledgement(tmp_path: Path) -> None:
    writes = Writes()
    async with running_cluster(tmp_path, overrides=QUICK, is_secured=True) as cluster:
        async with Admin(cluster.bootstrap, config=cluster.client_configs) as admin:
            await admin.create_topics([NewTopic(TOPIC, num_partitions=1)])
        # No request may fail while certificates and users change.
        async with writing(cluster, writes, retries=0), trio.open_nursery() as nursery:
            nursery.start_soon(replace_certificates, cluster, writes)
            nursery.start_soon(add_and_remove_a_user, cluster)
        async with writing(cluster, writes):
            await kill_and_start(cluster, "n2", writes)
        async with Consumer(cluster.bootstrap, config=cluster.client_configs) as consumer:
            ends = await consumer.end_offsets([TopicPartition(TOPIC, 0)])
        assert list(ends.values()) == [writes.acknowledged]
