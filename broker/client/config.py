"""Config keys of clients: Kafka's names and defaults, as keyword arguments or as a dict of Kafka's keys.

A field of a config class is a key with its dots as underscores: `linger_ms` is `linger.ms`. Each client has a subclass
of `ClientConfig` with keys of its own.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, Literal, TypedDict, TypeVar

import attrs

from broker.client.addresses import Address, parse_addresses
from broker.client.arguments.check import WrongArgument, shown
from broker.client.arguments.scalars import check_text
from broker.client.errors import ConfigError

_READ: Final = "read"
_TRUE_AND_FALSE: Final = {"true": True, "false": False}
_NUMBER_TEXT: Final = re.compile(r"[+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?")
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1

# Keys of Kafka's Java clients that name Java classes or concern the JVM. They are refused with the reason.
_OF_JAVA: Final = {
    "key.serializer": "pass key_serializer=, an object with serialize()",
    "value.serializer": "pass value_serializer=, an object with serialize()",
    "key.deserializer": "pass key_deserializer=, an object with deserialize()",
    "value.deserializer": "pass value_deserializer=, an object with deserialize()",
    "partitioner.class": "pass partitioner=",
    "interceptor.classes": "it names Java classes; wrap the calls instead",
    "metric.reporters": "it names Java classes",
    "config.providers": "it names Java classes",
    "client.dns.lookup": "all addresses of a host name are always tried",
}

_OF_SASL: Final = "sasl."
_JAVA_SASL: Final = "this client has no GSSAPI, and the other keys of SASL name Java classes or concern Java's logins"
# Keys about TLS that have no effect here, and the reasons.
_OF_TLS: Final = {
    "ssl.provider": "it names a Java security provider",
    "ssl.keymanager.algorithm": "it names a Java algorithm",
    "ssl.trustmanager.algorithm": "it names a Java algorithm",
    "ssl.secure.random.implementation": "it names a Java class",
    "ssl.engine.factory.class": "it names a Java class",
    "ssl.protocol": "give the versions with ssl.enabled.protocols",
    "ssl.curves.list": "OpenSSL chooses the curves",
    "ssl.sigalgs.list": "OpenSSL chooses the algorithms",
    "ssl.crl.location": "lists of revoked certificates are not read",
}


def number(
    default: float | None, *, at_least: float | None = None, at_most: float | None = None, is_optional: bool = False
) -> Any:
    """A key with a number, which may be a fraction. If `is_optional`, None is allowed and means that it is not set."""

    def read(key: str, value: object) -> float | None:
        if value is None and is_optional:
            return None
        found = _number(key, value)
        if at_least is not None and found < at_least:
            raise ConfigError(f"{key} must be at least {at_least}, not {shown(value)}")
        if found > (_INT64_MAX if at_most is None else at_most):
            raise ConfigError(f"{key} must be at most {_INT64_MAX if at_most is None else at_most}, not {shown(value)}")
        return found

    return attrs.field(default=default, metadata={_READ: read})


def whole_number(default: int | None, *, at_least: int | None = None, at_most: int = _INT32_MAX) -> Any:
    """A whole number; None, where it is the default, means that the key is not set."""

    def read(key: str, value: object) -> int | None:
        if value is None and default is None:
            return None
        found = _number(key, value)
        if isinstance(found, float) and not found.is_integer():  # neither are infinities
            raise ConfigError(f"{key} must be a whole number, not {shown(value)}")
        if not (at_least is None or found >= at_least) or found > at_most:
            raise ConfigError(f"{key} must be between {at_least} and {at_most}, not {shown(value)}")
        return int(found)

    return attrs.field(default=default, metadata={_READ: read})


def flag(default: bool) -> Any:
    """True or false; as text in any case of letters."""

    def read(key: str, value: object) -> bool:
        if isinstance(value, str):
            value = _TRUE_AND_FALSE.get(value.strip().lower(), value)
        if not isinstance(value, bool):
            raise ConfigError(f"{key} must be true or false, not {shown(value)}")
        return value

    return attrs.field(default=default, metadata={_READ: read})


def text(
    default: str | None, *, one_of: Iterable[str] | None = None, unsupported: Mapping[str, str] | None = None
) -> Any:
    """A string. `one_of` are the values that are accepted; `unsupported` maps values of Kafka's to why they are not."""
    accepted = None if one_of is None else tuple(one_of)

    def read(key: str, value: object) -> str | None:
        if value is None and default is None:
            return None
        if not isinstance(value, str):
            raise ConfigError(f"{key} must be a string, not {shown(value)}")
        _check_length(key, value)
        if unsupported is not None and value in unsupported:
            raise ConfigError(f"{key}={value} is not supported: {unsupported[value]}")
        if accepted is not None and value not in accepted:
            raise ConfigError(
                f"{key} must be one of {', '.join(accepted)}, not {shown(value)}{_suggestion(value, accepted)}"
            )
        return value

    return attrs.field(default=default, metadata={_READ: read})


def secret() -> Any:
    """A string that no representation and no message shows; None means that it is not set."""

    def read(key: str, value: object) -> str | None:
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{key} must be a string, not a {type(value).__name__}")
        return value

    return attrs.field(default=None, repr=False, metadata={_READ: read})


def strings(default: Sequence[str] = ()) -> Any:
    """A list of strings; as text, separated by commas."""

    def read(key: str, value: object) -> tuple[str, ...]:
        if isinstance(value, str):
            return tuple(filter(None, (part.strip() for part in value.split(","))))
        if not isinstance(value, Iterable):
            raise ConfigError(f"{key} must be a list of strings, not {shown(value)}")
        found = tuple(value)
        if not all(isinstance(part, str) for part in found):
            raise ConfigError(f"{key} must be a list of strings, not {shown(value)}")
        return found

    return attrs.field(default=tuple(default), metadata={_READ: read})


def addresses() -> Any:
    """A list of `host:port`."""

    def read(key: str, value: object) -> tuple[Address, ...]:
        parts = [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else []
        texts = [part for part in parts if isinstance(part, str)]
        if not isinstance(value, str | Iterable) or isinstance(value, bytes) or len(texts) < len(parts):
            raise ConfigError(f"{key} must be a list of host:port, not {shown(value)}")
        return tuple(parse_addresses(texts))

    return attrs.field(default=(), metadata={_READ: read})


def parsed(default: Any, read: Callable[[str, object], Any]) -> Any:
    """A key with a form of its own. `read` takes the key and the value, and raises ConfigError."""
    return attrs.field(default=default, metadata={_READ: read})


def _read_function(key: str, value: object) -> Callable[[], object] | None:
    if value is not None and not callable(value):
        raise ConfigError(f"{key} must be a function without parameters, not a {type(value).__name__}")
    return value


@attrs.frozen(kw_only=True)
class ClientConfig:
    """The keys that all clients have (CommonClientConfigs.java). Times are in milliseconds, sizes in bytes."""

    bootstrap_servers: tuple[Address, ...] = addresses()
    client_id: str = text("")
    client_rack: str = text("")
    request_timeout_ms: float = number(30_000, at_least=0, at_most=_INT32_MAX)
    retry_backoff_ms: float = number(100, at_least=0)
    retry_backoff_max_ms: float = number(1_000, at_least=0)
    reconnect_backoff_ms: float = number(50, at_least=0)
    reconnect_backoff_max_ms: float = number(1_000, at_least=0)
    socket_connection_setup_timeout_ms: float = number(10_000, at_least=0)
    socket_connection_setup_timeout_max_ms: float = number(30_000, at_least=0)
    # Kafka's defaults (128 KiB, 64 KiB) would turn off the kernel's own tuning; -1 leaves it on.
    send_buffer_bytes: int = whole_number(-1, at_least=-1)
    receive_buffer_bytes: int = whole_number(-1, at_least=-1)
    connections_max_idle_ms: float = number(540_000, at_least=-1)
    metadata_max_age_ms: float = number(300_000, at_least=0)
    metadata_recovery_strategy: str = text("rebootstrap", one_of=("none", "rebootstrap"))
    metadata_recovery_rebootstrap_trigger_ms: float = number(300_000, at_least=0)
    metadata_cluster_check_enable: bool = flag(True)
    security_protocol: str = text(
        "PLAINTEXT",
        one_of=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )
    # Java's names, and librdkafka's: `sasl.mechanisms`, `sasl.username`, `sasl.password`.
    sasl_mechanism: str | None = text(None)
    sasl_mechanisms: str | None = text(None)
    sasl_jaas_config: str | None = secret()
    sasl_username: str | None = text(None)
    sasl_password: str | None = secret()
    # A function that returns a token, or a pair of a token and its expiration in seconds since 1970.
    oauth_token: Callable[[], object] | None = parsed(None, _read_function)  # noqa: RUF009 - a field
    sasl_oauthbearer_token_endpoint_url: str | None = text(None)
    sasl_oauthbearer_client_credentials_client_id: str | None = text(None)
    sasl_oauthbearer_client_credentials_client_secret: str | None = secret()
    sasl_oauthbearer_scope: str | None = text(None)
    sasl_oauthbearer_header_urlencode: bool = flag(False)
    # librdkafka's names of the two above, and its own keys.
    sasl_oauthbearer_client_id: str | None = text(None)
    sasl_oauthbearer_client_secret: str | None = secret()
    sasl_oauthbearer_method: str | None = text(None, one_of=("default", "oidc"))
    sasl_oauthbearer_extensions: str | None = text(None)
    sasl_login_connect_timeout_ms: float | None = number(None, at_least=0, is_optional=True)
    sasl_login_read_timeout_ms: float | None = number(None, at_least=0, is_optional=True)
    sasl_login_retry_backoff_ms: float = number(100, at_least=0)
    sasl_login_retry_backoff_max_ms: float = number(10_000, at_least=0)
    sasl_login_refresh_window_factor: float = number(0.8, at_least=0.5, at_most=1)
    sasl_login_refresh_window_jitter: float = number(0.05, at_least=0, at_most=0.25)
    sasl_login_refresh_min_period_seconds: float = number(60, at_least=0, at_most=900)
    sasl_login_refresh_buffer_seconds: float = number(300, at_least=0, at_most=3600)
    # Java's names of stores, and librdkafka's of files. Without either, the authorities of the system are trusted.
    ssl_ca_location: str | None = text(None)
    ssl_ca_pem: str | None = secret()
    ssl_certificate_location: str | None = text(None)
    ssl_certificate_pem: str | None = secret()
    ssl_key_location: str | None = text(None)
    ssl_key_pem: str | None = secret()
    ssl_key_password: str | None = secret()
    ssl_keystore_type: str = text("JKS")
    ssl_keystore_location: str | None = text(None)
    ssl_keystore_password: str | None = secret()
    ssl_keystore_key: str | None = secret()
    ssl_keystore_certificate_chain: str | None = secret()
    ssl_truststore_type: str = text("JKS")
    ssl_truststore_location: str | None = text(None)
    ssl_truststore_password: str | None = secret()
    ssl_truststore_certificates: str | None = secret()
    ssl_enabled_protocols: tuple[str, ...] = strings(("TLSv1.2", "TLSv1.3"))
    ssl_cipher_suites: tuple[str, ...] = strings()
    ssl_endpoint_identification_algorithm: str = text("https")
    enable_ssl_certificate_verification: bool = flag(True)


class ClientSettings(TypedDict, total=False):
    """The keys of `ClientConfig` as keyword arguments. `bootstrap_servers` is a parameter of its own."""

    client_id: str
    client_rack: str
    request_timeout_ms: float
    retry_backoff_ms: float
    retry_backoff_max_ms: float
    reconnect_backoff_ms: float
    reconnect_backoff_max_ms: float
    socket_connection_setup_timeout_ms: float
    socket_connection_setup_timeout_max_ms: float
    send_buffer_bytes: int
    receive_buffer_bytes: int
    connections_max_idle_ms: float
    metadata_max_age_ms: float
    metadata_recovery_strategy: Literal["none", "rebootstrap"]
    metadata_recovery_rebootstrap_trigger_ms: float
    metadata_cluster_check_enable: bool
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    sasl_mechanism: str
    sasl_mechanisms: str
    sasl_jaas_config: str
    sasl_username: str
    sasl_password: str
    oauth_token: Callable[[], object]
    sasl_oauthbearer_token_endpoint_url: str
    sasl_oauthbearer_client_credentials_client_id: str
    sasl_oauthbearer_client_credentials_client_secret: str
    sasl_oauthbearer_scope: str
    sasl_oauthbearer_header_urlencode: bool
    sasl_oauthbearer_client_id: str
    sasl_oauthbearer_client_secret: str
    sasl_oauthbearer_method: Literal["default", "oidc"]
    sasl_oauthbearer_extensions: str
    sasl_login_connect_timeout_ms: float
    sasl_login_read_timeout_ms: float
    sasl_login_retry_backoff_ms: float
    sasl_login_retry_backoff_max_ms: float
    sasl_login_refresh_window_factor: float
    sasl_login_refresh_window_jitter: float
    sasl_login_refresh_min_period_seconds: float
    sasl_login_refresh_buffer_seconds: float
    ssl_ca_location: str
    ssl_ca_pem: str
    ssl_certificate_location: str
    ssl_certificate_pem: str
    ssl_key_location: str
    ssl_key_pem: str
    ssl_key_password: str
    ssl_keystore_type: str
    ssl_keystore_location: str
    ssl_keystore_password: str
    ssl_keystore_key: str
    ssl_keystore_certificate_chain: str
    ssl_truststore_type: str
    ssl_truststore_location: str
    ssl_truststore_password: str
    ssl_truststore_certificates: str
    ssl_enabled_protocols: Sequence[str]
    ssl_cipher_suites: Sequence[str]
    ssl_endpoint_identification_algorithm: str
    enable_ssl_certificate_verification: bool


_SECRETS: Final = frozenset(field.name.replace("_", ".") for field in attrs.fields(ClientConfig) if not field.repr)


def is_secret(key: str) -> bool:
    """True for a key of clients, by Kafka's name or by librdkafka's, whose value is never shown."""
    return key in _SECRETS


def require_servers(config: ClientConfig) -> None:
    """Raises ConfigError for a client that has no address to connect to."""
    if not config.bootstrap_servers:
        raise ConfigError("no server is given; give bootstrap servers")


_C = TypeVar("_C", bound=ClientConfig)


def read_config(
    config_class: type[_C],
    bootstrap_servers: str | Sequence[str] | None,
    config: Mapping[str, object] | None = None,
    settings: Mapping[str, object] | None = None,
) -> _C:
    """Merges a dict of Kafka's keys and keyword arguments, and checks them. Raises ConfigError.

    A key that is given in both ways is an error, and so is one that the class does not have.
    """
    fields = attrs.fields_dict(config_class)
    given: dict[str, object] = {}
    if bootstrap_servers is not None:
        given["bootstrap_servers"] = bootstrap_servers
    for key, value in [*(config or {}).items(), *(settings or {}).items()]:
        if not isinstance(key, str):
            raise ConfigError(f"a config key is a str, such as client.id, not {shown(key)}")
        name = key.replace(".", "_")
        if name in given:
            raise ConfigError(f"{_key(name)} is given twice")
        if name not in fields:
            raise ConfigError(_unknown(key, fields))
        given[name] = value
    values = {name: fields[name].metadata[_READ](_key(name), value) for name, value in given.items()}
    return config_class(**values)


def _unknown(key: str, fields: Mapping[str, object]) -> str:
    dotted = key.replace("_", ".")
    if dotted in _OF_JAVA:
        return f"{key} does not apply to this client: {_OF_JAVA[dotted]}"
    if dotted in _OF_TLS:
        return f"{key} does not apply to this client: {_OF_TLS[dotted]}"
    if dotted.startswith(_OF_SASL):
        return f"{key} does not apply to this client: {_JAVA_SASL}"
    return f"{key} is not a config key of this client{_suggestion(dotted, [_key(name) for name in fields])}"


def _suggestion(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _key(name: str) -> str:
    return name.replace("_", ".")


def _check_length(key: str, value: str) -> None:
    """Raises ConfigError for text that no string of the protocol can hold, as those of ids and racks have to be."""
    try:
        check_text(value)
    except WrongArgument as wrong:
        raise ConfigError(str(wrong.error(key))) from None


def _number(key: str, value: object) -> float:
    if isinstance(value, str):
        try:
            # `int` and `float` take `1_000`, `inf` and numbers of any length as well, which Kafka does not.
            if not _NUMBER_TEXT.fullmatch(text := value.strip()):
                raise ValueError
            value = float(text) if "." in text else int(text)
        except ValueError:
            raise ConfigError(f"{key} must be a number, not {shown(value)}") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise ConfigError(f"{key} must be a number, not {shown(value)}")
    return value
