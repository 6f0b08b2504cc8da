"""Other brokers whose connection has just broken, before the controller has fenced them.

A leader's followers notice its death as soon as its clients do, and both before there is a new leader.
"""

from collections.abc import Callable
from typing import Final

import attrs
import trio

# By then the controller has fenced a broker that died. One that is not fenced is only unreachable from here.
_LONGEST_S: Final = 1.0


@attrs.frozen
class _Lost:
    broker_epoch: int
    since: float


class LostBrokers:
    """The ids of such brokers. `broker_epoch` returns the epoch of a broker's registration, or None."""

    def __init__(self, broker_epoch: Callable[[int], int | None]) -> None:
        self._broker_epoch = broker_epoch
        self._lost: dict[int, _Lost] = {}

    def lose(self, broker_id: int) -> None:
        """Record a lost or refused connection; repeated attempts do not extend the time."""
        broker_epoch = self._broker_epoch(broker_id)
        before = self._lost.get(broker_id)
        if broker_epoch is not None and (before is None or before.broker_epoch != broker_epoch):
            self._lost[broker_id] = _Lost(broker_epoch, trio.current_time())

    def find(self, broker_id: int) -> None:
        """Forget the loss: there is a connection again."""
        self._lost.pop(broker_id, None)

    def __bool__(self) -> bool:
        return bool(self._lost)

    def __contains__(self, broker_id: int) -> bool:
        lost = self._lost.get(broker_id)
        if lost is None:
            return False
        in_time = trio.current_time() < lost.since + _LONGEST_S
        return in_time and self._broker_epoch(broker_id) == lost.broker_epoch
