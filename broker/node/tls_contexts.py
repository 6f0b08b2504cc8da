"""The TLS contexts of a node: one for each listener, and one for each listener of other nodes that it connects to."""

import ssl
from collections.abc import Callable, Iterable
from typing import Final

import attrs
import trio

from broker.client.connection_security import ConnectionSecurity
from broker.config import KafkaConfig
from broker.config.listener_configs import listener_value, own_listener_value
from broker.net.listener_security import ListenerSecurity
from broker.security.tls.certificate_principals import CertificatePrincipals
from broker.security.tls.context_source import ContextSource
from broker.security.tls.contexts import client_context, server_context
from broker.security.tls.handshake_failures import explain
from broker.security.tls.own_trust import trusts_itself
from broker.security.tls.principal_mapping import InvalidRule
from broker.security.tls.settings import TlsConfigError, TlsSettings, read_settings
from kraft.env import Tracer
from metadata.configuration import BROKER_CONFIGS, InvalidConfig
from metadata.configuration.definition import Password
from metadata.protocol import SecurityProtocol

# How often the files of the certificates are looked at. A look costs a system call per file.
_LOOK_S: Final = 3.0


class TlsContexts:
    """See the module's docstring. `serving` and `connecting` are names of listeners. Raises InvalidConfig."""

    def __init__(self, config: KafkaConfig, trace: Tracer, serving: Iterable[str], connecting: Iterable[str]) -> None:
        self._trace = trace
        self._node_id = config.node_id
        # Listeners keep the protocols of the start, so an altered map must not change whom they ask for certificates.
        self._protocols = config.endpoints.security_protocols
        self._servers = {name: self._source(config, name, server_context) for name in serving}
        self._clients = {name: self._source(config, name, client_context) for name in connecting}
        self._principals = {name: _principals(config, name) for name in serving}

    def of_listener(self, name: str) -> ListenerSecurity:
        """The security of the connections that a listener accepts."""
        return ListenerSecurity(self._servers[name].context, self._principals[name].principal_of, explain)

    def to_listener(self, name: str) -> ConnectionSecurity:
        """The security of connections to the listener of this name of other nodes."""
        return ConnectionSecurity(self._clients[name].context)

    def reconfigure(self, config: KafkaConfig) -> None:
        """Use other configs for new connections. Raises InvalidConfig, and goes on as before.

        Configs by which the nodes of a cluster would refuse each other are refused, as in Kafka.
        """
        self._apply(config, ContextSource.configure)

    def check(self, config: KafkaConfig) -> None:
        """Raises InvalidConfig if `reconfigure` would."""
        self._apply(config, ContextSource.check)

    def _apply(self, config: KafkaConfig, apply: Callable[[ContextSource, TlsSettings], None]) -> None:
        for name, source in self._sources():
            try:
                settings = self._settings(config, name)
                if name in self._servers and name in self._clients:
                    _check_own_trust(source.settings, settings)
                apply(source, settings)
            except TlsConfigError as error:
                raise InvalidConfig(f"listener {name}: {error}") from error

    async def run(self) -> None:
        """Look for certificates that are replaced in their files, until cancelled."""
        while True:
            await trio.sleep(_LOOK_S)
            for name in {**self._servers, **self._clients}:
                self._refresh(name)

    def _refresh(self, name: str) -> None:
        """Look at the files of a listener, which this node may serve, connect to on other nodes, or both."""
        reloaded = False
        reasons: dict[str, None] = {}
        for source in filter(None, (self._servers.get(name), self._clients.get(name))):
            try:
                reloaded = source.refresh() or reloaded
            except TlsConfigError as error:
                reasons[str(error)] = None
        if reloaded:
            self._trace("certificates_reloaded", node=self._node_id, listener=name)
        for reason in reasons:
            self._trace("certificates_refused", node=self._node_id, listener=name, reason=reason)

    def _source(
        self, config: KafkaConfig, listener: str, make: Callable[[TlsSettings], ssl.SSLContext]
    ) -> ContextSource:
        try:
            return ContextSource(make, self._settings(config, listener))
        except TlsConfigError as error:
            raise InvalidConfig(f"listener {listener}: {error}") from error

    def _settings(self, config: KafkaConfig, listener: str) -> TlsSettings:
        """The ssl.* configs of a listener. Raises InvalidConfig, TlsConfigError."""
        settings = read_settings(lambda key: _text(listener_value(config, listener, BROKER_CONFIGS.keys[key])))
        if self._protocols.get(listener) is SecurityProtocol.SASL_SSL:
            # Clients authenticate by SASL: only a config of the listener itself asks them for certificates (KIP-684).
            own = own_listener_value(config, listener, KafkaConfig.ssl_client_auth)
            return attrs.evolve(settings, client_auth=own or "none")
        return settings

    def _sources(self) -> list[tuple[str, ContextSource]]:
        return [*self._servers.items(), *self._clients.items()]


def _check_own_trust(before: TlsSettings, settings: TlsSettings) -> None:
    """Raises TlsConfigError if nodes with the new settings do not accept each other, but did with those before."""
    if settings != before and trusts_itself(before) and not trusts_itself(settings):
        raise TlsConfigError(
            "nodes with this ssl.keystore and this ssl.truststore would refuse each other's connections"
        )


def _text(value: object) -> str | None:
    """The value of a config as text."""
    match value:
        case None:
            return None
        case Password():
            return value.value
        case tuple():
            return ",".join(map(str, value))
    return str(value)


def _principals(config: KafkaConfig, listener: str) -> CertificatePrincipals:
    try:
        return CertificatePrincipals(listener_value(config, listener, KafkaConfig.ssl_principal_mapping_rules))
    except InvalidRule as error:
        raise InvalidConfig(f"ssl.principal.mapping.rules: {error}") from error
