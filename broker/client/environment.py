"""The wall clock and the random numbers of a client; a simulation brings its own."""

import random
import time
from collections.abc import Callable

import attrs


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@attrs.frozen
class Environment:
    """`now_ms` is the wall clock in milliseconds since 1970; `rng` decides back-offs, partitions and member ids.

    `secure_rng` makes what others may not guess, such as the nonces of SASL.
    """

    now_ms: Callable[[], int] = _now_ms
    rng: random.Random = attrs.field(factory=random.Random)
    secure_rng: random.Random = attrs.field(factory=random.SystemRandom)
