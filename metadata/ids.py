"""UUIDs as Kafka makes and prints them: 16 bytes, shown as 22 characters of URL-safe base64."""

from base64 import urlsafe_b64encode
from collections.abc import Collection
from random import Random

# Where no real log directory is meant (KIP-858): one that the broker is yet to choose, or that it will tell of later,
# and one that failed. 100 ids are set aside.
MIGRATING_DIRECTORY = bytes(16)
UNASSIGNED_DIRECTORY = bytes(15) + b"\x01"
LOST_DIRECTORY = bytes(15) + b"\x02"
RESERVED_IDS = 100
_DASH = 62  # what six bits stand for '-', which command lines would take for an option


def random_uuid(rng: Random) -> bytes:
    """A version 4 UUID that is not reserved and whose text does not begin with a dash."""
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
    """Whether the directory of a replica works, these being its broker's that do; for all that is known of it."""
    return directory in log_dirs or directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)
