"""A cluster whose nodes reach each other over TLS only, with certificates on both sides."""

from pathlib import Path

import pytest
import trio

from broker.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from tests.support.certificates import Identity, TestAuthority
from tests.support.running_cluster import COMBINED, RunningCluster, running_cluster

ROLES = {1: COMBINED, 2: COMBINED, 3: COMBINED, 4: "broker"}
WITHIN_S = 60


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path / "certificates")


def of_node(authority: TestAuthority, identity: Identity) -> dict[str, str]:
    """Configs of a node that takes certificates of this authority only, on all listeners, and shows its own."""
    return {
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL",
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(identity.file),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
    }


def client_of(authority: TestAuthority) -> dict[str, object]:
    alice = authority.issue("alice").file
    return {
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.file),
        "ssl.certificate.location": str(alice),
        "ssl.key.location": str(alice),
    }


async def in_sync(cluster: RunningCluster, replicas: int) -> None:
    """Waits until every partition of the topic has that many members of the ISR."""
    with trio.fail_after(WITHIN_S):
        while True:
            node = next(each.node for each in cluster.nodes.values() if each.is_up)
            assert node is not None
            assert node.loader is not None
            topic = node.loader.image.topics.by_name.get("orders")
            if topic is not None and all(len(each.isr) == replicas for each in topic.partitions.values()):
                return
            await trio.sleep(0.05)


async def test_replication_transactions_and_failover_go_over_tls(tmp_path: Path, authority: TestAuthority) -> None:
    nodes = {each: of_node(authority, authority.issue(f"node-{each}", "127.0.0.1")) for each in ROLES}
    config = client_of(authority)
    async with running_cluster(tmp_path, ROLES, of_nodes=nodes) as cluster:
        servers = ",".join(f"127.0.0.1:{cluster.port(each)}" for each in ROLES)
        with trio.fail_after(WITHIN_S):
            async with Admin(servers, config=config) as admin:
                await admin.create_topics([NewTopic("orders", 4, 4)])
            await in_sync(cluster, 4)
            transactional = {**config, "transactional.id": "mover"}
            async with Producer(servers, config=transactional) as producer:
                for number in range(3):
                    async with producer.transaction():
                        for partition in range(4):
                            await producer.send("orders", b"%d" % number, partition=partition)
                    if number == 0:
                        leader = await cluster.active_after()
                        await leader.crash()
        read = {"isolation.level": "read_committed", "auto.offset.reset": "earliest", **config}
        found = []
        with trio.fail_after(WITHIN_S):
            async with Consumer(servers, config=read) as consumer:
                consumer.assign([TopicPartition("orders", partition) for partition in range(4)])
                while len(found) < 12:
                    found += [(record.partition, record.value) for record in await consumer.fetch(timeout_s=10)]
        assert sorted(found) == [(partition, b"%d" % number) for partition in range(4) for number in range(3)]
        refused = [event for each in cluster.nodes.values() for event in each.traced.of("connection_not_secured")]
        assert refused == []


async def test_node_with_a_certificate_of_another_authority_is_not_let_in(
    tmp_path: Path, authority: TestAuthority
) -> None:
    stranger = TestAuthority(tmp_path / "stranger", "stranger")
    nodes = {each: of_node(authority, authority.issue(f"node-{each}", "127.0.0.1")) for each in (1, 2)}
    nodes[3] = of_node(authority, stranger.issue("node-3", "127.0.0.1"))
    async with running_cluster(
        tmp_path, {1: COMBINED, 2: COMBINED, 3: "broker"}, of_nodes=nodes, is_started=False
    ) as cluster:
        await cluster.start(1, 2)
        cluster.start_soon(3)
        active = await cluster.active_after()
        await cluster.until(lambda: bool(active.traced.of("connection_not_secured")))
        reason = str(active.traced.of("connection_not_secured")[0]["reason"])
        assert reason.startswith("the client's certificate is refused: ")
        lost = cluster.nodes[3].traced
        await cluster.until(lambda: bool(lost.of("rpc_connection_lost")))
        assert "alert unknown ca" in str(lost.of("rpc_connection_lost")[0]["reason"])
        assert cluster.nodes[3].node is not None
        assert not cluster.nodes[3].node.is_serving
