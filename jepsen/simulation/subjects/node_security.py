"""The security of simulated nodes: SASL between nodes and for clients, and access control lists.

TLS is left out, since the sizes of its handshakes vary. The simulator's own clients use the listener PLAINTEXT, where
all are super users.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from broker.node.initial_users import initial_user
from broker.security.acls import STANDARD_AUTHORIZER
from metadata.records import UserScramCredentialRecord

# The port of the listener with SASL.
SASL_PORT: Final = 9094
# The longest session with SCRAM-SHA-256. Sessions with SCRAM-SHA-512 do not end.
REAUTH_MS: Final = 3_000
_NODE: Final = "node"
_NODE_PASSWORD: Final = "node-secret"
_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_LOGIN_MODULES: Final = "org.apache.kafka.common.security"


class NodeSecurity:
    """The configs and the first user of nodes. Brokers authenticate to each other with any mechanism of SCRAM."""

    def __init__(self, chance: Random) -> None:
        self._mechanism = chance.choice(_MECHANISMS)
        self.users: Sequence[UserScramCredentialRecord] = (
            initial_user(self._mechanism, _NODE, _NODE_PASSWORD, chance.randbytes),
        )

    def configs(self, host: str, listeners: Sequence[str], *, is_broker: bool) -> Mapping[str, str]:
        """The configs of the node on a host, in addition to its other `listeners`."""
        scram = f"{_LOGIN_MODULES}.scram.ScramLoginModule"
        plain = f"{_LOGIN_MODULES}.plain.PlainLoginModule"
        login = f'username="{_NODE}" password="{_NODE_PASSWORD}"'
        return {
            "listeners": ",".join([*listeners, *[f"CLIENTS://{host}:{SASL_PORT}"] * is_broker]),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "inter.broker.listener.name": "CLIENTS",
            "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
            "sasl.mechanism.inter.broker.protocol": self._mechanism,
            f"listener.name.clients.{self._mechanism.lower()}.sasl.jaas.config": f"{scram} required {login};",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": (
                f'{plain} required {login} user_{_NODE}="{_NODE_PASSWORD}";'
            ),
            "listener.name.clients.scram-sha-256.connections.max.reauth.ms": str(REAUTH_MS),
            "listener.name.controller.plain.connections.max.reauth.ms": str(REAUTH_MS),
            "delegation.token.secret.key": "secret",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": f"User:{_NODE};User:ANONYMOUS",
        }
