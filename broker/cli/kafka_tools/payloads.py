"""The values that the producer performance test sends."""

from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

from broker.cli.kafka_tools.files import read_file
from broker.cli.kafka_tools.options import UsageFailure
from broker.cli.printing import print_text

# Returns the value of a record by its number.
Payloads: TypeAlias = Callable[[int], bytes]

_LETTERS: Final = bytes(65 + code % 26 for code in range(256))
_POOL_BYTES: Final = 1 << 20


def random_payloads(size: int, rng: Random) -> Payloads:
    """Random capital letters, cut out of a pool: to draw each letter would take longer than to send it."""
    pool = rng.randbytes(_POOL_BYTES + size).translate(_LETTERS)

    def payload(number: int) -> bytes:
        start = rng.randrange(_POOL_BYTES)
        return pool[start : start + size]

    return payload


def payloads_of_file(path: str, delimiter: str, rng: Random) -> Payloads:
    """The parts of a file, in random order. Raises UsageFailure, ToolExit."""
    print_text(f"Reading payloads from: {path}")
    parts = read_file(path).removesuffix(delimiter).split(delimiter)
    if parts == [""]:
        raise UsageFailure("File does not exist or empty file provided.")
    print_text(f"Number of records read: {len(parts)}")
    encoded = [part.encode() for part in parts]
    return lambda number: rng.choice(encoded)


def monotonic_payloads(number: int) -> bytes:
    """Returns the number as text: 0, 1, 2 and so on."""
    return b"%d" % number
