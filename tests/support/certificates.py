"""Certificates of a test's own authority, as files and as PEM text."""

import ssl
from pathlib import Path

import attrs
import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key


@attrs.frozen
class Identity:
    """A certificate with its chain and its private key, as PEM text, and the file that has both."""

    chain: str
    key: str
    file: Path

    @property
    def pem(self) -> str:
        return self.key + self.chain


def _pkcs8(key: bytes) -> str:
    """A private key in the form of PEM that Java reads."""
    loaded = load_pem_private_key(key, None)
    return loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


class TestAuthority:
    """An authority that signs certificates; its own certificate is in `file`."""

    __test__ = False

    def __init__(self, directory: Path, name: str = "authority") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._authority = trustme.CA(organization_name=name)
        self.pem = self._authority.cert_pem.bytes().decode()
        self.file = directory / f"{name}.pem"
        self.file.write_text(self.pem)

    def issue(self, name: str, *hosts: str, common_name: str | None = None) -> Identity:
        """A certificate for servers at `hosts`, or for a client, in the file `name`.pem."""
        issued = self._authority.issue_cert(*(hosts or (name,)), common_name=common_name or name)
        chain = "".join(blob.bytes().decode() for blob in issued.cert_chain_pems)
        identity = Identity(chain, _pkcs8(issued.private_key_pem.bytes()), self._directory / f"{name}.pem")
        identity.file.write_text(identity.pem)
        return identity

    def server_context(self, identity: Identity, *, asks_clients: bool = False) -> ssl.SSLContext:
        """A context of the standard library, for servers that are not nodes."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity.file)
        if asks_clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.file)
        return context

    def client_context(self, identity: Identity | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.file))
        if identity is not None:
            context.load_cert_chain(identity.file)
        return context
