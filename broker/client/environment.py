"""The wall clock and the random numbers of a client; a simulation brings its own."""

import random
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

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


# The environment of clients that are opened without one. A task that sets it decides for itself and for the tasks that
# it starts, as with Trio's socket factory. While it is None, each client gets a new one.
DEFAULT_ENVIRONMENT: Final[ContextVar[Environment | None]] = ContextVar("default_client_environment", default=None)


def environment_of(given: Environment | None) -> Environment:
    """The environment that a client was given, or else the default of the current task."""
    return given or DEFAULT_ENVIRONMENT.get() or Environment()
