"""The arithmetic of SCRAM (RFC 5802): keys that are derived from a password, and signatures made with them.

Passwords and names are used as they are written, in UTF-8, without SASLprep, as by Kafka and its clients.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

import attrs

from metadata.protocol.enums import ScramMechanism

HASHES: Final[Mapping[ScramMechanism, str]] = {
    ScramMechanism.SCRAM_SHA_256: "sha256",
    ScramMechanism.SCRAM_SHA_512: "sha512",
}
# Kafka's bounds. 4,096 is also the least number that RFC 7677 recommends.
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384


@attrs.frozen
class ScramCredential:
    """A server's knowledge of a password: a client that has the password is recognized, and none can be derived."""

    salt: bytes = attrs.field(repr=False)
    stored_key: bytes = attrs.field(repr=False)
    server_key: bytes = attrs.field(repr=False)
    iterations: int = attrs.field()


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """The salted password. It takes milliseconds, in proportion to the iterations."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential for a salted password."""
    stored = stored_key(mechanism, client_key(mechanism, salted))
    return ScramCredential(salt, stored, server_key(mechanism, salted), iterations)


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Client Key", HASHES[mechanism])


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Server Key", HASHES[mechanism])


def stored_key(mechanism: ScramMechanism, of_client: bytes) -> bytes:
    return hashlib.new(HASHES[mechanism], of_client).digest()


def signature(mechanism: ScramMechanism, key: bytes, auth_message: bytes) -> bytes:
    return hmac.digest(key, auth_message, HASHES[mechanism])


def exclusive_or(left: bytes, right: bytes) -> bytes:
    """The bitwise exclusive or of two strings of the same length."""
    assert len(left) == len(right), "both have the length of the hash"
    return (int.from_bytes(left) ^ int.from_bytes(right)).to_bytes(len(left))
