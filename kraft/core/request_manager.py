"""The requests in flight: at most one of each type per destination, and after a failure only after a backoff."""

from math import inf

from kraft.core.messages import Request


class RequestManager:
    """Tracks the requests of one role. A role change replaces it, so that late responses are ignored."""

    def __init__(self) -> None:
        self._under_way: dict[tuple[int, type[Request]], Request] = {}
        self._not_before_ms: dict[tuple[int, type[Request]], float] = {}

    def may_send(self, destination: int, kind: type[Request], now_ms: float) -> bool:
        slot = (destination, kind)
        return slot not in self._under_way and self._not_before_ms.get(slot, -inf) <= now_ms

    @property
    def any_under_way(self) -> bool:
        return bool(self._under_way)

    def sent(self, destination: int, request: Request) -> None:
        self._under_way[destination, type(request)] = request

    def complete(self, destination: int, request: Request) -> bool:
        """Remove `request` from the requests in flight. Returns False if it was not one of them."""
        slot = (destination, type(request))
        if self._under_way.get(slot) is not request:
            return False
        del self._under_way[slot]
        self._not_before_ms.pop(slot, None)
        return True

    def back_off(self, destination: int, kind: type[Request], until_ms: float) -> None:
        """Send no request of this type to `destination` before `until_ms`."""
        self._not_before_ms[destination, kind] = until_ms

    def next_retry_ms(self, now_ms: float) -> float:
        """The time at which the next backoff ends; infinity without one."""
        pauses = (
            until_ms
            for slot, until_ms in self._not_before_ms.items()
            if until_ms > now_ms and slot not in self._under_way
        )
        return min(pauses, default=inf)
