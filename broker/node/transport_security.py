"""How a node secures its listeners, and its connections to other nodes."""

from math import inf
from typing import TYPE_CHECKING, Final

import attrs
import trio

from broker.client.connection_security import PLAINTEXT, ConnectionSecurity
from broker.client.errors import AuthenticationFailed, ConnectionLost
from broker.config import KafkaConfig
from broker.net.authentication_counts import AuthenticationCounts
from broker.net.listener_security import ListenerSecurity, anonymous
from kraft.connecting import PeerRefused, PeerStream
from kraft.env import Env, Tracer
from kraft.frames import PeerConnectionLost
from metadata.configuration.definition import ConfigKey
from metadata.protocol import SecurityProtocol

if TYPE_CHECKING:
    from broker.node.node_logins import NodeLogin
    from broker.node.tls_contexts import TlsContexts

_ENCRYPTED: Final = (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)
_WITH_SASL: Final = (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class TransportSecurity:
    """The security of a node's listeners by name. Raises InvalidConfig for configs that cannot be used.

    `authentications` counts the outcomes of TLS handshakes.
    """

    def __init__(self, config: KafkaConfig, env: Env, authentications: AuthenticationCounts) -> None:
        self.authentications = authentications
        self._protocols = config.endpoints.security_protocols
        self._inter_broker = config.endpoints.inter_broker_listener_name
        self._controllers = next((name.upper() for name in config.endpoints.controller_listener_names), "")
        self._tls = self._load(config, env.trace)
        self._broker_login = self._load_login(
            config,
            self._inter_broker if config.is_broker else "",
            KafkaConfig.sasl_mechanism_inter_broker_protocol,
            env,
        )
        self._controller_login = self._load_login(
            config, self._controllers, KafkaConfig.sasl_mechanism_controller_protocol, env
        )
        self._client_id = f"raft-client-{config.node_id}"

    def _load(self, config: KafkaConfig, trace: Tracer) -> "TlsContexts | None":
        """The contexts, if the node speaks TLS. Other nodes do not import the package: they start faster."""
        serving = [each.name for each in config.endpoints.listeners if each.security_protocol in _ENCRYPTED]
        connecting = [name for name in (self._inter_broker, self._controllers) if self._is_encrypted(name)]
        if not serving and not connecting:
            return None
        from broker.node.tls_contexts import TlsContexts

        return TlsContexts(config, trace, serving, connecting)

    def _load_login(self, config: KafkaConfig, listener: str, key: ConfigKey[str], env: Env) -> "NodeLogin | None":
        """The login to other nodes, if their listener has SASL. Other nodes do not import the package either."""
        if self._protocols.get(listener) not in _WITH_SASL:
            return None
        from broker.node.node_logins import NodeLogin

        return NodeLogin(config, listener, key, env)

    def _is_encrypted(self, listener: str) -> bool:
        return self._protocols.get(listener) in _ENCRYPTED

    def of_listener(self, name: str) -> ListenerSecurity:
        """The security of the connections that a listener accepts."""
        has_sasl = self._protocols.get(name) in _WITH_SASL
        if self._tls is None or not self._is_encrypted(name):
            return ListenerSecurity(principal_of=_unknown if has_sasl else anonymous)
        security = self._tls.of_listener(name)
        if has_sasl:
            security = attrs.evolve(security, principal_of=_unknown)

        def count(is_secured: bool) -> None:
            if not (is_secured and has_sasl):
                self.authentications.note(name, has_succeeded=is_secured)

        return attrs.evolve(security, on_outcome=count)

    @property
    def to_brokers(self) -> ConnectionSecurity:
        """The security of connections to brokers."""
        return self._to(self._inter_broker, self._broker_login)

    @property
    def to_controllers(self) -> ConnectionSecurity:
        """The security of connections to controllers, also those of the quorum's own protocol."""
        return self._to(self._controllers, self._controller_login)

    async def connect_quorum(self, host: str, port: int) -> PeerStream:
        """A stream to another replica of the quorum. Raises OSError, PeerConnectionLost, PeerRefused."""
        transport = await trio.open_tcp_stream(host, port)
        security = self.to_controllers
        try:
            stream = await security.secure(transport, host)
            login = security.login
            return PeerStream(stream, inf if login is None else await login.authenticate(stream, self._client_id))
        except BaseException as error:
            await trio.aclose_forcefully(transport)
            if isinstance(error, ConnectionLost):
                kind = PeerRefused if isinstance(error, AuthenticationFailed) else PeerConnectionLost
                raise kind(str(error)) from error
            raise

    def check(self, config: KafkaConfig) -> None:
        """Raises InvalidConfig if `reconfigure` would."""
        for login in (self._broker_login, self._controller_login):
            if login is not None:
                login.check(config)
        if self._tls is not None:
            self._tls.check(config)

    def reconfigure(self, config: KafkaConfig) -> None:
        """Use the configs of TLS and SASL from now on. Raises InvalidConfig, and goes on as before."""
        for login in (self._broker_login, self._controller_login):
            if login is not None:
                login.configure(config)
        if self._tls is not None:
            self._tls.reconfigure(config)

    async def run(self) -> None:
        """Use certificates that are replaced in their files, and get tokens, until cancelled."""
        async with trio.open_nursery() as nursery:
            for part in (self._tls, self._broker_login, self._controller_login):
                if part is not None:
                    nursery.start_soon(part.run)

    def _to(self, listener: str, login: "NodeLogin | None") -> ConnectionSecurity:
        security = PLAINTEXT
        if self._tls is not None and self._is_encrypted(listener):
            security = self._tls.to_listener(listener)
        return security if login is None else attrs.evolve(security, login=login.login)


def _unknown(certificate: bytes | None) -> str:
    """The principal of a client that has to authenticate by SASL: its certificate proves none."""
    return ""
