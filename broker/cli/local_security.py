"""The security of a local cluster: its certificates, its users, and ready-made configurations of clients.

<directory>/security/ca.pem           the certificate that clients trust
<directory>/security/node-1.pem       the key and the certificate of a node
<directory>/security/client.pem       those of the client, if clients need one
<directory>/security/java.properties  the configuration of a client; others are for librdkafka, Spark and this package

Files with keys and passwords are readable by their owner only. The key that signed the certificates is not kept.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import attrs
import trio

from broker.cli.private_files import write_private
from broker.node.initial_users import initial_user
from broker.security.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE
from broker.security.sasl.plain import PLAIN
from kraft.env import Env
from metadata.protocol import SecurityProtocol
from metadata.records import UserScramCredentialRecord

if TYPE_CHECKING:
    from broker.security.tls.private_authority import PrivateAuthority

# The name of the controllers' listener.
CONTROLLER: Final = "CONTROLLER"
# The users of a new cluster. Nodes are one user to each other, and the administrator is the one of the client.
NODE_USER: Final = "node"
ADMIN_USER: Final = "admin"
MECHANISM: Final = "SCRAM-SHA-512"
_MECHANISMS: Final = (MECHANISM, "SCRAM-SHA-256")
_DIRECTORY: Final = "security"
_CA_FILE: Final = "ca.pem"
_CLIENT_FILE: Final = "client.pem"
# The principal of a certificate is its common name.
_COMMON_NAME_RULE: Final = "RULE:^CN=([^,]+)$/$1/,DEFAULT"
_CLIENT_FILES: Final = {
    "java.properties": "Java clients and Kafka's tools",
    "kraft.properties": "kraft --command-config, and the clients of this package",
    "librdkafka.properties": "confluent-kafka, kcat -F and other clients on librdkafka",
    "spark.properties": "Spark, as options of the source and the sink",
}
_PASSWORD_BYTES: Final = 16
_PRIVATE_DIRECTORY_MODE: Final = 0o700
_LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")


class MissingCryptography(Exception):
    """A package is not installed that makes certificates."""


class LocalSecurity(StrEnum):
    """How the clients of a local cluster connect: the values of `--security`."""

    PLAINTEXT = "plaintext"
    SSL = "ssl"
    MTLS = "mtls"
    SASL_PLAINTEXT = "sasl_plaintext"
    SASL_SSL = "sasl_ssl"

    @classmethod
    def of(cls, protocol: SecurityProtocol, client_auth: str) -> "LocalSecurity":
        """The security of an existing cluster, by the protocol of its clients' listener and `ssl.client.auth`."""
        if protocol is SecurityProtocol.SSL and client_auth == "required":
            return cls.MTLS
        return cls(protocol.name.lower())

    @property
    def protocol(self) -> SecurityProtocol:
        return SecurityProtocol.SSL if self is LocalSecurity.MTLS else SecurityProtocol[self.name]

    @property
    def has_tls(self) -> bool:
        return self.protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self.protocol in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@attrs.frozen
class ClusterSecrets:
    """The certificates and passwords of a new cluster. `passwords` are those of its users, by name."""

    security: LocalSecurity
    directory: str
    passwords: Mapping[str, str] = attrs.field(repr=False)

    @classmethod
    def make(
        cls, env: Env, security: LocalSecurity, cluster_directory: str, node_ids: Sequence[int]
    ) -> "ClusterSecrets":
        """Make certificates and passwords. Raises MissingCryptography, OSError."""
        users = (NODE_USER, ADMIN_USER) if security.has_sasl else ()
        passwords = {user: env.rng.randbytes(_PASSWORD_BYTES).hex() for user in users}
        secrets = cls(security, f"{cluster_directory}/{_DIRECTORY}", passwords)
        authority = _new_authority(env.wall()) if security.has_tls else None  # its failure leaves no directory
        if security is not LocalSecurity.PLAINTEXT:
            # Only the owner may read the metadata log, which has the credentials of users.
            os.makedirs(cluster_directory, _PRIVATE_DIRECTORY_MODE, exist_ok=True)
            os.makedirs(secrets.directory, _PRIVATE_DIRECTORY_MODE, exist_ok=True)
        if authority is not None:
            secrets._issue_certificates(authority, node_ids)
        return secrets

    def users(self, env: Env) -> list[UserScramCredentialRecord]:
        """The users that the cluster begins with."""
        return [initial_user(MECHANISM, name, self.passwords[name], env.rng.randbytes) for name in self.passwords]

    def node_settings(self, node_id: int) -> dict[str, str]:
        """The configs of a node for its security; those of Kafka's defaults are left out."""
        if self.security is LocalSecurity.PLAINTEXT:
            return {}
        protocol = self.security.protocol
        controllers = SecurityProtocol.SSL if self.security.has_tls else protocol
        settings = {
            "listener.security.protocol.map": f"{CONTROLLER}:{controllers.name},{protocol.name}:{protocol.name}"
        }
        if self.security.has_tls:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": self._path(f"node-{node_id}.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self._path(_CA_FILE),
                "ssl.principal.mapping.rules": _COMMON_NAME_RULE,
                "ssl.client.auth": "required" if self.security is LocalSecurity.MTLS else "none",
                f"listener.name.{CONTROLLER.lower()}.ssl.client.auth": "required",
            }
        if self.security.has_sasl:
            settings |= self._sasl_settings(protocol)
        if self.security is not LocalSecurity.SSL:
            settings |= {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": f"User:{NODE_USER};User:{ADMIN_USER}",
                "allow.everyone.if.no.acl.found": "true",
            }
        return settings

    def write_client_files(self, servers: str) -> None:
        """Write configurations of a client, which is the administrator; none without security. Raises OSError."""
        if self.security is LocalSecurity.PLAINTEXT:
            return
        java = {"bootstrap.servers": servers, **self._java_settings()}
        librdkafka = {"bootstrap.servers": servers, **self._librdkafka_settings()}
        contents = {
            "java.properties": java,
            "kraft.properties": java,
            "librdkafka.properties": librdkafka,
            "spark.properties": {f"kafka.{key}": value for key, value in java.items()},
        }
        for name, purpose in _CLIENT_FILES.items():
            lines = [f"# For {purpose}.", *(f"{key}={value}" for key, value in contents[name].items()), ""]
            write_private(self._path(name), "\n".join(lines).encode())

    def _sasl_settings(self, protocol: SecurityProtocol) -> dict[str, str]:
        listener = f"listener.name.{protocol.name.lower()}"
        login = self._login(SCRAM_MODULE, NODE_USER)
        settings = {
            "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            f"{listener}.{MECHANISM.lower()}.sasl.jaas.config": f"{login};",
        }
        return settings if self.security.has_tls else settings | self._controller_sasl_settings()

    def _controller_sasl_settings(self) -> dict[str, str]:
        """The configs for SASL at the controllers' port, where nodes cannot authenticate by SCRAM, but others can."""
        listener = f"listener.name.{CONTROLLER.lower()}"
        login = self._login(PLAIN_MODULE, NODE_USER)
        return {
            "sasl.mechanism.controller.protocol": PLAIN,
            f"{listener}.sasl.enabled.mechanisms": ",".join((PLAIN, *_MECHANISMS)),
            f"{listener}.{PLAIN.lower()}.sasl.jaas.config": f'{login} user_{NODE_USER}="{self.passwords[NODE_USER]}";',
        }

    def _login(self, module: str, user: str) -> str:
        return f'{module} required username="{user}" password="{self.passwords[user]}"'

    def _java_settings(self) -> dict[str, str]:
        settings = {"security.protocol": self.security.protocol.name}
        if self.security.has_tls:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self._path(_CA_FILE)}
        if self.security is LocalSecurity.MTLS:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": self._path(_CLIENT_FILE)}
        if self.security.has_sasl:
            login = self._login(SCRAM_MODULE, ADMIN_USER)
            settings |= {"sasl.mechanism": MECHANISM, "sasl.jaas.config": f"{login};"}
        return settings

    def _librdkafka_settings(self) -> dict[str, str]:
        settings = {"security.protocol": self.security.protocol.name}
        if self.security.has_tls:
            settings["ssl.ca.location"] = self._path(_CA_FILE)
        if self.security is LocalSecurity.MTLS:
            client = self._path(_CLIENT_FILE)
            settings |= {"ssl.certificate.location": client, "ssl.key.location": client}
        if self.security.has_sasl:
            settings |= {
                "sasl.mechanism": MECHANISM,
                "sasl.username": ADMIN_USER,
                "sasl.password": self.passwords[ADMIN_USER],
            }
        return settings

    def _issue_certificates(self, authority: "PrivateAuthority", node_ids: Sequence[int]) -> None:
        write_private(self._path(_CA_FILE), authority.certificate)
        hosts = tuple(dict.fromkeys((*_LOCAL_HOSTS, trio.socket.gethostname())))
        for node_id in node_ids:
            write_private(self._path(f"node-{node_id}.pem"), authority.issue(NODE_USER, hosts))
        if self.security is LocalSecurity.MTLS:
            write_private(self._path(_CLIENT_FILE), authority.issue(ADMIN_USER))

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"


def _new_authority(now_s: float) -> "PrivateAuthority":
    try:
        # The package is needed by clusters with TLS only.
        from broker.security.tls.private_authority import PrivateAuthority
    except ModuleNotFoundError as error:
        raise MissingCryptography(
            f'Certificates are made with the package {error.name}: pip install "kraft[security]"'
        ) from error
    return PrivateAuthority("kraft local cluster", now_s)


def read_client_files(cluster_directory: str) -> Iterator[tuple[str, str]]:
    """The paths and the contents of the configurations of clients. Raises OSError."""
    for name in _CLIENT_FILES:
        path = f"{cluster_directory}/{_DIRECTORY}/{name}"
        with open(path, encoding="utf-8") as file:
            yield path, file.read()
