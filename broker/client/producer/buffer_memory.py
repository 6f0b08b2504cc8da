"""The bound on what a producer holds (`buffer.memory`). Pure."""

from collections import deque
from collections.abc import Callable

import attrs

from broker.client.errors import ClientError


class RecordTooLarge(ClientError):
    """A record is larger than `max.request.size` or `buffer.memory` allows."""


class BufferFull(ClientError):
    """`buffer.memory` is used up by records that have no outcome yet."""

    retriable = True


@attrs.define(eq=False)
class MemoryRequest:
    """Bytes that a caller waits for. `is_granted` is True as soon as they are counted as used for it."""

    size: int
    notify: Callable[[], None]
    is_granted: bool = False


class BufferMemory:
    """Counts the bytes of the records that have no outcome yet. Callers that wait are served in their order.

    The bytes are those of the encoded records, before compression. The interpreter needs about 150 bytes more for each
    record.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        # True while a caller waits. An attribute, because it is looked at for every record.
        self.is_awaited = False
        self._requests: deque[MemoryRequest] = deque()

    def has_room(self, size: int) -> bool:
        """True if `size` bytes can be used at once. Callers that wait come first."""
        return self.used + size <= self.limit and not self.is_awaited

    def request(self, size: int, notify: Callable[[], None]) -> MemoryRequest:
        """Begins to wait for `size` bytes, at most the limit."""
        assert size <= self.limit, "the caller refuses records that can never fit"
        request = MemoryRequest(size, notify)
        self._requests.append(request)
        self._grant()
        return request

    def withdraw(self, request: MemoryRequest) -> None:
        """Ends a request whose caller has stopped waiting; bytes that it was granted are free again."""
        if request.is_granted:
            self.release(request.size)
        else:
            self._requests.remove(request)
            self._grant()

    def release(self, size: int) -> None:
        self.used -= size
        assert self.used >= 0, "released bytes were used before"
        if self.is_awaited:
            self._grant()

    def _grant(self) -> None:
        while self._requests and self.used + self._requests[0].size <= self.limit:
            request = self._requests.popleft()
            self.used += request.size
            request.is_granted = True
            request.notify()
        self.is_awaited = bool(self._requests)
