"""The values of the ssl.* configs that a context is made of."""

from collections.abc import Callable
from typing import Final

import attrs

from kraft import lazy_attrs

# Kafka's default; Java reads PKCS12 files as this type, too.
JKS: Final = "JKS"
PEM: Final = "PEM"
PKCS12: Final = "PKCS12"
_CLIENT_AUTHS: Final = ("none", "requested", "required")
_PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")
# Names that Kafka's configs may have for versions that nothing should speak any more (RFC 8996), and for any version.
_OTHER_PROTOCOLS: Final = ("TLSv1", "TLSv1.1", "TLS")


class TlsConfigError(ValueError):
    """Configs of TLS that contradict each other, or a store that cannot be read. The message names the config."""


@lazy_attrs.frozen
class StoreSettings:
    """A store of keys or of trusted certificates: a file, or PEM text itself (KIP-651).

    `prefix` is "ssl.keystore" or "ssl.truststore". `key_location` is a file with the key, if another one has it than
    the certificates.
    """

    prefix: str
    type: str = JKS
    location: str | None = None
    password: str | None = attrs.field(default=None, repr=False)
    certificates: str | None = attrs.field(default=None, repr=False)
    key: str | None = attrs.field(default=None, repr=False)
    key_password: str | None = attrs.field(default=None, repr=False)
    key_location: str | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the store is read from."""
        return tuple(path for path in (self.location, self.key_location) if path is not None)


@lazy_attrs.frozen
class TlsSettings:
    """One side of TLS. `client_auth` is a server's; `verifies_server` and `checks_host` are a client's."""

    key_store: StoreSettings
    trust_store: StoreSettings
    client_auth: str = "none"
    protocols: tuple[str, ...] = _PROTOCOLS
    cipher_suites: tuple[str, ...] = ()
    verifies_server: bool = True
    checks_host: bool = True

    @property
    def files(self) -> tuple[str, ...]:
        """The files that a context is made of."""
        return (*self.key_store.files, *self.trust_store.files)


def read_settings(text: Callable[[str], str | None]) -> TlsSettings:
    """The settings from configs, which `text` gives by Kafka's names. Raises TlsConfigError."""
    client_auth = text("ssl.client.auth") or "none"
    if client_auth not in _CLIENT_AUTHS:
        raise TlsConfigError(f"ssl.client.auth must be one of {', '.join(_CLIENT_AUTHS)}, not {client_auth}")
    return TlsSettings(
        key_store=_check_key_store(
            StoreSettings(
                "ssl.keystore",
                type=(text("ssl.keystore.type") or JKS).upper(),
                location=text("ssl.keystore.location"),
                password=text("ssl.keystore.password"),
                certificates=text("ssl.keystore.certificate.chain"),
                key=text("ssl.keystore.key"),
                key_password=text("ssl.key.password"),
            )
        ),
        trust_store=_check_trust_store(
            StoreSettings(
                "ssl.truststore",
                type=(text("ssl.truststore.type") or JKS).upper(),
                location=text("ssl.truststore.location"),
                password=text("ssl.truststore.password"),
                certificates=text("ssl.truststore.certificates"),
            )
        ),
        client_auth=client_auth,
        protocols=_protocols(text("ssl.protocol"), text("ssl.enabled.protocols")),
        cipher_suites=_elements(text("ssl.cipher.suites")),
        checks_host=checks_host(text("ssl.endpoint.identification.algorithm")),
    )


def checks_host(algorithm: str | None) -> bool:
    """Whether a client compares the server's name with its certificate. None is the default, https.

    Raises TlsConfigError.
    """
    name = "https" if algorithm is None else algorithm.strip().lower()
    if name not in ("https", "none", ""):
        raise TlsConfigError(f"ssl.endpoint.identification.algorithm must be https, none or empty, not {algorithm}")
    return name == "https"


def _elements(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, (text or "").split(","))))


def _protocols(protocol: str | None, enabled: str | None) -> tuple[str, ...]:
    """The versions in `ssl.enabled.protocols` that can be spoken. `ssl.protocol` adds nothing, but has to be valid."""
    names = _elements(enabled) or _PROTOCOLS
    for name in (*names, *filter(None, [protocol])):
        if name not in (*_PROTOCOLS, *_OTHER_PROTOCOLS):
            raise TlsConfigError(f"{name} is no version of TLS; ssl.enabled.protocols: {', '.join(_PROTOCOLS)}")
    found = tuple(name for name in _PROTOCOLS if name in names)
    if not found:
        raise TlsConfigError(f"ssl.enabled.protocols must have one of {', '.join(_PROTOCOLS)}; older ones are broken")
    return found


def _check_key_store(store: StoreSettings) -> StoreSettings:
    """Check the configs of a key store against each other, with Kafka's messages."""
    if store.key is not None:
        _require(
            store.type == PEM, f"SSL private key can be specified only for PEM, but key store type is {store.type}."
        )
        _require(
            store.certificates is not None, "SSL private key is specified, but certificate chain is not specified."
        )
        _require(store.location is None, "Both SSL key store location and separate private key are specified.")
        _require(
            store.password is None,
            "SSL key store password cannot be specified with PEM format, only key password may be specified.",
        )
    elif store.certificates is not None:
        raise TlsConfigError("SSL certificate chain is specified, but private key is not specified")
    elif store.type == PEM and store.location is not None:
        _require(
            store.password is None,
            "SSL key store password cannot be specified with PEM format, only key password may be specified",
        )
    elif store.location is None:
        _require(store.password is None, "SSL key store is not specified, but key store password is specified.")
    else:
        _require(
            store.password is not None,
            "SSL key store is specified, but key store password is not specified."
            f" The store has the type {store.type}; a PEM file needs ssl.keystore.type=PEM.",
        )
    return store


def _check_trust_store(store: StoreSettings) -> StoreSettings:
    if store.certificates is not None:
        _require(
            store.type == PEM,
            f"SSL trust store certs can be specified only for PEM, but trust store type is {store.type}.",
        )
        _require(store.location is None, "Both SSL trust store location and separate trust certificates are specified.")
    if store.type == PEM and (store.certificates or store.location) is not None:
        _require(store.password is None, "SSL trust store password cannot be specified for PEM format.")
    if store.location is None:
        _require(store.password is None, "SSL trust store is not specified, but trust store password is specified.")
    return store


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise TlsConfigError(message)
