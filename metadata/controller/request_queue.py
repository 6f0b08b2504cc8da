"""The queue in which requests wait for the controller."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from metadata.protocol import ErrorCode, KafkaError
from metadata.request_context import Requester

# Requests that wait for their commit at the same time; later requests queue in order of arrival. Each has at most one
# large batch, so this bounds the memory. It is far more than a group commit needs.
PENDING_REQUESTS_MAX: Final = 256


class RequestQueue:
    """Bounds how many requests wait for their commit."""

    def __init__(self) -> None:
        self._pending = trio.CapacityLimiter(PENDING_REQUESTS_MAX)

    @asynccontextmanager
    async def turn(self, context: Requester = None) -> AsyncIterator[None]:
        """Wait for the request's turn.

        Raises KafkaError REQUEST_TIMED_OUT if the request's deadline passes while it waits in the queue.
        """
        is_queued = not self._pending.available_tokens
        async with self._pending:
            if context is not None and is_queued and trio.current_time() >= context.deadline:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The request timed out.")
            yield
