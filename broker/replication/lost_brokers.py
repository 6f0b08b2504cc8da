"""Other brokers whose connection has just broken, of which the controller has not had its say.

A leader's death is felt by its followers as soon as by its clients, and both before there is another leader.
"""

from collections.abc import Callable
from typing import Final

import attrs
import trio

# By then the controller has fenced who is gone. Who is not, is out of this broker's reach alone.
_LONGEST_S: Final = 1.0


@attrs.frozen
class _Lost:
    broker_epoch: int
    since: float


class LostBrokers:
    """Contains the ids of such brokers. `broker_epoch` finds the life that a broker is in, or None."""

    def __init__(self, broker_epoch: Callable[[int], int | None]) -> None:
        self._broker_epoch = broker_epoch
        self._lost: dict[int, _Lost] = {}

    def lose(self, broker_id: int) -> None:
        """The connection is gone, or was refused; repeated attempts do not make it later."""
        broker_epoch = self._broker_epoch(broker_id)
        before = self._lost.get(broker_id)
        if broker_epoch is not None and (before is None or before.broker_epoch != broker_epoch):
            self._lost[broker_id] = _Lost(broker_epoch, trio.current_time())

    def find(self, broker_id: int) -> None:
        """There is a connection."""
        self._lost.pop(broker_id, None)

    def __bool__(self) -> bool:
        return bool(self._lost)

    def __contains__(self, broker_id: int) -> bool:
        lost = self._lost.get(broker_id)
        if lost is None:
            return False
        in_time = trio.current_time() < lost.since + _LONGEST_S
        return in_time and self._broker_epoch(broker_id) == lost.broker_epoch
