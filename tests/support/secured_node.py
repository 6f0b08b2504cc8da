"""A node with a listener for each way of authentication, and the credentials of its clients.

One node serves the whole matrix of clients and ways: SSL, SSL with client certificates, and SASL with and without TLS,
each with all mechanisms. Its PLAINTEXT listener is for the test itself.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from jepsen.processes.ports import free_ports
from tests.support.certificates import Identity, TestAuthority
from tests.support.identity_provider import AUDIENCE, ISSUER, claims_of, jwks, rsa_key
from tests.support.node_process import NodeProcess

USER: Final = "alice"
PASSWORD: Final = 'right "pass\\word'
WRONG_PASSWORD: Final = "wrong"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_PLAIN_LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


@attrs.frozen
class Way:
    """A way to authenticate: a listener, and a mechanism of SASL or none."""

    listener: str
    mechanism: str = ""

    @property
    def protocol(self) -> str:
        """The value of `security.protocol` for clients."""
        return "SSL" if self.listener == "MTLS" else self.listener

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    def __str__(self) -> str:
        return f"{self.listener}-{self.mechanism}".rstrip("-")


# Sessions of this way are short: clients have to authenticate again (KIP-368).
REAUTHENTICATING: Final = Way("SASL_PLAINTEXT", "SCRAM-SHA-256")
SESSION_S: Final = 3.0
WAYS: Final[Sequence[Way]] = (
    Way("SSL"),
    Way("MTLS"),
    *(Way(listener, mechanism) for listener in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS),
)


@attrs.frozen
class Credentials:
    """The secrets of a client, and the authority that it trusts. One of them is wrong if it
    is not the right client.

    `token_file` is a file with the token alone.
    """

    trusted: Path
    key_pair: Identity | None
    user: str
    password: str
    token_file: Path

    @property
    def token(self) -> str:
        return self.token_file.read_text()


class SecuredNode:
    """A running node, and right and wrong credentials for it."""

    def __init__(self, directory: Path, node: NodeProcess, authority: TestAuthority, ports: dict[str, int]) -> None:
        self._authority = authority
        self._stranger = TestAuthority(directory / "stranger", "stranger")
        self._client = authority.issue(USER, common_name=USER)
        self._ports = ports
        self.node = node
        self.token_file, self.wrong_token_file = directory / "token", directory / "wrong-token"
        self.token_file.write_text(rsa_key().sign(claims_of(USER)))
        self.wrong_token_file.write_text(rsa_key("stranger").sign(claims_of(USER), kid="first"))

    def address(self, way: Way) -> str:
        return f"localhost:{self._ports[way.listener]}"

    def right(self, way: Way) -> Credentials:
        key_pair = self._client if way.listener == "MTLS" else None
        return Credentials(self._authority.file, key_pair, USER, PASSWORD, self.token_file)

    def wrong(self, way: Way) -> Credentials:
        """Credentials of a client that has to be refused, or that has to refuse the node."""
        right = self.right(way)
        if way.listener == "SSL":
            return attrs.evolve(right, trusted=self._stranger.file)
        if way.listener == "MTLS":
            return attrs.evolve(right, key_pair=self._stranger.issue(USER, common_name=USER))
        if way.mechanism == "OAUTHBEARER":
            return attrs.evolve(right, token_file=self.wrong_token_file)
        return attrs.evolve(right, password=WRONG_PASSWORD)


def create_user_and_topic(node: SecuredNode, topic: str) -> None:
    """Create the user's SCRAM credentials, one of each mechanism, and a topic with one partition."""
    admin = AdminClient({"bootstrap.servers": node.node.bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        credential = ScramCredentialInfo(mechanism, 4096)
        changed = admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())]
        )
        changed[USER].result(timeout=10)
    admin.create_topics([NewTopic(topic, 1)])[topic].result(timeout=10)


@contextmanager
def secured_node(directory: Path) -> Iterator[SecuredNode]:
    """A node within the block. Users and topics have to be created by its PLAINTEXT listener."""
    directory.mkdir(parents=True, exist_ok=True)
    authority = TestAuthority(directory / "authority")
    listeners = ("SSL", "MTLS", "SASL_PLAINTEXT", "SASL_SSL")
    ports = dict(zip((*listeners, "PLAINTEXT", "CONTROLLER"), free_ports(len(listeners) + 2), strict=True))
    overrides = _configs(directory, authority, ports)
    node = NodeProcess(directory / "data", overrides, (ports["PLAINTEXT"], ports["CONTROLLER"]))
    try:
        node.start()
        yield SecuredNode(directory, node, authority, ports)
        node.stop()
    finally:
        node.discard()


def _configs(directory: Path, authority: TestAuthority, ports: dict[str, int]) -> dict[str, str]:
    keys = directory / "jwks.json"
    keys.write_bytes(jwks(rsa_key()))
    quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    configs = {
        "listeners": ",".join(f"{name}://localhost:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(
            f"{name}:{ {'MTLS': 'SSL', 'CONTROLLER': 'PLAINTEXT'}.get(name, name) }" for name in ports
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("node", "localhost", "127.0.0.1").file),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
        "listener.name.mtls.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sasl_plaintext.scram-sha-256.connections.max.reauth.ms": str(int(SESSION_S * 1000)),
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        prefix = f"listener.name.{listener}"
        configs[f"{prefix}.plain.sasl.jaas.config"] = f'{_PLAIN_LOGIN} required user_{USER}="{quoted}";'
    return configs
