"""Contexts from key and trust stores: PEM in its forms, PKCS12, and stores that are refused with a way out."""

import ssl
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from broker.security.tls.cipher_suites import TLS_1_3_SUITES, openssl_name
from broker.security.tls.context_source import ContextSource
from broker.security.tls.contexts import client_context, server_context
from broker.security.tls.own_trust import trusts_itself
from broker.security.tls.settings import TlsConfigError, TlsSettings, read_settings
from tests.support.certificates import Identity, TestAuthority

PASSWORD = "s3cret-password"


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path)


@pytest.fixture
def node(authority: TestAuthority) -> Identity:
    return authority.issue("node", "localhost")


def settings(**texts: str) -> TlsSettings:
    named = {f"ssl.{key.replace('_', '.')}": text for key, text in texts.items()}
    return read_settings(named.get)


def encrypted(key: str) -> str:
    loaded = serialization.load_pem_private_key(key.encode(), None)
    algorithm = serialization.BestAvailableEncryption(PASSWORD.encode())
    return loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, algorithm).decode()


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """The client's side of a connection between the two. Raises ssl.SSLError."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return sides[0]


def test_pem_in_files_inline_and_on_one_line(authority: TestAuthority, node: Identity) -> None:
    client = client_context(settings(truststore_type="PEM", truststore_location=str(authority.file)))
    inline = {"keystore_type": "PEM", "keystore_key": node.key, "keystore_certificate_chain": node.chain}
    in_file = settings(keystore_type="PEM", keystore_location=str(node.file))
    on_one_line = settings(**{key: text.replace("\n", " ") for key, text in inline.items()})
    for each in (in_file, settings(**inline), on_one_line):
        assert handshake(server_context(each), client).version() == "TLSv1.3"


def test_encrypted_key_takes_its_password_and_asks_no_terminal(authority: TestAuthority, node: Identity) -> None:
    inline = {
        "keystore_type": "PEM",
        "keystore_key": encrypted(node.key),
        "keystore_certificate_chain": node.chain,
    }
    assert server_context(settings(**inline, key_password=PASSWORD))
    with pytest.raises(TlsConfigError, match=r"the private key is encrypted; set ssl\.key\.password"):
        server_context(settings(**inline))
    with pytest.raises(TlsConfigError, match=r"ssl\.key\.password may be wrong") as raised:
        server_context(settings(**inline, key_password="wr0ng"))
    assert "wr0ng" not in str(raised.value)
    assert PASSWORD not in repr(settings(**inline, key_password=PASSWORD))
    assert node.key.splitlines()[1] not in repr(settings(**inline, key_password=PASSWORD))


def test_key_of_another_certificate_is_refused(authority: TestAuthority, node: Identity) -> None:
    other = authority.issue("other")
    with pytest.raises(TlsConfigError, match="the private key is not that of the certificate"):
        server_context(settings(keystore_type="PEM", keystore_key=other.key, keystore_certificate_chain=node.chain))


def keytool(*arguments: object) -> None:
    subprocess.run(["keytool", *map(str, arguments)], check=True, capture_output=True, timeout=60)


def test_pkcs12_and_jks_stores_of_keytool(tmp_path: Path, authority: TestAuthority, node: Identity) -> None:
    keys, trust, jks = tmp_path / "keys.p12", tmp_path / "trust.p12", tmp_path / "keys.jks"
    secret = ["-storepass", PASSWORD, "-noprompt"]
    openssl = ["openssl", "pkcs12", "-export", "-in", node.file, "-inkey", node.file, "-out", keys, "-name", "node"]
    subprocess.run([*map(str, openssl), "-passout", f"pass:{PASSWORD}"], check=True, timeout=60)
    keytool("-importcert", "-file", authority.file, "-alias", "ca", "-keystore", trust, "-storetype", "PKCS12", *secret)
    keytool("-importkeystore", "-srckeystore", keys, "-srcstorepass", PASSWORD, "-destkeystore", jks,
            "-deststoretype", "JKS", "-deststorepass", PASSWORD, "-destkeypass", PASSWORD, "-noprompt")  # fmt: skip
    client = client_context(
        settings(truststore_type="PKCS12", truststore_location=str(trust), truststore_password=PASSWORD)
    )
    # Java reads PKCS12 as the type JKS, too, which is the default.
    for kind in ("PKCS12", "JKS"):
        server = server_context(settings(keystore_type=kind, keystore_location=str(keys), keystore_password=PASSWORD))
        assert handshake(server, client).version() == "TLSv1.3"
    with pytest.raises(TlsConfigError, match=r"wrong ssl\.keystore\.password"):
        server_context(settings(keystore_location=str(keys), keystore_password="wrong"))
    with pytest.raises(TlsConfigError, match=r"keytool -importkeystore -srckeystore .*keys\.jks .* PKCS12"):
        server_context(settings(keystore_location=str(jks), keystore_password=PASSWORD))


def test_server_without_a_certificate_is_refused() -> None:
    with pytest.raises(TlsConfigError, match=r"needs a certificate: set ssl\.keystore\.location"):
        server_context(settings())


def test_certificate_that_is_trusted_itself_needs_no_authority(node: Identity) -> None:
    """Java trusts every certificate of a truststore; OpenSSL wants a root unless it is told otherwise."""
    server = server_context(settings(keystore_type="PEM", keystore_location=str(node.file)))
    client = client_context(settings(truststore_type="PEM", truststore_location=str(node.file)))
    assert handshake(server, client).version() == "TLSv1.3"


@pytest.mark.parametrize(
    ("suites", "version", "cipher"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        (",".join(TLS_1_3_SUITES), "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
    ],
)
def test_cipher_suites_of_java_and_openssl(
    authority: TestAuthority, node: Identity, suites: str, version: str, cipher: str
) -> None:
    server = server_context(settings(keystore_type="PEM", keystore_location=str(node.file), cipher_suites=suites))
    client = client_context(settings(truststore_type="PEM", truststore_location=str(authority.file)))
    connected = handshake(server, client)
    assert connected.version() == version
    found = connected.cipher()
    assert found is not None
    assert found[0] == cipher


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"cipher_suites": "TLS_AES_128_GCM_SHA256"}, "cannot choose among the cipher suites of TLS 1.3"),
        ({"cipher_suites": "TLS_RSA_WITH_NOTHING"}, "OpenSSL has no cipher suite"),
        ({"cipher_suites": ",".join(TLS_1_3_SUITES), "enabled_protocols": "TLSv1.2"}, "none of a version"),
        ({"enabled_protocols": "TLSv1"}, "older ones are broken"),
        ({"enabled_protocols": "TLSv9"}, "TLSv9 is no version of TLS"),
        ({"protocol": "SSLv3"}, "SSLv3 is no version of TLS"),
        ({"client_auth": "maybe"}, "must be one of none, requested, required"),
    ],
)
def test_versions_and_suites_that_cannot_be_are_refused(node: Identity, texts: dict[str, str], message: str) -> None:
    with pytest.raises(TlsConfigError, match=message):
        server_context(settings(keystore_type="PEM", keystore_location=str(node.file), **texts))


def test_names_of_suites_follow_openssl() -> None:
    assert openssl_name("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256") == "ECDHE-RSA-CHACHA20-POLY1305"
    assert openssl_name("TLS_RSA_WITH_AES_128_CBC_SHA") == "AES128-SHA"
    assert openssl_name("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384") == "ECDHE-RSA-AES256-SHA384"
    assert openssl_name("TLS_DHE_RSA_WITH_AES_128_CCM_8") == "DHE-RSA-AES128-CCM8"


def test_changed_files_are_used_and_unusable_ones_reported_once(authority: TestAuthority, node: Identity) -> None:
    source = ContextSource(server_context, settings(keystore_type="PEM", keystore_location=str(node.file)))
    first = source.context()
    assert not source.refresh()
    node.file.write_text("cut")
    with pytest.raises(TlsConfigError):
        source.refresh()
    assert not source.refresh()
    assert source.context() is first
    authority.issue("node", "localhost")
    assert source.refresh()
    assert source.context() is not first
    node.file.unlink()
    with pytest.raises(TlsConfigError, match="No such file"):
        source.refresh()


@pytest.mark.parametrize("client_auth", ["none", "required"])
def test_nodes_accept_each_other_if_the_truststore_has_the_authority_of_the_keystore(
    authority: TestAuthority, node: Identity, tmp_path: Path, client_auth: str
) -> None:
    stranger = TestAuthority(tmp_path / "stranger")
    for trusted, is_accepted in ((authority, True), (stranger, False)):
        own = read_settings(
            {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(node.file),
                "ssl.client.auth": client_auth,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(trusted.file),
            }.get
        )
        assert trusts_itself(own) == is_accepted
