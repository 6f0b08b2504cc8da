"""A cluster whose nodes authenticate to each other with tokens of an identity provider."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from broker.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from broker.node import Node
from kraft.env import real_env
from metadata.configuration import InvalidConfig
from tests.support.identity_provider import AUDIENCE, IdentityProvider, identity_provider
from tests.support.running_cluster import running_cluster
from tests.support.running_node import node_config

WITHIN_S = 60


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


def between_brokers(provider_url: str, **overrides: str) -> dict[str, str]:
    """Configs of nodes whose listener for clients and brokers has OAUTHBEARER."""
    return {
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"{provider_url}/jwks",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.allow.unverified.issuer": "true",
        "sasl.oauthbearer.token.endpoint.url": f"{provider_url}/token",
        "sasl.oauthbearer.client.credentials.client.id": "broker",
        "sasl.oauthbearer.client.credentials.client.secret": "broker-secret",
        **overrides,
    }


@pytest.mark.parametrize("controllers", ["PLAINTEXT", "SASL_PLAINTEXT"])
async def test_replication_goes_on_while_tokens_of_nodes_expire(
    tmp_path: Path, provider: IdentityProvider, controllers: str
) -> None:
    provider.secrets["broker"] = "broker-secret"
    provider.lifetime_s = 4
    client = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "oauth_token": provider.token}
    configs = {
        "listener.security.protocol.map": f"PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:{controllers}",
        "sasl.mechanism.controller.protocol": "OAUTHBEARER",
    }
    async with running_cluster(tmp_path, 3, overrides=between_brokers(provider.url, **configs)) as cluster:
        servers = ",".join(f"127.0.0.1:{cluster.port(each)}" for each in cluster.nodes)
        with trio.fail_after(WITHIN_S):
            async with Admin(servers, config=client) as admin:
                await admin.create_topics([NewTopic("orders", 1, 3, configs={"min.insync.replicas": "3"})])
            async with Producer(servers, config=client) as producer:
                for number in range(7):
                    await producer.send("orders", b"%d" % number, partition=0)
                    await trio.sleep(1)
            async with Consumer(servers, config=client | {"auto.offset.reset": "earliest"}) as consumer:
                consumer.assign([TopicPartition("orders", 0)])
                found: list[bytes] = []
                while len(found) < 7:
                    found += [record.value or b"" for record in await consumer.fetch(timeout_s=10)]
        assert found == [b"%d" % number for number in range(7)]
    assert {client_id for client_id, _ in provider.grants} == {"broker"}
    assert len(provider.grants) >= 4  # at least two of each follower


async def test_quorum_forms_although_tokens_take_longer_than_a_connection_waits(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    """Connections between nodes are given up after a second."""
    provider.secrets["broker"] = "broker-secret"
    provider.pause_s = 1.5
    configs = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.mechanism.controller.protocol": "OAUTHBEARER",
    }
    async with running_cluster(tmp_path, 3, overrides=between_brokers(provider.url, **configs)) as cluster:
        await cluster.active_after()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sasl.oauthbearer.client.credentials.client.secret", None),
        ("sasl.oauthbearer.token.endpoint.url", None),
        ("sasl.oauthbearer.token.endpoint.url", "ftp://x"),
    ],
)
def test_configs_that_give_no_tokens_are_refused_at_the_start(tmp_path: Path, key: str, value: str | None) -> None:
    settings: dict[str, object] = {**between_brokers("http://127.0.0.1:1"), key: value}
    given = {name: text for name, text in settings.items() if text is not None}
    with pytest.raises(InvalidConfig, match="login to listener PLAINTEXT has no token"):
        Node(real_env(lambda kind, /, **fields: None), node_config(tmp_path, **given))
