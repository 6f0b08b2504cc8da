"""Apache Kafka's own tools with delegation tokens of our node, and with tokens of an identity provider."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import apache_kafka
from broker.client import SyncConsumer, TopicPartition
from broker.security.sasl.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE
from tests.support.identity_provider import IdentityProvider, identity_provider
from tests.support.oauth_node import Servers, oauth_process

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("kafka_jars")]

_TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def servers(provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with oauth_process(
        tmp_path_factory.mktemp("java-tokens"),
        provider,
        sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        listener_name_clients_plain_sasl_jaas_config=f'{PLAIN_MODULE} required user_alice="a";',
        delegation_token_secret_key="the secret of the cluster",
    ) as servers:
        yield servers


def run(
    main: str, servers: Servers, config: Path, *arguments: str, given: str = "", options: tuple[str, ...] = ()
) -> str:
    """The output of one of Kafka's tools, which has to succeed."""
    line = apache_kafka.java(main, "--bootstrap-server", servers.sasl, "--command-config", str(config), *arguments)
    line[1:1] = options
    ended = subprocess.run(line, input=given, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def client_config(directory: Path, mechanism: str, module: str, **others: str) -> Path:
    """A properties file; `_` in the name of a key stands for `.`."""
    keys = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": module}
    keys |= {key.replace("_", "."): value for key, value in others.items()}
    file = directory / f"{mechanism}.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    return file


def values_of(servers: Servers, topic: str) -> list[bytes | None]:
    with SyncConsumer(servers.plaintext, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return [record.value for record in consumer.fetch()]


def test_kafkas_tools_create_use_and_expire_a_delegation_token(servers: Servers, topic: str, tmp_path: Path) -> None:
    owner = client_config(tmp_path, "PLAIN", f'{PLAIN_MODULE} required username="alice" password="a";')
    created = run(
        _TOKENS, servers, owner, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"
    )
    token_id, hmac, shown_owner, *_ = created.splitlines()[-1].split()
    assert shown_owner == "User:alice"
    module = f'{SCRAM_MODULE} required username="{token_id}" password="{hmac}" tokenauth="true";'
    holder = client_config(tmp_path, "SCRAM-SHA-256", module)
    run(_PRODUCER, servers, holder, "--topic", topic, given="by token\n")
    assert values_of(servers, topic) == [b"by token"]
    described = run(_TOKENS, servers, owner, "--describe", "--owner-principal", "User:alice")
    assert "Total number of tokens : 1" in described
    assert hmac in described
    run(_TOKENS, servers, owner, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)


def test_kafkas_producer_authenticates_with_client_credentials(
    servers: Servers, provider: IdentityProvider, topic: str, tmp_path: Path
) -> None:
    config = client_config(
        tmp_path,
        "OAUTHBEARER",
        f'{OAUTHBEARER_MODULE} required clientId="alice" clientSecret="alice-secret" scope="write";',
        sasl_login_callback_handler_class="org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        sasl_oauthbearer_token_endpoint_url=provider.token_url,
    )
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.token_url}"
    run(_PRODUCER, servers, config, "--topic", topic, given="by a token of Java's\n", options=(allowed,))
    assert values_of(servers, topic) == [b"by a token of Java's"]
    assert ("alice", "write") in provider.grants
