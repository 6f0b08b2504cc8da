"""Clusters whose nodes authenticate to each other by SASL: brokers only, or controllers too."""

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
from tests.support.certificates import TestAuthority
from tests.support.running_cluster import COMBINED, RunningCluster, running_cluster
from tests.support.running_node import node_config

WITHIN_S = 60
JAAS = "listener.name.plaintext.plain.sasl.jaas.config"
CONTROLLERS_JAAS = "listener.name.controller.plain.sasl.jaas.config"
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


def everywhere(**overrides: str) -> dict[str, str]:
    """Configs of nodes that authenticate by PLAIN on all listeners, of which only their own user may take part."""
    return {
        **between_brokers("PLAIN"),
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.mechanism.controller.protocol": "PLAIN",
        CONTROLLERS_JAAS: f'{PLAIN_MODULE} required username="node" password="c" user_node="c" user_eve="e";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:node;User:alice",
        **overrides,
    }


async def until_in_sync(cluster: RunningCluster, replicas: int, node_id: int = 1) -> None:
    with trio.fail_after(WITHIN_S):
        while True:
            node = cluster.nodes[node_id].node
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
    # Until this time is over, the replica may still become part of the ISR.
    lag = {"replica.lag.time.max.ms": "1000", "replica.fetch.wait.max.ms": "200"}
    overrides = between_brokers("PLAIN", **lag)
    async with running_cluster(tmp_path, 3, overrides=overrides, of_nodes={3: {JAAS: wrong}}) as cluster:
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
    ("protocol", "roles"),
    [
        ("SASL_PLAINTEXT", dict.fromkeys(range(1, 4), COMBINED)),
        ("SASL_PLAINTEXT", dict.fromkeys(range(1, 4), "controller") | dict.fromkeys(range(4, 7), "broker")),
        ("SASL_SSL", dict.fromkeys(range(1, 4), COMBINED) | {4: "broker"}),
    ],
    ids=["combined", "separate", "tls"],
)
async def test_cluster_with_sasl_on_all_listeners_survives_the_loss_of_its_leader(
    tmp_path: Path, protocol: str, roles: dict[int, str]
) -> None:
    authority = TestAuthority(tmp_path / "certificates")
    overrides = everywhere(
        **{
            "listener.security.protocol.map": f"PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:{protocol}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.issue("node", "127.0.0.1").file),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.file),
        }
    )
    async with running_cluster(tmp_path, roles, overrides=overrides) as cluster:
        servers = ",".join(f"127.0.0.1:{cluster.port(each)}" for each in roles if "broker" in roles[each])
        with trio.fail_after(WITHIN_S):
            async with Admin(servers, config=CLIENT) as admin, Producer(servers, config=CLIENT) as producer:
                await admin.create_topics([NewTopic("orders", 3, 3, configs={"min.insync.replicas": "2"})])
                await until_in_sync(cluster, 3)
                leader, epoch = await cluster.active_after(), cluster.epoch
                await leader.crash()
                await cluster.active_after(epoch)
                for partition in range(3):
                    await producer.send("orders", b"%d" % partition, partition=partition)
                await admin.create_topics([NewTopic("after", 1, 2)])
                await cluster.start(leader.node_id)
                await until_in_sync(cluster, 3, leader.node_id)
        traced = [node.traced for node in cluster.nodes.values()]
    assert not [event for each in traced for event in each.of("authentication_failed")]
    assert not [event for each in traced for event in each.of("quorum_replica_refused")]


async def test_quorum_goes_on_while_its_sessions_end(tmp_path: Path) -> None:
    """`connections.max.reauth.ms` of the controllers' listener ends links of the quorum, which connect again.

    Clients re-authenticate after 85 % of it at the earliest, and at most once in a second.
    """
    overrides = everywhere(**{"listener.name.controller.connections.max.reauth.ms": "1500"})
    async with running_cluster(tmp_path, 3, overrides=overrides) as cluster:
        await cluster.active_after()
        epoch = cluster.epoch
        servers = f"127.0.0.1:{cluster.port(1)}"
        with trio.fail_after(WITHIN_S):
            async with Admin(servers, config=CLIENT) as admin:
                for number in range(12):
                    await admin.create_topics([NewTopic(f"topic-{number}", 1, 3)])
                    await trio.sleep(0.5)
        assert cluster.epoch == epoch
        traced = [node.traced for node in cluster.nodes.values()]
    ended = [
        event
        for each in traced
        for event in each.of("rpc_connection_lost")
        if event["reason"] == "the session of this connection ends"
    ]
    assert len(ended) >= 6  # three or more of each follower
    assert not [event for each in traced for event in each.of("authentication_failed")]
    assert not [event for each in traced for event in each.of("controller_connection_lost")]


async def test_controller_with_a_wrong_password_does_not_disturb_the_others(tmp_path: Path) -> None:
    wrong = f'{PLAIN_MODULE} required username="node" password="x" user_node="c";'
    of_nodes = {3: {CONTROLLERS_JAAS: wrong}}
    async with running_cluster(tmp_path, 3, overrides=everywhere(), of_nodes=of_nodes, is_started=False) as cluster:
        await cluster.start(1, 2)
        epoch = cluster.epoch
        cluster.start_soon(3)
        refused, others = cluster.nodes[3].traced, [cluster.nodes[1].traced, cluster.nodes[2].traced]
        await cluster.until(lambda: bool(refused.of("quorum_connection_refused")))
        await cluster.until(lambda: any(each.of("authentication_failed") for each in others))
        async with Admin(f"127.0.0.1:{cluster.port(1)}", config=CLIENT) as admin:
            with trio.fail_after(WITHIN_S):
                await admin.create_topics([NewTopic("orders", 1, 2)])
                await trio.sleep(3)  # of elections, if the refused node could begin any
        assert cluster.epoch == epoch
    assert {event["reason"] for event in refused.of("quorum_connection_refused")} == {
        "the broker refuses the credentials for PLAIN: Authentication failed: Invalid username or password"
    }
    failed = [event for each in others for event in each.of("authentication_failed")]
    assert {(event["listener"], event["mechanism"], event["reason"]) for event in failed} == {
        ("CONTROLLER", "PLAIN", "Authentication failed: Invalid username or password")
    }
    assert "x" not in {str(value) for _, event in refused.events for value in event.values()}


async def test_another_user_may_not_take_part_in_the_quorum(tmp_path: Path) -> None:
    eve = f'{PLAIN_MODULE} required username="eve" password="e" user_node="c" user_eve="e";'
    of_nodes = {3: {CONTROLLERS_JAAS: eve}}
    async with running_cluster(tmp_path, 3, overrides=everywhere(), of_nodes=of_nodes, is_started=False) as cluster:
        await cluster.start(1, 2)
        cluster.start_soon(3)
        refused, others = cluster.nodes[3].traced, [cluster.nodes[1].traced, cluster.nodes[2].traced]
        await cluster.until(lambda: any(each.of("quorum_replica_refused") for each in others))
        await cluster.until(lambda: bool(refused.of("quorum_connection_refused")))
    principals = {event["principal"] for each in others for event in each.of("quorum_replica_refused")}
    assert principals == {"User:eve"}


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
async def test_controller_with_another_protocol_than_the_others_is_named(tmp_path: Path, protocol: str) -> None:
    """The third node has this protocol for controllers, and the others have the other one."""
    others = "PLAINTEXT" if protocol == "SASL_PLAINTEXT" else "SASL_PLAINTEXT"
    key = "listener.security.protocol.map"
    overrides = everywhere(**{key: f"PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:{others}"})
    overrides["super.users"] += ";User:ANONYMOUS"
    of_nodes = {3: {key: f"PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:{protocol}"}}
    async with running_cluster(tmp_path, 3, overrides=overrides, of_nodes=of_nodes, is_started=False) as cluster:
        await cluster.start(1, 2)
        cluster.start_soon(3)
        third, first = cluster.nodes[3].traced, cluster.nodes[1].traced
        if protocol == "SASL_PLAINTEXT":
            await cluster.until(lambda: bool(third.of("quorum_connection_refused")))
            reason = str(third.of("quorum_connection_refused")[0]["reason"])
            assert reason.startswith("the broker's listener has no SASL")
        else:
            reason = "a replica of the quorum has to authenticate by SASL before its Hello"
            await cluster.until(lambda: any(each["reason"] == reason for each in first.of("connection_closed")))


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


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"sasl.mechanism.controller.protocol": "SCRAM-SHA-256"},
            "sasl.mechanism.controller.protocol=SCRAM-SHA-256 cannot be used: its passwords are in the metadata log",
        ),
        (
            {"sasl.mechanism.controller.protocol": "GSSAPI"},
            "sasl.mechanism.controller.protocol=GSSAPI must be included in sasl.enabled.mechanisms of the controllers'",
        ),
        (
            {"listener.name.controller.sasl.enabled.mechanisms": "SCRAM-SHA-256"},
            "sasl.mechanism.controller.protocol=PLAIN must be included",
        ),
        (
            {CONTROLLERS_JAAS: f'{PLAIN_MODULE} required user_a="b";'},
            "listener.name.controller.plain.sasl.jaas.config: sasl.jaas.config has no option username",
        ),
    ],
)
def test_login_to_controllers_that_cannot_work_is_refused_at_the_start(
    tmp_path: Path, overrides: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidConfig, match=message):
        Node(real_env(lambda kind, /, **fields: None), node_config(tmp_path, **everywhere(**overrides)))
