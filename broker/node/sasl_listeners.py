"""The listeners of a node whose clients authenticate by SASL."""

from typing import TYPE_CHECKING, Final

import trio

from broker.config import KafkaConfig
from broker.net.authentication_counts import AuthenticationCounts
from broker.net.connection import Connection
from broker.server.sasl import SaslListener
from broker.server.unauthenticated import UnauthenticatedConnections
from kraft.env import Env
from metadata.image import MetadataDelta, MetadataImage
from metadata.protocol import SecurityProtocol

if TYPE_CHECKING:
    from broker.node.sasl_mechanisms import SaslMechanisms

_SASL: Final = (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class SaslListeners:
    """The mechanisms in force on the listeners of a node. `configure` applies another configuration.

    Authentications that have begun, and sessions, go on as they began. Raises InvalidConfig.
    """

    def __init__(self, env: Env, config: KafkaConfig, authentications: AuthenticationCounts) -> None:
        self.authentications = authentications
        # The listeners and the length of sessions are those of the start: an administrator who altered the protocol of
        # a listener, or set 1 ms, would lock all out.
        self._names = [listener.name for listener in config.endpoints.listeners if listener.security_protocol in _SASL]
        self._mechanisms = self._load(env, config)
        self._listeners: dict[str, SaslListener] = {}
        self.unauthenticated = UnauthenticatedConnections()
        self.configure(config)

    def _load(self, env: Env, config: KafkaConfig) -> "SaslMechanisms | None":
        """The maker of mechanisms, if a listener has SASL. Other nodes do not import it: they start faster."""
        if not self._names:
            return None
        from broker.node.sasl_mechanisms import SaslMechanisms

        return SaslMechanisms(env, config)

    def configure(self, config: KafkaConfig) -> None:
        """Raises InvalidConfig, and changes nothing then."""
        if self._mechanisms is not None:
            self._listeners = {name: self._mechanisms.listener(config, name) for name in self._names}

    def check(self, config: KafkaConfig) -> None:
        """Raises InvalidConfig for login modules that `configure` would refuse."""
        if self._mechanisms is not None:
            for name in self._names:
                self._mechanisms.check(config, name)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Use the credentials of the metadata from now on. A metadata publisher."""
        if self._mechanisms is not None:
            self._mechanisms.publish(image.scram, image.delegation_tokens)

    async def run(self) -> None:
        """Close connections that do not authenticate, and fetch the keys of OAUTHBEARER, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.unauthenticated.run)
            if self._mechanisms is not None:
                self._mechanisms.start(nursery)

    def of(self, listener: str) -> SaslListener | None:
        """See `broker.server.sasl.SaslListeners`."""
        return self._listeners.get(listener)

    def opened(self, connection: Connection) -> None:
        """See `broker.server.sasl.SaslListeners`."""
        self.unauthenticated.add(connection)
