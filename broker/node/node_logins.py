"""How a node authenticates by SASL to the listeners of other nodes."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import trio

from broker.client.config import ClientConfig
from broker.client.environment import Environment
from broker.client.errors import ConfigError, ConnectionLost
from broker.client.sasl_config import Credentials, client_exchange
from broker.client.sasl_login import SaslLogin
from broker.config import KafkaConfig
from broker.config.listener_configs import listener_value
from broker.node.sasl_mechanisms import enabled_mechanisms, server_login_module
from broker.security.sasl.exchange import ClientExchange, SaslFailure
from broker.security.sasl.jaas import JaasError
from broker.security.sasl.mechanisms import SCRAM_MECHANISMS
from broker.security.sasl.oauthbearer import MECHANISM as OAUTHBEARER
from broker.security.sasl.plain import PLAIN
from kraft.env import Env
from metadata.configuration import InvalidConfig
from metadata.configuration.definition import ConfigKey, Password

_TOKEN_KEYS: Final = {
    key.name.replace(".", "_"): key
    for key in (
        KafkaConfig.sasl_oauthbearer_token_endpoint_url,
        KafkaConfig.sasl_oauthbearer_client_credentials_client_id,
        KafkaConfig.sasl_oauthbearer_client_credentials_client_secret,
        KafkaConfig.sasl_oauthbearer_scope,
        KafkaConfig.sasl_login_connect_timeout_ms,
        KafkaConfig.sasl_login_read_timeout_ms,
        KafkaConfig.sasl_login_retry_backoff_ms,
        KafkaConfig.sasl_login_retry_backoff_max_ms,
        KafkaConfig.sasl_login_refresh_window_factor,
        KafkaConfig.sasl_login_refresh_window_jitter,
        KafkaConfig.sasl_login_refresh_min_period_seconds,
        KafkaConfig.sasl_login_refresh_buffer_seconds,
    )
}


class NodeLogin:
    """Logs in to the listener `listener` of other nodes, with the mechanism that the config `key` names.

    As in Kafka, the name and the password are in the same login module as the users that the listener knows:
    `listener.name.<listener>.<mechanism>.sasl.jaas.config`. OAUTHBEARER takes a token from where
    `sasl.oauthbearer.token.endpoint.url` says. Raises InvalidConfig.
    """

    def __init__(self, config: KafkaConfig, listener: str, key: ConfigKey[str], env: Env) -> None:
        self._listener, self._key, self._env = listener, key, env
        self._start: Callable[[], Awaitable[ClientExchange]]
        self._bearer: tuple[ClientConfig, Mapping[str, str]] | None = None
        self._token_wanted = trio.Event()
        self.login = SaslLogin(self._begin, env.rng.random)
        self.configure(config)

    def configure(self, config: KafkaConfig) -> None:
        """Use other credentials from now on. Raises InvalidConfig, and goes on as before."""
        mechanism = self._mechanism(config)
        if mechanism == OAUTHBEARER:
            self._configure_bearer(config)
            return
        credentials = _credentials(config, self._listener, mechanism)
        begin = client_exchange(mechanism, credentials, self._env.rng.randbytes)

        async def start() -> ClientExchange:
            return begin()

        self._start, self._bearer = start, None

    def check(self, config: KafkaConfig) -> None:
        """Raises InvalidConfig for credentials that `configure` would refuse. Tokens are checked by their readers."""
        mechanism = self._mechanism(config)
        if mechanism != OAUTHBEARER:
            _credentials(config, self._listener, mechanism)

    def _mechanism(self, config: KafkaConfig) -> str:
        """The mechanism of the login. Raises InvalidConfig."""
        mechanism = config.values[self._key.name]
        assert isinstance(mechanism, str), f"{self._key.name} is text with a default"
        if self._key is KafkaConfig.sasl_mechanism_controller_protocol:
            _check_for_controllers(config, self._listener, mechanism)
        if mechanism not in (PLAIN, OAUTHBEARER, *SCRAM_MECHANISMS):
            raise InvalidConfig(f"{self._key.name}={mechanism} is not supported between nodes")
        return mechanism

    def _configure_bearer(self, config: KafkaConfig) -> None:
        """Use tokens, and keep the present one if nothing changes that concerns it."""
        from broker.client.oauth_config import bearer_exchanges  # other nodes start faster without it

        module = server_login_module(config, self._listener, OAUTHBEARER)
        bearer = _token_configs(config, self._listener), {} if module is None else module.options
        if bearer == self._bearer:
            return
        environment = Environment(lambda: int(self._env.wall() * 1000), self._env.rng)
        try:
            self._start = bearer_exchanges(*bearer, environment)
        except ConfigError as error:
            raise InvalidConfig(f"The login to listener {self._listener} has no token: {error}") from error
        self._bearer = bearer

    async def run(self) -> None:
        """Get tokens, also for connections that were given up before the identity provider has answered."""
        while True:
            await self._token_wanted.wait()
            self._token_wanted = trio.Event()
            with suppress(ConnectionLost, SaslFailure):  # the next connection tries again, and reports them
                await self._start()

    async def _begin(self) -> ClientExchange:
        if self._bearer is not None:
            self._token_wanted.set()
        return await self._start()


def _check_for_controllers(config: KafkaConfig, listener: str, mechanism: str) -> None:
    if mechanism in SCRAM_MECHANISMS:
        raise InvalidConfig(
            f"sasl.mechanism.controller.protocol={mechanism} cannot be used: its passwords are in the metadata log, "
            "which the controllers can read only after they have authenticated to each other. Use PLAIN or OAUTHBEARER"
        )
    if config.is_controller and mechanism not in enabled_mechanisms(config, listener):
        raise InvalidConfig(
            f"sasl.mechanism.controller.protocol={mechanism} must be included in sasl.enabled.mechanisms of the "
            f"controllers' listener {listener}"
        )


def _token_configs(config: KafkaConfig, listener: str) -> ClientConfig:
    """The configs of the listener that say where tokens come from, under the same names as those of a client."""
    read: dict[str, Any] = {}
    for name, key in _TOKEN_KEYS.items():
        value: Any = listener_value(config, listener, key, OAUTHBEARER)
        read[name] = value.value if isinstance(value, Password) else value
    return ClientConfig(**read)


def _credentials(config: KafkaConfig, listener: str, mechanism: str) -> Credentials:
    name = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
    module = server_login_module(config, listener, mechanism)
    if module is None:
        raise InvalidConfig(f"{name} has to have the username and the password with which this node logs in")
    try:
        username, password = module.credentials()
    except JaasError as error:
        raise InvalidConfig(f"{name}: {error}") from error
    return Credentials(username, password, module.is_token_login)
