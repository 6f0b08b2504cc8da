"""The SASL mechanisms of a listener, made from its configuration.

Nodes without SASL do not import this module: the mechanisms with their patterns take a tenth of the time of a start.
"""

import hmac
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

import trio

from broker.config import KafkaConfig
from broker.config.listener_configs import listener_value, own_listener_value
from broker.security.delegation_tokens import TokenCredentials
from broker.security.sasl.exchange import ServerExchange
from broker.security.sasl.jaas import JaasError, LoginModule, login_module
from broker.security.sasl.mechanisms import MECHANISMS, SCRAM_MECHANISMS
from broker.security.sasl.oauthbearer import MECHANISM as OAUTHBEARER
from broker.security.sasl.oauthbearer import OAuthBearerServer
from broker.security.sasl.plain import PLAIN, PlainServer
from broker.security.sasl.scram import ScramServer, unknown_credential
from broker.server.sasl import SaslListener, ServerMechanism
from kraft.env import Env
from metadata.configuration import InvalidConfig
from metadata.image import DelegationTokensImage, ScramImage
from metadata.protocol import ScramMechanism
from metadata.protocol.scram import ScramCredential

if TYPE_CHECKING:
    from broker.node.token_validation import TokenValidation

_NONCE_BYTES: Final = 20
_SECRET_BYTES: Final = 32


class SaslMechanisms:
    """Makes the mechanisms of a node's listeners. They look up users and delegation tokens of the last `publish`."""

    def __init__(self, env: Env, config: KafkaConfig) -> None:
        """`config` is the configuration of the start, from which the lengths of sessions are."""
        self._env = env
        self._initial = config
        self._random = env.rng.randbytes
        self._credentials = ScramImage()
        self._tokens = DelegationTokensImage()
        secret_key = config.delegation_token_secret_key
        self._token_credentials = (
            None
            if secret_key is None or not secret_key.value
            else TokenCredentials(secret_key.value, lambda: self._tokens, lambda: int(env.wall() * 1000))
        )
        self._token_validation: TokenValidation | None = None
        self._nursery: trio.Nursery | None = None

    def publish(self, credentials: ScramImage, tokens: DelegationTokensImage) -> None:
        """Use these credentials from now on."""
        self._credentials = credentials
        self._tokens = tokens

    def start(self, nursery: trio.Nursery) -> None:
        """Fetch the keys of OAUTHBEARER in the nursery from now on."""
        self._nursery = nursery
        if self._token_validation is not None:
            nursery.start_soon(self._token_validation.run)

    def listener(self, config: KafkaConfig, listener: str) -> SaslListener:
        """The mechanisms of a listener by a configuration. Raises InvalidConfig."""
        mechanisms = {
            name: ServerMechanism(
                self._start_of(config, listener, name),
                listener_value(self._initial, listener, KafkaConfig.connections_max_reauth_ms, name),
            )
            for name in enabled_mechanisms(config, listener)
        }
        return SaslListener(
            mechanisms,
            config.connection_failed_authentication_delay_ms,
            config.sasl_server_max_receive_size,
        )

    def check(self, config: KafkaConfig, listener: str) -> None:
        """Raises InvalidConfig for login modules that `listener` would refuse."""
        for mechanism in enabled_mechanisms(config, listener):
            self._login_module(config, listener, mechanism)

    def _start_of(self, config: KafkaConfig, listener: str, mechanism: str) -> Callable[[], ServerExchange]:
        module = self._login_module(config, listener, mechanism)
        if mechanism == PLAIN:
            return partial(PlainServer, {} if module is None else module.users)
        if mechanism == OAUTHBEARER:
            return partial(OAuthBearerServer, self._validation().validate_on(config, listener, module))
        return partial(self._start_scram, SCRAM_MECHANISMS[mechanism])

    def _login_module(self, config: KafkaConfig, listener: str, mechanism: str) -> LoginModule | None:
        """The login module of a mechanism. Raises InvalidConfig if the mechanism cannot be offered with it.

        A node may start with a module without users of PLAIN; later changes cannot remove all users.
        """
        module = server_login_module(config, listener, mechanism)
        prefix = f"listener.name.{listener.lower()}.{mechanism.lower()}"
        if mechanism == PLAIN and (module is None or not module.users):
            initial = server_login_module(self._initial, listener, PLAIN)
            if module is None or initial is None or initial.users:
                raise InvalidConfig(f"{prefix}.sasl.jaas.config has to list the users of PLAIN")
        handler = KafkaConfig.sasl_server_callback_handler_class
        if mechanism in SCRAM_MECHANISMS and own_listener_value(config, listener, handler, mechanism) is not None:
            raise InvalidConfig(f"{prefix}.{handler.name} names a Java class, which cannot be loaded")
        return module

    def _start_scram(self, mechanism: ScramMechanism) -> ScramServer:
        def find_user(name: str) -> ScramCredential | None:
            return self._credentials.of(name).get(mechanism)

        tokens = self._token_credentials
        return ScramServer(
            mechanism,
            self._random(_NONCE_BYTES).hex(),
            find_user,
            None if tokens is None else partial(tokens.find, mechanism),
            unknown=partial(unknown_credential, mechanism, self._secret),
        )

    @cached_property
    def _secret(self) -> bytes:
        """Makes the answers for unknown names. A client that asks two nodes must not learn from their difference.

        Nodes share only one secret that clients do not know, that of delegation tokens. Nodes without it draw one at
        each start. Only nodes with SCRAM need it.
        """
        shared = self._initial.delegation_token_secret_key
        if shared is None or not shared.value:
            return self._random(_SECRET_BYTES)
        return hmac.digest(shared.value.encode(), b"credentials of unknown names", "sha256")

    def _validation(self) -> "TokenValidation":
        """The validation of tokens, which is imported where a listener first offers OAUTHBEARER: that takes 20 ms."""
        if self._token_validation is None:
            from broker.node.token_validation import TokenValidation

            self._token_validation = TokenValidation(self._env)
            if self._nursery is not None:
                self._nursery.start_soon(self._token_validation.run)
        return self._token_validation


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
