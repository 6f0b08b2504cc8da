"""Apache Kafka's Java client against each way of authentication: right credentials work, wrong ones are refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from tests.support.certificates import Identity
from tests.support.java_program import JavaError, JavaPrograms, JavaSession, java_session
from tests.support.secured_node import WAYS, Credentials, SecuredNode, Way, create_user_and_topic, secured_node

TOPIC = "written-from-java"
_LOGINS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_FROM_FILE = "org.apache.kafka.common.security.oauthbearer.FileJwtRetriever"


@pytest.fixture(scope="module")
def node(java_programs: JavaPrograms, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    with secured_node(tmp_path_factory.mktemp("secured")) as secured:
        create_user_and_topic(secured, TOPIC)
        yield secured


@pytest.fixture(scope="module")
def session(java_programs: JavaPrograms, node: SecuredNode) -> Iterator[JavaSession]:
    tokens = f"{node.token_file.as_uri()},{node.wrong_token_file.as_uri()}"
    with java_session(java_programs, "", f"org.apache.kafka.sasl.oauthbearer.allowed.urls={tokens}") as running:
        yield running


def pkcs8_file(identity: Identity) -> Path:
    """The key and the certificate in a file in which the key has the only form that Java reads, PKCS#8."""
    key = load_pem_private_key(identity.key.encode(), None)
    file = identity.file.with_suffix(".pkcs8")
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    file.write_text(text + identity.chain)
    return file


def settings(node: SecuredNode, way: Way, credentials: Credentials) -> dict[str, object]:
    """The client's configs as in a properties file of Kafka's documentation."""
    configs: dict[str, object] = {"bootstrap.servers": node.address(way), "security.protocol": way.protocol}
    if way.has_tls:
        configs |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(credentials.trusted)}
    if credentials.key_pair is not None:
        configs |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(pkcs8_file(credentials.key_pair))}
    if way.mechanism == "OAUTHBEARER":
        configs |= {
            "sasl.mechanism": way.mechanism,
            "sasl.jaas.config": f"{_OAUTH} required;",
            "sasl.oauthbearer.jwt.retriever.class": _FROM_FILE,
            "sasl.oauthbearer.token.endpoint.url": credentials.token_file.as_uri(),
            "sasl.login.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
            ),
        }
    elif way.mechanism:
        password = credentials.password.replace("\\", "\\\\").replace('"', '\\"')
        login = f'{_LOGINS[way.mechanism]} required username="{credentials.user}" password="{password}";'
        configs |= {"sasl.mechanism": way.mechanism, "sasl.jaas.config": login}
    return configs


def write_and_read(session: JavaSession, configs: dict[str, object], value: str) -> list[str]:
    session.call("producer", "produce", {**configs, "max.block.ms": "10000"})
    try:
        session.call("producer", "send", TOPIC, 0, value)
    finally:
        session.call("producer", "close")
    session.call("consumer", "consume", {**configs, "auto.offset.reset": "earliest"})
    try:
        found: list[str] = session.call("consumer", "readAll", TOPIC, 1)
        return found
    finally:
        session.call("consumer", "close")


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_right_credentials_work(session: JavaSession, node: SecuredNode, way: Way) -> None:
    assert f"by {way}" in write_and_read(session, settings(node, way, node.right(way)), f"by {way}")


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_wrong_credentials_are_refused(session: JavaSession, node: SecuredNode, way: Way) -> None:
    with pytest.raises(JavaError) as refused:
        write_and_read(session, settings(node, way, node.wrong(way)), "never written")
    assert refused.value.name == ("SaslAuthenticationException" if way.mechanism else "SslAuthenticationException")
