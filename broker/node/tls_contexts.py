"""The TLS contexts of a node: one for each listener, and one for each listener of other nodes that it connects to."""

from collections.abc import Iterable
from typing import Final

import trio

from broker.client.connection_security import ConnectionSecurity
from broker.config import KafkaConfig
from broker.net.listener_security import ListenerSecurity
from broker.security.tls.certificate_principals import CertificatePrincipals
from broker.security.tls.context_source import ContextSource
from broker.security.tls.contexts import client_context, server_context
from broker.security.tls.handshake_failures import explain
from broker.security.tls.principal_mapping import InvalidRule
from broker.security.tls.settings import TlsConfigError, TlsSettings, read_settings
from kraft.env import Tracer
from metadata.configuration import InvalidConfig

# How often the files of the certificates are looked at. A look costs a system call per file.
_LOOK_S: Final = 3.0


class TlsContexts:
    """See the module's docstring. `serving` and `connecting` are names of listeners. Raises InvalidConfig."""

    def __init__(self, config: KafkaConfig, trace: Tracer, serving: Iterable[str], connecting: Iterable[str]) -> None:
        self._trace = trace
        self._node_id = config.node_id
        self._servers = {name: _source(config, name, is_server=True) for name in serving}
        self._clients = {name: _source(config, name, is_server=False) for name in connecting}
        self._principals = {name: _principals(config, name) for name in serving}

    def of_listener(self, name: str) -> ListenerSecurity:
        """The security of the connections that a listener accepts."""
        return ListenerSecurity(self._servers[name].context, self._principals[name].principal_of, explain)

    def to_listener(self, name: str) -> ConnectionSecurity:
        """The security of connections to the listener of this name of other nodes."""
        return ConnectionSecurity(self._clients[name].context)

    def reconfigure(self, config: KafkaConfig) -> None:
        """Use other configs for new connections. Raises InvalidConfig, and goes on as before."""
        for name, source in self._sources():
            try:
                source.configure(_settings(config, name))
            except TlsConfigError as error:
                raise InvalidConfig(f"listener {name}: {error}") from error

    async def run(self) -> None:
        """Look for certificates that are replaced in their files, until cancelled."""
        while True:
            await trio.sleep(_LOOK_S)
            for name, source in self._sources():
                self._refresh(name, source)

    def _refresh(self, name: str, source: ContextSource) -> None:
        try:
            if source.refresh():
                self._trace("certificates_reloaded", node=self._node_id, listener=name)
        except TlsConfigError as error:
            self._trace("certificates_refused", node=self._node_id, listener=name, reason=str(error))

    def _sources(self) -> list[tuple[str, ContextSource]]:
        return [*self._servers.items(), *self._clients.items()]


def _source(config: KafkaConfig, listener: str, *, is_server: bool) -> ContextSource:
    try:
        return ContextSource(server_context if is_server else client_context, _settings(config, listener))
    except TlsConfigError as error:
        raise InvalidConfig(f"listener {listener}: {error}") from error


def _settings(config: KafkaConfig, listener: str) -> TlsSettings:
    """The ssl.* configs of a listener. Raises InvalidConfig, TlsConfigError."""
    return read_settings(lambda key: _text(config, listener, key))


def _text(config: KafkaConfig, listener: str, key: str) -> str | None:
    """A config of a listener: its own, or that of the node. None if neither is set."""
    texts = config.layers.merged()
    text = texts.get(f"listener.name.{listener.lower()}.{key}", texts.get(key))
    return None if text is None else text.strip()


def _principals(config: KafkaConfig, listener: str) -> CertificatePrincipals:
    rules = _text(config, listener, "ssl.principal.mapping.rules")
    try:
        return CertificatePrincipals("DEFAULT" if rules is None else rules)
    except InvalidRule as error:
        raise InvalidConfig(f"ssl.principal.mapping.rules: {error}") from error
