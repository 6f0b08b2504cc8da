"""Which requests are under way. To one destination at most one of each kind; after a failure only after a pause."""

from math import inf

from kraft.core.messages import Request


class RequestManager:
    """Forgotten as a whole when the role changes: an answer that comes later no longer counts as one."""

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
        """Whether `request` is still wanted; it is under way no longer."""
        slot = (destination, type(request))
        if self._under_way.get(slot) is not request:
            return False
        del self._under_way[slot]
        self._not_before_ms.pop(slot, None)
        return True

    def back_off(self, destination: int, kind: type[Request], until_ms: float) -> None:
        """Send none of this kind there before `until_ms`."""
        self._not_before_ms[destination, kind] = until_ms

    def next_retry_ms(self, now_ms: float) -> float:
        """When the next pause ends; infinity without one."""
        pauses = (
            until_ms
            for slot, until_ms in self._not_before_ms.items()
            if until_ms > now_ms and slot not in self._under_way
        )
        return min(pauses, default=inf)
