"""A cluster whose brokers authenticate to each other by SASL."""

from pathlib import Path

import pytest
import trio

from broker.client import (
    Admin,
    Consumer,
    NewTopic,
    Producer,
    ScramMechanism,
    ScramUpsertion,
    TopicPartition,
)
from broker.node import Node
from broker.security.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE
from kraft.env import real_env
from metadata.configuration import InvalidConfig
from tests.support.running_cluster import RunningCluster, running_cluster
from tests.support.running_node import node_config

WITHIN_S = 60
JAAS = "listener.name.plaintext.plain.sasl.jaas.config"
CLIENT = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "alice-secret",
}


def between_brokers(mechanism: str, **overrides: str) -> dict[str, str]:
    """Configs of nodes whose listener for clients and brokers has SASL."""
    return {
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": mechanism,
        JAAS: f'{PLAIN_MODULE} required username="node" password="n" user_node="n" user_alice="alice-secret";',
        "listener.name.plaintext.scram-sha-256.sasl.jaas.config": (
            f'{SCRAM_MODULE} required username="node" password="scram-secret";'
        ),
        **overrides,
    }


async def until_in_sync(cluster: RunningCluster, replicas: int) -> None:
    with trio.fail_after(WITHIN_S):
        while True:
            node = cluster.nodes[1].node
            assert node is not None
            assert node.loader is not None
            topic = node.loader.image.topics.by_name.get("orders")
            if topic is not None and all(len(each.isr) == replicas for each in topic.partitions.values()):
                return
            await trio.sleep(0.05)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_replication_and_transactions_go_over_sasl(tmp_path: Path, mechanism: str) -> None:
    overrides = between_brokers(mechanism, **{"connections.max.reauth.ms": "2000"})
    async with running_cluster(tmp_path, 3, overrides=overrides) as cluster:
        servers = ",".join(f"127.0.0.1:{cluster.port(each)}" for each in cluster.nodes)
        with trio.fail_after(WITHIN_S):
            async with Admin(servers, config=CLIENT) as admin:
                node = ScramUpsertion("node", ScramMechanism.SCRAM_SHA_256, "scram-secret")
                (await admin.alter_user_scram_credentials([node])).raise_first()
                await admin.create_topics([NewTopic("orders", 3, 3, configs={"min.insync.replicas": "3"})])
            await until_in_sync(cluster, 3)
            transactional = {**CLIENT, "transactional.id": "mover"}
            async with Producer(servers, config=transactional) as producer:
                for number in range(3):
                    async with producer.transaction():
                        for partition in range(3):
                            await producer.send("orders", b"%d" % number, partition=partition)
                    await trio.sleep(1)  # the brokers authenticate again meanwhile
            read = {"isolation.level": "read_committed", "auto.offset.reset": "earliest", **CLIENT}
            async with Consumer(servers, config=read) as consumer:
                consumer.assign([TopicPartition("orders", partition) for partition in range(3)])
                found: list[bytes] = []
                while len(found) < 9:
                    found += [record.value or b"" for record in await consumer.fetch(timeout_s=10)]
        assert sorted(found) == sorted([b"0", b"1", b"2"] * 3)
        if mechanism == "PLAIN":
            assert not [each for node in cluster.nodes.values() for each in node.traced.of("authentication_failed")]


async def test_broker_with_a_wrong_password_replicates_nothing(tmp_path: Path) -> None:
    wrong = f'{PLAIN_MODULE} required username="node" password="x" user_node="n" user_alice="alice-secret";'
    async with running_cluster(tmp_path, 3, overrides=between_brokers("PLAIN"), of_nodes={3: {JAAS: wrong}}) as cluster:
        servers = f"127.0.0.1:{cluster.port(1)}"
        with trio.fail_after(WITHIN_S):
            async with Admin(servers, config=CLIENT) as admin:
                await admin.create_topics([NewTopic("orders", assignments={0: [1, 2, 3]})])
                async with Producer(servers, config=CLIENT) as producer:
                    await producer.send("orders", b"value", partition=0)
            await until_in_sync(cluster, 2)
            leader = cluster.nodes[1].traced
            assert {event["reason"] for event in leader.of("authentication_failed")} == {
                "Authentication failed: Invalid username or password"
            }


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {JAAS: f'{PLAIN_MODULE} required user_a="b";'},
            "listener.name.plaintext.plain.sasl.jaas.config: sasl.jaas.config has no option username",
        ),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "sasl.mechanism.inter.broker.protocol must be included"),
    ],
)
def test_configs_that_cannot_be_used_are_refused_at_the_start(
    tmp_path: Path, overrides: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidConfig, match=message):
        Node(real_env(lambda kind, /, **fields: None), node_config(tmp_path, **between_brokers("PLAIN", **overrides)))
