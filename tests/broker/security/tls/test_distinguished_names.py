"""Subjects of certificates as Java 17 writes them: the expected names are those that X500Principal.getName gave."""

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from broker.security.tls.distinguished_names import NAME_LENGTH_MAX, MalformedCertificate, subject_name

KEY = ec.generate_private_key(ec.SECP256R1())
CUSTOM = x509.ObjectIdentifier("1.2.3.4.55555")


def certificate(*relative_names: dict[x509.ObjectIdentifier, str]) -> bytes:
    """A certificate in DER, whose subject has these relative names, the root's first."""
    subject = x509.Name(
        [
            x509.RelativeDistinguishedName([x509.NameAttribute(oid, text) for oid, text in each.items()])
            for each in relative_names
        ]
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")]))
        .public_key(KEY.public_key())
        .serial_number(7)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2040, 1, 1, tzinfo=UTC))
    )
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("relative_names", "expected"),
    [
        (
            [
                {NameOID.COUNTRY_NAME: "US"},
                {NameOID.STATE_OR_PROVINCE_NAME: "CA"},
                {NameOID.LOCALITY_NAME: "Palo Alto"},
                {NameOID.ORGANIZATION_NAME: "Org, Inc."},
                {NameOID.ORGANIZATIONAL_UNIT_NAME: "Unit+1"},
                {NameOID.COMMON_NAME: "alice"},
            ],
            r"CN=alice,OU=Unit\+1,O=Org\, Inc.,L=Palo Alto,ST=CA,C=US",
        ),
        ([{NameOID.COMMON_NAME: ' #a"b\\c<d>;e=f  '}], r"CN=\ \#a\"b\\c\<d\>\;e\=f\ \ "),
        ([{NameOID.COMMON_NAME: "Jürgen Ж 日本"}], "CN=Jürgen Ж 日本"),
        (
            [{NameOID.EMAIL_ADDRESS: "a@b.c"}, {NameOID.COMMON_NAME: "x"}],
            "CN=x,1.2.840.113549.1.9.1=#16056140622e63",
        ),
        (
            [
                {NameOID.DOMAIN_COMPONENT: "com"},
                {NameOID.DOMAIN_COMPONENT: "example"},
                {NameOID.USER_ID: "u1"},
                {NameOID.STREET_ADDRESS: "Main St"},
            ],
            "STREET=Main St,UID=u1,DC=example,DC=com",
        ),
        (
            [
                {
                    NameOID.COMMON_NAME: "multi",
                    NameOID.ORGANIZATIONAL_UNIT_NAME: "aa",
                    NameOID.EMAIL_ADDRESS: "a@b",
                }
            ],
            "OU=aa+CN=multi+1.2.840.113549.1.9.1=#1603614062",
        ),
        ([{NameOID.SURNAME: "S"}, {NameOID.COMMON_NAME: "n\tl\nx"}], "CN=n\tl\nx,2.5.4.4=#0c0153"),
        (
            [
                {NameOID.COMMON_NAME: "#hash"},
                {NameOID.ORGANIZATION_NAME: "trail "},
                {NameOID.ORGANIZATIONAL_UNIT_NAME: " "},
            ],
            r"OU=\ ,O=trail\ ,CN=\#hash",
        ),
        ([{CUSTOM: "custom"}], "1.2.3.4.55555=#0c06637573746f6d"),
        ([{NameOID.COMMON_NAME: "nul\0x"}], r"CN=nul\00x"),
        ([], ""),
    ],
)
def test_subject_is_that_of_javas_x500principal(
    relative_names: list[dict[x509.ObjectIdentifier, str]], expected: str
) -> None:
    assert subject_name(certificate(*relative_names)) == expected


def test_every_cut_certificate_is_refused_or_read_without_another_error() -> None:
    whole = certificate({NameOID.COMMON_NAME: "alice"}, {NameOID.ORGANIZATION_NAME: "Org"})
    for end in range(len(whole)):
        with pytest.raises(MalformedCertificate):
            subject_name(whole[:end])
    for at in range(min(len(whole), 200)):
        for byte in (0x00, 0x7F, 0x80, 0x84, 0xFF):
            try:
                subject_name(whole[:at] + bytes([byte]) + whole[at + 1 :])
            except MalformedCertificate:
                continue


def test_subject_is_bounded() -> None:
    many = [{NameOID.ORGANIZATIONAL_UNIT_NAME: "x" * 60}] * (NAME_LENGTH_MAX // 60)
    with pytest.raises(MalformedCertificate, match="a subject of"):
        subject_name(certificate(*many))
