"""A fault of links that is in force on a node, and the connections that it has affected there."""

from collections import deque
from collections.abc import Callable
from enum import StrEnum
from random import Random
from typing import Final

import attrs

from jepsen.testing.links.conditions import LinkFault

# The latest connections that a fault remembers; all are counted.
FIRINGS_MAX: Final = 1_000
_PIECES_PER_S: Final = 50
_PIECE_BYTES_MIN: Final = 256


class Effect(StrEnum):
    """The first effect of a fault on a connection."""

    CONNECT_HELD = "connect held"
    HELD = "held"
    DELAYED = "delayed"
    LOST = "lost"
    HALF_OPEN = "half open"
    RESET = "reset"


@attrs.frozen
class LinkFiring:
    """A connection that a fault has affected. `peer` is the id of a node, or None for a client, which has a client id.
    `at` is the wall-clock time.
    """

    at: float
    node: int
    peer: int | None
    client_id: str | None
    address: str
    effect: Effect


class ActiveLink:
    """`fired` counts the connections that it has affected, `held` those whose bytes or connects wait now.

    `when_changed` is called after each change of these.
    """

    def __init__(
        self, fault_id: str, fault: LinkFault, node: int, when_changed: Callable[["ActiveLink"], None]
    ) -> None:
        self.id = fault_id
        self.fault = fault
        self.conditions = fault.conditions
        self.fired = self.held = self.resets = 0
        self.firings: deque[LinkFiring] = deque(maxlen=FIRINGS_MAX)
        self._rng = Random(f"{fault.conditions.seed}/{node}")
        # When the link is free again, towards the node and from it: it has the bandwidth once in each direction.
        self._free_at = {True: 0.0, False: 0.0}
        self._is_retired = False
        self._when_changed = when_changed

    def fire(self, firing: LinkFiring) -> None:
        """Record that it has affected a connection."""
        self.firings.append(firing)
        self.fired += 1
        self._when_changed(self)

    def hold(self, change: int) -> None:
        """Record that the bytes of a connection begin to wait (1), or go on (-1)."""
        self.held += change
        self._when_changed(self)

    def release(self) -> None:
        """Bytes are released by the end of the fault alone."""

    def retire(self) -> None:
        """Reset no more connections: it has done so often enough on other nodes."""
        self._is_retired = True

    @property
    def resets_more(self) -> bool:
        """True if it resets connections, and has not yet reset as many as it may."""
        conditions = self.conditions
        if conditions.reset_after_bytes is None or self._is_retired:
            return False
        return conditions.times is None or self.resets < conditions.times

    def count_reset(self) -> None:
        self.resets += 1

    @property
    def piece_bytes(self) -> int | None:
        """The size of the pieces in which bytes pass, so that a slow link carries them evenly; None without a limit."""
        rate = self.conditions.bytes_per_s
        return None if rate is None else max(_PIECE_BYTES_MIN, int(rate / _PIECES_PER_S))

    def arrival(self, sent_at: float, size: int, *, is_inbound: bool) -> float:
        """When a piece arrives that is sent at a time of Trio's clock. The bandwidth is that of all connections."""
        conditions = self.conditions
        if conditions.bytes_per_s is not None:
            sent_at = max(sent_at, self._free_at[is_inbound]) + size / conditions.bytes_per_s
            self._free_at[is_inbound] = sent_at
        return sent_at + (conditions.latency_ms + self._rng.uniform(0.0, conditions.jitter_ms)) / 1000
