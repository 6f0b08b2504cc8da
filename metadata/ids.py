"""UUIDs in Kafka's format: 16 bytes, with 22 characters of URL-safe base64 as the text form."""

from base64 import urlsafe_b64encode
from collections.abc import Collection
from random import Random

# Reserved ids, which are not log directories (KIP-858): MIGRATING if the broker has not reported the directory yet,
# UNASSIGNED if it has not chosen one, LOST if the directory failed.
MIGRATING_DIRECTORY = bytes(16)
UNASSIGNED_DIRECTORY = bytes(15) + b"\x01"
LOST_DIRECTORY = bytes(15) + b"\x02"
RESERVED_IDS = 100
_DASH = 62  # the six bits that '-' encodes; a command line would parse text that starts with it as an option


def random_uuid(rng: Random) -> bytes:
    """A random version 4 UUID that is not reserved, and whose text form does not start with a dash."""
    while True:
        drawn = bytearray(rng.randbytes(16))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        if drawn[0] >> 2 != _DASH and not is_reserved(drawn):
            return bytes(drawn)


def is_reserved(uuid: bytes | bytearray) -> bool:
    return int.from_bytes(uuid, "big") < RESERVED_IDS


def uuid_text(uuid: bytes) -> str:
    return urlsafe_b64encode(uuid).rstrip(b"=").decode()


def is_online(directory: bytes, log_dirs: Collection[bytes]) -> bool:
    """True if a replica's directory is one of its broker's online `log_dirs`, or is not known yet."""
    return directory in log_dirs or directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)
