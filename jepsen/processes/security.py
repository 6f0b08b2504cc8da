"""The security of a cluster of processes: certificates between all nodes, and SCRAM over TLS for clients.

The clients are one user, a super user, like the nodes; everyone else may do nothing. Sessions of clients are short, so
that they authenticate again while the nemesis runs (KIP-368).
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from typing import Final

USER: Final = "jepsen"
_NODES: Final = "node"
_MECHANISM: Final = "SCRAM-SHA-512"
_PASSWORD_BYTES: Final = 16
_SESSION_MS: Final = 5_000
_PRIVATE_DIRECTORY_MODE: Final = 0o700


class ClusterSecurity:
    """Certificates and the clients' password, in files of `directory`."""

    def __init__(self, directory: Path) -> None:
        # Its package is one of the extra `security`, which runs without certificates do not need.
        from broker.security.tls.private_authority import PrivateAuthority

        directory.mkdir(_PRIVATE_DIRECTORY_MODE, parents=True)
        self._directory = directory
        self._authority = PrivateAuthority("jepsen", time.time())
        self._ca_path = directory / "ca.pem"
        self._ca_path.write_bytes(self._authority.certificate)
        self._password = SystemRandom().randbytes(_PASSWORD_BYTES).hex()
        self._password_path = directory / "password"
        self._password_path.write_text(self._password)

    def issue(self, node: str, hosts: Sequence[str]) -> None:
        """Write a new certificate of a node, in place of the one that it has."""
        self._certificate_path(node).write_bytes(self._authority.issue(_NODES, hosts))

    def format_arguments(self) -> list[str]:
        """The arguments of `kraft format` for the clients' user."""
        return ["--add-scram", f"{_MECHANISM}=[name={USER},passwordfile={self._password_path}]"]

    def node_settings(self, node: str, of_clients: Sequence[str], of_nodes: Sequence[str]) -> dict[str, str]:
        """The configs of a node, which has these listeners for clients and for nodes."""
        protocols = {**dict.fromkeys(of_clients, "SASL_SSL"), **dict.fromkeys(of_nodes, "SSL")}
        return {
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._certificate_path(node)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._ca_path),
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+)$/$1/,DEFAULT",
            **{f"listener.name.{name.lower()}.ssl.client.auth": "required" for name in of_nodes},
            "sasl.enabled.mechanisms": _MECHANISM,
            "connections.max.reauth.ms": str(_SESSION_MS),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{_NODES};User:{USER}",
        }

    def client_configs(self) -> Mapping[str, str]:
        """The configs of a client besides its servers, for librdkafka and for the client library."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self._ca_path),
            "sasl.mechanism": _MECHANISM,
            "sasl.username": USER,
            "sasl.password": self._password,
        }

    def _certificate_path(self, node: str) -> Path:
        return self._directory / f"{node}.pem"
