"""A private certificate authority for clusters on one machine. Needs the package `cryptography`.

The authority's key stays in memory: it signs the certificates of one cluster and is forgotten. A certificate that is
needed later comes from a new authority, or from a real one.
"""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# A cluster for development should not stop working on some day.
_VALIDITY: Final = timedelta(days=3650)
# The clocks of other machines may be late.
_CLOCK_SKEW: Final = timedelta(days=1)
_USAGES: Final = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


class PrivateAuthority:
    """An authority called `name`, whose certificates are valid for ten years from `now_s`, a Unix time in seconds.

    `certificate` is its own certificate in PEM, by which clients and nodes trust it.
    """

    def __init__(self, name: str, now_s: float) -> None:
        now = datetime.fromtimestamp(now_s, UTC)
        self._not_before, self._not_after = now - _CLOCK_SKEW, now + _VALIDITY
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _distinguished_name(name)
        self._key_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        certificate = (
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(is_authority=True), critical=True)
            .add_extension(self._key_id, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = certificate.public_bytes(Encoding.PEM)

    def issue(self, name: str, hosts: Sequence[str] = ()) -> bytes:
        """A new private key and its certificate for the common name `name`, both in PEM and in this order.

        `hosts` are the host names and IP addresses that the certificate is valid for; none for a client. It may be used
        by servers and by clients, as nodes are both.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            self._builder(_distinguished_name(name), key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(is_authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(_USAGES), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._key_id), critical=False)
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        # PKCS#8 is the only form of private keys that Kafka reads.
        private_key = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return private_key + certificate.public_bytes(Encoding.PEM)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._not_before)
            .not_valid_after(self._not_after)
        )


def _distinguished_name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )
