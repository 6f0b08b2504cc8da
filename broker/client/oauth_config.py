"""OAUTHBEARER of a client from its config keys: where its tokens come from, and when they are refreshed (KIP-768)."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from broker.client.config import ClientConfig
from broker.client.environment import Environment
from broker.client.errors import AuthenticationFailed, ConfigError, ConnectionLost
from broker.printable import printable
from broker.security.oauth.documents import read_document
from broker.security.oauth.http_exchange import Endpoint, EndpointFailed, HttpClient, HttpTimeouts
from broker.security.oauth.login import LoginRetries, TokenLogin
from broker.security.oauth.retrieved_tokens import InvalidRetrievedToken, RetrievedToken, TokenRefresh, read_token
from broker.security.oauth.token_endpoint import ClientCredentials, request_token
from broker.security.oauth.unsecured_tokens import has_unsecured_login, make_unsecured_token
from broker.security.sasl.exchange import ClientExchange
from broker.security.sasl.oauthbearer import OAuthBearerClient, check_extensions

_EXTENSION: Final = "extension_"
_DEFAULT_TIMEOUT_MS: Final = 10_000.0
_SOURCES: Final = (
    "OAUTHBEARER needs one source of tokens: oauth_token (a function), sasl.oauthbearer.token.endpoint.url, or "
    "unsecuredLogin... options in sasl.jaas.config"
)

Retrieve = Callable[[], Awaitable[RetrievedToken]]


def bearer_exchanges(
    config: ClientConfig, options: Mapping[str, str], environment: Environment
) -> Callable[[], Awaitable[ClientExchange]]:
    """Begins exchanges with the client's token. `options` are those of the login module. Raises ConfigError.

    The function raises ConnectionLost while the identity provider cannot be reached, AuthenticationFailed if it refuses
    the client.
    """
    extensions = _extensions(config, options)
    login = TokenLogin(
        _retrieve(config, options, environment), environment.now_ms, environment.rng, _refresh(config), _retries(config)
    )

    async def start() -> ClientExchange:
        try:
            token = await login.token()
        except EndpointFailed as error:
            kind = AuthenticationFailed if error.is_permanent else ConnectionLost
            raise kind(f"no token for OAUTHBEARER: {printable(str(error))}") from error
        return OAuthBearerClient(token.text, {**extensions, **token.extensions})

    return start


def _retrieve(config: ClientConfig, options: Mapping[str, str], environment: Environment) -> Retrieve:
    url = config.sasl_oauthbearer_token_endpoint_url
    sources = (config.oauth_token is not None, url is not None, has_unsecured_login(options))
    if sources.count(True) != 1:
        raise ConfigError(_SOURCES)
    if config.oauth_token is not None:
        return _from_function(config.oauth_token)
    if url is not None:
        return _from_endpoint(config, options, url)
    return _unsecured(options, environment)


def _from_function(function: Callable[[], Any]) -> Retrieve:
    async def retrieve() -> RetrievedToken:
        try:
            found = function()
            if inspect.isawaitable(found):
                found = await found
            return _read_result(found)
        except (OSError, EndpointFailed) as error:
            raise EndpointFailed(f"oauth_token failed: {error}") from error
        except Exception as error:
            raise EndpointFailed(f"oauth_token failed: {error!r}", is_permanent=True) from error

    return retrieve


def _read_result(found: object) -> RetrievedToken:
    """A token, or a pair of a token and its expiration in seconds since 1970."""
    text, expires_at_s = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
    if not isinstance(text, str):
        raise TypeError(f"it returned {type(found).__name__}, not a token or a pair of a token and its expiration")
    token = read_token(text)
    if expires_at_s is None:
        return token
    return RetrievedToken(token.text, int(expires_at_s * 1000), token.issued_at_ms)


def _from_endpoint(config: ClientConfig, options: Mapping[str, str], url: str) -> Retrieve:
    try:
        endpoint = Endpoint.parse(url.strip())
    except ValueError as error:
        raise ConfigError(f"sasl.oauthbearer.token.endpoint.url cannot be used: {error}") from None
    client = HttpClient(
        HttpTimeouts(
            connect_s=_seconds(config.sasl_login_connect_timeout_ms),
            read_s=_seconds(config.sasl_login_read_timeout_ms),
        )
    )
    credentials = None if endpoint.scheme == "file" else _credentials(config, options)

    async def retrieve() -> RetrievedToken:
        try:
            if credentials is None:
                return read_token((await read_document(endpoint, client)).decode())
            return read_token(await request_token(endpoint, credentials, client))
        except (InvalidRetrievedToken, UnicodeDecodeError) as error:
            raise EndpointFailed(f"{endpoint} has no token: {error}") from None

    return retrieve


def _credentials(config: ClientConfig, options: Mapping[str, str]) -> ClientCredentials:
    """Those of Kafka's keys, of librdkafka's, or of the login module."""
    client_id = (
        config.sasl_oauthbearer_client_credentials_client_id
        or config.sasl_oauthbearer_client_id
        or options.get("clientId")
    )
    client_secret = (
        config.sasl_oauthbearer_client_credentials_client_secret
        or config.sasl_oauthbearer_client_secret
        or options.get("clientSecret")
    )
    if not client_id or not client_secret:
        raise ConfigError(
            "sasl.oauthbearer.token.endpoint.url needs sasl.oauthbearer.client.credentials.client.id and "
            "sasl.oauthbearer.client.credentials.client.secret"
        )
    return ClientCredentials(
        client_id=client_id,
        client_secret=client_secret,
        scope=config.sasl_oauthbearer_scope or options.get("scope", ""),
        is_url_encoded=config.sasl_oauthbearer_header_urlencode,
    )


def _unsecured(options: Mapping[str, str], environment: Environment) -> Retrieve:
    def make() -> str:
        try:
            return make_unsecured_token(options, environment.now_ms())
        except ValueError as error:
            raise ConfigError(f"sasl.jaas.config makes no token: {error}") from None

    make()

    async def retrieve() -> RetrievedToken:
        return read_token(make())

    return retrieve


def _extensions(config: ClientConfig, options: Mapping[str, str]) -> dict[str, str]:
    """Those of the login module, and of librdkafka's key: `name=value,name=value`."""
    found = {name.removeprefix(_EXTENSION): value for name, value in options.items() if name.startswith(_EXTENSION)}
    for part in filter(None, (config.sasl_oauthbearer_extensions or "").split(",")):
        name, _, value = part.partition("=")
        found[name.strip()] = value.strip()
    try:
        check_extensions(found)
    except ValueError as error:
        raise ConfigError(f"sasl.oauthbearer.extensions: {error}") from None
    return found


def _refresh(config: ClientConfig) -> TokenRefresh:
    return TokenRefresh(
        window_factor=config.sasl_login_refresh_window_factor,
        window_jitter=config.sasl_login_refresh_window_jitter,
        min_period_s=config.sasl_login_refresh_min_period_seconds,
        buffer_s=config.sasl_login_refresh_buffer_seconds,
    )


def _retries(config: ClientConfig) -> LoginRetries:
    return LoginRetries(
        backoff_ms=config.sasl_login_retry_backoff_ms, backoff_max_ms=config.sasl_login_retry_backoff_max_ms
    )


def _seconds(timeout_ms: float | None) -> float:
    return (_DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms) / 1000
