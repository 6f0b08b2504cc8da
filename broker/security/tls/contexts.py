"""Makes the contexts of the standard library's ssl from the settings."""

import ssl
from typing import Final

from broker.security.tls.cipher_suites import TLS_1_3_SUITES, openssl_name
from broker.security.tls.files import is_directory, memory_file
from broker.security.tls.settings import PEM, TlsConfigError, TlsSettings
from broker.security.tls.stores import KeyMaterial, read_key_store, read_trust_store

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY_MODES: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """A context for accepted connections. Raises TlsConfigError."""
    material = read_key_store(settings.key_store)
    if material is None:
        raise TlsConfigError(
            "a listener that speaks TLS needs a certificate: set ssl.keystore.location, or"
            " ssl.keystore.certificate.chain and ssl.keystore.key"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load_key(context, material)
    context.verify_mode = _VERIFY_MODES[settings.client_auth]
    if settings.client_auth != "none":
        _load_trust(context, settings)
    # A client that negotiates again and again would take time of the node.
    context.options |= ssl.OP_NO_RENEGOTIATION
    # Tickets would be sent at once. A client that sends a request and closes without having read them resets the
    # connection, and the request is lost.
    context.num_tickets = 0
    _choose(context, settings)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """A context for connections to servers. Raises TlsConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.checks_host and settings.verifies_server
    if settings.verifies_server:
        _load_trust(context, settings)
    else:
        context.verify_mode = ssl.CERT_NONE
    material = read_key_store(settings.key_store)
    if material is not None:
        _load_key(context, material)
    _choose(context, settings)
    return context


def _load_key(context: ssl.SSLContext, material: KeyMaterial) -> None:
    with memory_file(material.chain.encode()) as chain, memory_file(material.key.encode()) as key:
        try:
            # Without a password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(chain, key, password=material.password or "")
        except ssl.SSLError as error:
            raise TlsConfigError(_key_problem(error)) from None
        except (OSError, ValueError) as error:
            raise TlsConfigError("the certificate chain or its private key cannot be read") from error


def _key_problem(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the private key is not that of the certificate: ssl.keystore has to have both"
    if error.reason in ("EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK"):
        return f"the certificate is too weak: {error.reason.lower().replace('_', ' ')}"
    what = (error.reason or "unreadable").lower().replace("_", " ")
    return f"the certificate chain or its private key cannot be read ({what}); ssl.key.password may be wrong"


def _load_trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Trust the certificates of the store, also those that are not an authority's own, as Java does."""
    store = settings.trust_store
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if store.type == PEM and store.location is not None and is_directory(store.location):
        context.load_verify_locations(capath=store.location)
        return
    trusted = read_trust_store(store)
    if trusted is None:
        context.load_default_certs(
            ssl.Purpose.CLIENT_AUTH if context.protocol == ssl.PROTOCOL_TLS_SERVER else ssl.Purpose.SERVER_AUTH
        )
        return
    try:
        context.load_verify_locations(cadata=trusted)
    except ssl.SSLError as error:
        what = (error.reason or "unreadable").lower().replace("_", " ")
        raise TlsConfigError(f"a certificate of {store.prefix} cannot be read: {what}") from error


def _choose(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Restrict the versions and the cipher suites."""
    names = [name for element in settings.cipher_suites for name in element.split(":")]
    modern = [name for name in names if name in TLS_1_3_SUITES]
    older = [openssl_name(name) for name in names if name not in TLS_1_3_SUITES]
    versions = [name for name in settings.protocols if not names or (modern if name == "TLSv1.3" else older)]
    if not versions:
        raise TlsConfigError("ssl.cipher.suites has none of a version of ssl.enabled.protocols")
    context.minimum_version, context.maximum_version = _VERSIONS[versions[0]], _VERSIONS[versions[-1]]
    if modern and "TLSv1.3" in versions and len(modern) < len(TLS_1_3_SUITES):
        raise TlsConfigError(
            "Python cannot choose among the cipher suites of TLS 1.3: ssl.cipher.suites has to name all of"
            f" {', '.join(TLS_1_3_SUITES)}, or none of them, which leaves TLS 1.2 only"
        )
    for name in older:
        _set_ciphers(context, name, name)
    if older:
        _set_ciphers(context, ":".join(older), ", ".join(older))


def _set_ciphers(context: ssl.SSLContext, names: str, shown: str) -> None:
    try:
        context.set_ciphers(names)
    except ssl.SSLError as error:
        raise TlsConfigError(f"ssl.cipher.suites: OpenSSL has no cipher suite {shown}") from error
