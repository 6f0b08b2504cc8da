"""Reads key and trust stores of the types PEM and PKCS12 into PEM."""

from typing import Any, Final

import attrs

from broker.security.tls import pem
from broker.security.tls.files import read_store
from broker.security.tls.settings import PEM, StoreSettings, TlsConfigError
from kraft import lazy_attrs

_JKS_BEGINS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_DER_BEGINS: Final = b"\x30"


@lazy_attrs.frozen
class KeyMaterial:
    """A certificate chain and its private key, as PEM; `password` is that of the key."""

    chain: str
    key: str = attrs.field(repr=False)
    password: str | None = attrs.field(default=None, repr=False)


def read_key_store(store: StoreSettings) -> KeyMaterial | None:
    """The key and certificates of a store; None if none is configured. Raises TlsConfigError."""
    if store.certificates is not None and store.key is not None:
        return _from_pem(store, store.certificates, store.key)
    if store.location is None:
        return None
    content = read_store(store.location, f"{store.prefix}.location")
    if store.type == PEM:
        text = _decode(content)
        key = text if store.key_location is None else _decode(read_store(store.key_location, "ssl.key.location"))
        return _from_pem(store, text, key)
    _check_type(store, content)
    found = _open_pkcs12(store, content)
    if found.key is None or found.cert is None:
        raise TlsConfigError(f"{store.prefix}.location={store.location} has no private key with a certificate")
    chain = [found.cert, *found.additional_certs]
    return KeyMaterial("".join(_certificate_pem(each) for each in chain), _key_pem(found.key))


def read_trust_store(store: StoreSettings) -> str | None:
    """The certificates of a store; None if none is configured. Raises TlsConfigError."""
    if store.certificates is not None:
        return _certificates(store, store.certificates)
    if store.location is None:
        return None
    content = read_store(store.location, f"{store.prefix}.location")
    if store.type == PEM:
        return _certificates(store, _decode(content))
    _check_type(store, content)
    found = _open_pkcs12(store, content)
    chain = [*filter(None, [found.cert]), *found.additional_certs]
    if not chain:
        raise TlsConfigError(f"{store.prefix}.location={store.location} has no certificates")
    return "".join(_certificate_pem(each) for each in chain)


def _from_pem(store: StoreSettings, chain: str, key: str) -> KeyMaterial:
    try:
        material = KeyMaterial(pem.certificates(chain), pem.private_key(key), store.key_password)
    except pem.MalformedPem as error:
        raise TlsConfigError(f"{_place(store)}: {error}") from error
    if pem.is_encrypted(material.key) and not store.key_password:
        raise TlsConfigError(f"{_place(store)}: the private key is encrypted; set ssl.key.password")
    return material


def _certificates(store: StoreSettings, text: str) -> str:
    try:
        return pem.certificates(text)
    except pem.MalformedPem as error:
        raise TlsConfigError(f"{_place(store)}: {error}") from error


def _place(store: StoreSettings) -> str:
    return store.prefix if store.location is None else f"{store.prefix}.location={store.location}"


def _decode(content: bytes) -> str:
    return content.decode("latin-1")


def _check_type(store: StoreSettings, content: bytes) -> None:
    """Raises TlsConfigError unless the content can be PKCS12, which Java reads as the types JKS and PKCS12."""
    place = _place(store)
    if content[:4] in _JKS_BEGINS:
        raise TlsConfigError(
            f"{place} is a JKS file, which only Java reads. Convert it: keytool -importkeystore -srckeystore"
            f" {store.location} -destkeystore {store.location}.p12 -deststoretype PKCS12, and set {store.prefix}.type"
            " to PKCS12"
        )
    if b"-----BEGIN" in content:
        raise TlsConfigError(f"{place} is a PEM file; set {store.prefix}.type to PEM")
    if content[:1] != _DER_BEGINS:
        raise TlsConfigError(f"{place} is neither a PKCS12 file nor a PEM file")


# The objects of the package cryptography are not typed here: it is optional.
def _open_pkcs12(store: StoreSettings, content: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as error:
        raise TlsConfigError(
            f"{_place(store)} is a PKCS12 file, which takes the package cryptography: pip install 'kraft[security]'; or"
            " convert the file to PEM"
        ) from error
    try:
        return pkcs12.load_pkcs12(content, None if store.password is None else store.password.encode())
    except ValueError as error:
        # The text of the error may have parts of the file.
        raise TlsConfigError(f"{_place(store)} cannot be opened: wrong {store.prefix}.password, or damaged") from error


def _certificate_pem(found: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    text: str = found.certificate.public_bytes(Encoding.PEM).decode()
    return text


def _key_pem(key: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    text: str = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return text
