"""The SASL mechanisms that each listener of a node offers, made from its configuration and the metadata."""

from collections.abc import Callable
from functools import partial
from typing import Final

from broker.config import KafkaConfig
from broker.config.listener_configs import listener_value, own_listener_value
from broker.net.connection import Connection
from broker.security.sasl.exchange import ServerExchange
from broker.security.sasl.jaas import JaasError, LoginModule, login_module
from broker.security.sasl.mechanisms import MECHANISMS, SCRAM_MECHANISMS
from broker.security.sasl.plain import PLAIN, PlainServer
from broker.security.sasl.scram import ScramServer, unknown_credential
from broker.server.sasl import SaslListener, ServerMechanism
from broker.server.unauthenticated import UnauthenticatedConnections
from kraft.env import Env
from metadata.configuration import InvalidConfig
from metadata.image import MetadataDelta, MetadataImage, ScramImage
from metadata.protocol import ScramMechanism, SecurityProtocol
from metadata.protocol.scram import ScramCredential

_NONCE_BYTES: Final = 20
_SECRET_BYTES: Final = 32
_SASL: Final = (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class SaslListeners:
    """The mechanisms in force on the listeners of a node. `configure` applies another configuration.

    Authentications that have begun, and sessions, go on as they began. Raises InvalidConfig.
    """

    def __init__(self, env: Env, config: KafkaConfig) -> None:
        self._random = env.rng.randbytes
        self._credentials = ScramImage()
        # Another one after each start: then the answers for unknown names change.
        self._secret = self._random(_SECRET_BYTES)
        self._listeners: dict[str, SaslListener] = {}
        self.unauthenticated = UnauthenticatedConnections()
        self.configure(config)

    def configure(self, config: KafkaConfig) -> None:
        """Raises InvalidConfig, and changes nothing then."""
        self._listeners = {
            listener.name: self._listener(config, listener.name)
            for listener in config.endpoints.listeners
            if listener.security_protocol in _SASL
        }

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Use the credentials of the metadata from now on. A metadata publisher."""
        self._credentials = image.scram

    def of(self, listener: str) -> SaslListener | None:
        """See `broker.server.sasl.SaslListeners`."""
        return self._listeners.get(listener)

    def opened(self, connection: Connection) -> None:
        """See `broker.server.sasl.SaslListeners`."""
        self.unauthenticated.add(connection)

    def _listener(self, config: KafkaConfig, listener: str) -> SaslListener:
        mechanisms = {
            name: ServerMechanism(
                self._start_of(config, listener, name),
                listener_value(config, listener, KafkaConfig.connections_max_reauth_ms, name),
            )
            for name in enabled_mechanisms(config, listener)
        }
        return SaslListener(
            mechanisms,
            config.connection_failed_authentication_delay_ms,
            config.sasl_server_max_receive_size,
        )

    def _start_of(self, config: KafkaConfig, listener: str, mechanism: str) -> Callable[[], ServerExchange]:
        module = server_login_module(config, listener, mechanism)
        if mechanism == PLAIN:
            if module is None:
                raise InvalidConfig(
                    f"listener.name.{listener.lower()}.plain.sasl.jaas.config has to list the users of PLAIN"
                )
            return partial(PlainServer, module.users)
        return partial(self._start_scram, SCRAM_MECHANISMS[mechanism])

    def _start_scram(self, mechanism: ScramMechanism) -> ScramServer:
        def find_user(name: str) -> ScramCredential | None:
            return self._credentials.of(name).get(mechanism)

        return ScramServer(
            mechanism,
            self._random(_NONCE_BYTES).hex(),
            find_user,
            unknown=partial(unknown_credential, mechanism, self._secret),
        )


def enabled_mechanisms(config: KafkaConfig, listener: str) -> tuple[str, ...]:
    """The mechanisms that a listener offers. Raises InvalidConfig for one that this release does not have."""
    names = listener_value(config, listener, KafkaConfig.sasl_enabled_mechanisms)
    for name in names:
        if name not in MECHANISMS:
            raise InvalidConfig(
                f"The SASL mechanism {name} of listener {listener} is not supported. sasl.enabled.mechanisms has to "
                f"name some of: {', '.join(MECHANISMS)}"
            )
    if not names:
        raise InvalidConfig(f"sasl.enabled.mechanisms has to name a mechanism for listener {listener}")
    return names


def server_login_module(config: KafkaConfig, listener: str, mechanism: str) -> LoginModule | None:
    """The login module of a mechanism of a listener; None if none is set. Raises InvalidConfig.

    As in Kafka, `sasl.jaas.config` counts with the prefix of a listener and a mechanism only.
    """
    value = own_listener_value(config, listener, KafkaConfig.sasl_jaas_config, mechanism)
    if value is None:
        return None
    try:
        return login_module(value.value)
    except JaasError as error:
        name = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
        raise InvalidConfig(f"{name} is invalid: {error}") from error
