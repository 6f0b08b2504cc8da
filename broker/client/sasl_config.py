"""The SASL of a client from its config keys: those of Kafka's Java clients, and those of librdkafka."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import attrs

from broker.client.config import ClientConfig
from broker.client.environment import Environment
from broker.client.errors import ConfigError
from broker.client.sasl_login import SaslLogin
from broker.security.sasl.exchange import ClientExchange
from broker.security.sasl.jaas import JaasError, login_module
from broker.security.sasl.mechanisms import MECHANISMS, SCRAM_MECHANISMS
from broker.security.sasl.oauthbearer import MECHANISM as OAUTHBEARER
from broker.security.sasl.plain import PLAIN, PlainClient
from broker.security.sasl.scram import ScramClient
from metadata.protocol import ScramMechanism

_NONCE_BYTES: Final = 20


@attrs.frozen
class Credentials:
    """The name and the password with which a client logs in; `by_token` if these are of a delegation token."""

    username: str
    password: str = attrs.field(repr=False)
    by_token: bool = False


def sasl_login(config: ClientConfig, environment: Environment) -> SaslLogin:
    """How a client's connections authenticate. Raises ConfigError."""
    mechanism = _mechanism(config)
    rng = environment.secure_rng
    if mechanism == OAUTHBEARER:
        from broker.client.oauth_config import bearer_exchanges  # other clients start faster without it

        return SaslLogin(bearer_exchanges(config, _options(config), environment), rng.random)
    begin = client_exchange(mechanism, _credentials(config), rng.randbytes)

    async def start() -> ClientExchange:
        return begin()

    return SaslLogin(start, rng.random)


def client_exchange(
    mechanism: str, credentials: Credentials, random_bytes: Callable[[int], bytes]
) -> Callable[[], ClientExchange]:
    """Begins exchanges of PLAIN, or of a mechanism of SCRAM."""
    if mechanism == PLAIN:
        return partial(PlainClient, credentials.username, credentials.password)
    return partial(_scram, SCRAM_MECHANISMS[mechanism], credentials, random_bytes)


def _scram(mechanism: ScramMechanism, credentials: Credentials, random_bytes: Callable[[int], bytes]) -> ScramClient:
    nonce = random_bytes(_NONCE_BYTES).hex()
    username, password = credentials.username, credentials.password
    return ScramClient(mechanism, username, password, nonce, by_token=credentials.by_token)


def _mechanism(config: ClientConfig) -> str:
    """The mechanism of Java's key or of librdkafka's."""
    given = tuple(filter(None, (config.sasl_mechanism, config.sasl_mechanisms)))
    supported = ", ".join(MECHANISMS)
    if not given:
        raise ConfigError(f"security.protocol={config.security_protocol} needs sasl.mechanism: one of {supported}")
    if len(set(given)) > 1:
        raise ConfigError("sasl.mechanism and sasl.mechanisms are two names of one key; give one")
    if given[0] not in MECHANISMS:
        raise ConfigError(f"sasl.mechanism={given[0]:.100} is not supported; it is one of {supported}")
    return given[0]


def _credentials(config: ClientConfig) -> Credentials:
    """The credentials of `sasl.jaas.config`, or of librdkafka's keys."""
    jaas, username, password = config.sasl_jaas_config, config.sasl_username, config.sasl_password
    if jaas is None:
        if not username or password is None:
            raise ConfigError("SASL needs sasl.username and sasl.password, or sasl.jaas.config")
        return Credentials(_encodable("sasl.username", username), _encodable("sasl.password", password))
    if username is not None or password is not None:
        raise ConfigError("sasl.jaas.config and sasl.username are two ways to give credentials; give one")
    try:
        module = login_module(jaas)
        name, secret = module.credentials()
    except JaasError as error:
        raise ConfigError(f"sasl.jaas.config is invalid: {error}") from None
    jaas_key = "sasl.jaas.config"
    return Credentials(_encodable(jaas_key, name), _encodable(jaas_key, secret), module.is_token_login)


def _options(config: ClientConfig) -> Mapping[str, str]:
    """The options of the login module in `sasl.jaas.config`; none if that is not set."""
    try:
        return {} if config.sasl_jaas_config is None else login_module(config.sasl_jaas_config).options
    except JaasError as error:
        raise ConfigError(f"sasl.jaas.config is invalid: {error}") from None


def _encodable(key: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{key} has characters that UTF-8 does not have") from None
    return value
