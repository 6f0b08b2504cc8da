"""Exponential back-off with jitter, as Kafka's clients have it (KIP-144, KIP-580)."""

import random
from typing import Final

import attrs

_FACTOR: Final = 2
_JITTER: Final = 0.2
_EXPONENT_MAX: Final = 32


@attrs.frozen
class Backoff:
    """The pause after a number of failures in a row doubles from `initial_ms` up to `max_ms`, give or take 20 %."""

    initial_ms: float
    max_ms: float
    rng: random.Random

    def pause_s(self, failures: int) -> float:
        """Seconds to wait after `failures` failures in a row; 0 after none."""
        if failures == 0:
            return 0.0
        growth: float = _FACTOR ** min(failures - 1, _EXPONENT_MAX)
        pause_ms = min(self.initial_ms * growth, max(self.max_ms, self.initial_ms))
        return pause_ms * self.rng.uniform(1 - _JITTER, 1 + _JITTER) / 1000
