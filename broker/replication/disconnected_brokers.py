"""Other brokers to which a connection has just broken, before the controller has fenced them.

A leader's followers notice its death as soon as its clients do, and both before there is a new leader.
"""

from collections.abc import Callable
from typing import Final

import trio

from kraft import lazy_attrs

# By then the controller has fenced a broker that died. One that is not fenced is only unreachable from here.
_LONGEST_S: Final = 1.0


@lazy_attrs.frozen
class _Disconnection:
    broker_epoch: int
    since: float


class DisconnectedBrokers:
    """The ids of these brokers. `broker_epoch` returns the epoch of a broker's registration, or None."""

    def __init__(self, broker_epoch: Callable[[int], int | None]) -> None:
        self._broker_epoch = broker_epoch
        self._disconnected: dict[int, _Disconnection] = {}

    def add(self, broker_id: int) -> None:
        """Record a lost or refused connection; repeated attempts do not extend the time."""
        broker_epoch = self._broker_epoch(broker_id)
        before = self._disconnected.get(broker_id)
        if broker_epoch is not None and (before is None or before.broker_epoch != broker_epoch):
            self._disconnected[broker_id] = _Disconnection(broker_epoch, trio.current_time())

    def discard(self, broker_id: int) -> None:
        """Forget the lost connection: there is another one."""
        self._disconnected.pop(broker_id, None)

    def __bool__(self) -> bool:
        return bool(self._disconnected)

    def __contains__(self, broker_id: int) -> bool:
        disconnected = self._disconnected.get(broker_id)
        if disconnected is None:
            return False
        in_time = trio.current_time() < disconnected.since + _LONGEST_S
        return in_time and self._broker_epoch(broker_id) == disconnected.broker_epoch
