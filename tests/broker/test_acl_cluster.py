"""A cluster whose clients authenticate by SASL, and whose nodes decide by access control entries."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
import trio

from broker.client import (
    AclBinding,
    AclFilter,
    AclOperation,
    Admin,
    Consumer,
    ErrorCode,
    KafkaError,
    NewTopic,
    PatternType,
    Producer,
    ResourceType,
)
from broker.security.acls import STANDARD_AUTHORIZER
from broker.security.sasl.jaas import PLAIN_MODULE
from tests.support.running_cluster import RunningCluster, running_cluster

WITHIN_S: Final = 60
# Nodes 2 and 3 forward the changes of clients to node 1, in whose place the client must be authorized.
ROLES: Final = {1: "broker,controller", 2: "broker", 3: "broker"}
OVERRIDES: Final = {
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'{PLAIN_MODULE} required username="node" password="n" user_node="n" user_admin="a" user_alice="s";'
    ),
    "authorizer.class.name": STANDARD_AUTHORIZER,
    # The nodes are anonymous to each other's controllers.
    "super.users": "User:node;User:admin;User:ANONYMOUS",
}
ALICES: Final = (
    AclBinding(ResourceType.TOPIC, "ord", "User:alice", AclOperation.WRITE, pattern_type=PatternType.PREFIXED),
    AclBinding(ResourceType.TOPIC, "orders", "User:alice", AclOperation.READ),
    AclBinding(ResourceType.GROUP, "app", "User:alice", AclOperation.READ),
)


def login(user: str, password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
    }


ADMIN: Final = login("admin", "a")
ALICE: Final = login("alice", "s")


def servers_of(cluster: RunningCluster, *nodes: int) -> str:
    return ",".join(f"127.0.0.1:{cluster.port(each)}" for each in nodes or cluster.nodes)


async def add_entries(cluster: RunningCluster, entries: Sequence[AclBinding], through: int = 2) -> None:
    async with Admin(servers_of(cluster, through), config=ADMIN) as admin:
        (await admin.create_acls(entries)).raise_first()
    await cluster.until_images_match()


async def refusal_of_produce(cluster: RunningCluster, node: int) -> ErrorCode:
    async with Producer(servers_of(cluster, node), config=ALICE) as producer:
        with pytest.raises(KafkaError) as refused:
            await producer.send("orders", b"value", partition=node - 1)
    return refused.value.code


async def test_clients_may_do_on_every_node_as_entries_allow(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, ROLES, overrides=OVERRIDES) as cluster:
        with trio.fail_after(WITHIN_S):
            async with Admin(servers_of(cluster), config=ADMIN) as admin:
                # Each node leads one partition.
                assignments = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
                configs = {"min.insync.replicas": "3"}
                (
                    await admin.create_topics([NewTopic("orders", assignments=assignments, configs=configs)])
                ).raise_first()
            await cluster.until_images_match()
            for node in ROLES:
                assert await refusal_of_produce(cluster, node) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            await add_entries(cluster, ALICES)
            async with Producer(servers_of(cluster), config=ALICE) as producer:
                for partition in range(3):
                    await producer.send("orders", b"%d" % partition, partition=partition)
            reading = {"group.id": "app", "auto.offset.reset": "earliest", **ALICE}
            async with Consumer(servers_of(cluster), config=reading) as consumer:
                consumer.subscribe(["orders"])
                found: set[bytes | None] = set()
                while len(found) < 3:
                    found |= {record.value for record in await consumer.fetch(timeout_s=10)}
            assert found == {b"0", b"1", b"2"}
            async with Admin(servers_of(cluster, 3), config=ADMIN) as admin:
                await admin.delete_acls([AclFilter(principal="User:alice", operation=AclOperation.WRITE)])
            await cluster.until_images_match()
            # She still sees the topic. The producer first asks for an id, which needs WRITE on any topic.
            for node in ROLES:
                assert await refusal_of_produce(cluster, node) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_forwarded_changes_are_authorized_as_the_clients(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, ROLES, overrides=OVERRIDES) as cluster:
        with trio.fail_after(WITHIN_S):
            for number, node in enumerate(ROLES):
                async with Admin(servers_of(cluster, node), config=ALICE) as admin:
                    created = await admin.create_topics([NewTopic(f"orders-{number}", 1, 1)])
                    assert [each.code for each in created.failed.values() if isinstance(each, KafkaError)] == [
                        ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    ]
                    added = await admin.create_acls(ALICES[:1])
                    assert [each.code for each in added.failed.values() if isinstance(each, KafkaError)] == [
                        ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                    ]
            creating = AclBinding(
                ResourceType.TOPIC, "orders-", "User:alice", AclOperation.CREATE, pattern_type=PatternType.PREFIXED
            )
            await add_entries(cluster, [creating], through=3)
            for number, node in enumerate(ROLES):
                async with Admin(servers_of(cluster, node), config=ALICE) as admin:
                    (await admin.create_topics([NewTopic(f"orders-{number}", 1, 1)])).raise_first()
        refused = [event for node in cluster.nodes.values() for event in node.traced.of("authorization_refused")]
        assert {event["principal"] for event in refused} == {"User:alice"}


async def test_entries_are_kept_by_a_restart_of_all_nodes(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, ROLES, overrides=OVERRIDES) as cluster:
        with trio.fail_after(WITHIN_S):
            await add_entries(cluster, ALICES)
            for node in reversed(cluster.nodes.values()):
                await node.crash()
            await cluster.start()
            async with Admin(servers_of(cluster, 3), config=ADMIN) as admin:
                assert set(await admin.describe_acls()) == set(ALICES)
