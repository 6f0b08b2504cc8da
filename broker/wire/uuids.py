"""UUIDs in Kafka's format: 16 bytes on the wire, 22 characters of URL-safe base64 without padding as text."""

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Final

ZERO_UUID: Final = bytes(16)
METADATA_TOPIC_ID: Final = bytes(15) + b"\1"

_UUID_BYTES: Final = 16
_TEXT_MAX: Final = 24  # with padding
# KIP-858 keeps the first hundred for meanings that a log directory's id may have instead (unassigned, lost, migrating).
_RESERVED_BELOW: Final = (100).to_bytes(_UUID_BYTES)


def encode_uuid(uuid: bytes) -> str:
    """The 22 characters that stand for 16 bytes."""
    assert len(uuid) == _UUID_BYTES, uuid
    return urlsafe_b64encode(uuid)[:22].decode()


def decode_uuid(text: str) -> bytes:
    """The 16 bytes of a UUID's text. Raises ValueError with Kafka's message."""
    if len(text) > _TEXT_MAX:
        raise ValueError(f"Input string with prefix `{text[:_TEXT_MAX]}` is too long to be decoded as a base64 UUID")
    unpadded = text.rstrip("=")
    uuid = b64decode(unpadded + "=" * (-len(unpadded) % 4), altchars=b"-_", validate=True)
    if len(uuid) != _UUID_BYTES:
        raise ValueError(
            f"Input string `{text}` decoded as {len(uuid)} bytes, which is not equal to the expected 16 bytes "
            "of a base64-encoded UUID"
        )
    return uuid


def new_uuid(random_bytes: Callable[[int], bytes]) -> bytes:
    """A random (version 4) UUID that is not reserved, and whose text does not look like a command line's option."""
    while True:
        uuid = bytearray(random_bytes(_UUID_BYTES))
        uuid[6] = uuid[6] & 0x0F | 0x40
        uuid[8] = uuid[8] & 0x3F | 0x80
        if uuid >= _RESERVED_BELOW and not encode_uuid(bytes(uuid)).startswith("-"):
            return bytes(uuid)
