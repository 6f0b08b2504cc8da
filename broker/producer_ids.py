"""Producer ids for idempotent producers, handed out from blocks that the controller reserves (KIP-730)."""

from collections.abc import Awaitable, Callable

import trio

from metadata.controller import ProducerIdsBlock


class ProducerIds:
    """Gives every caller an id of its own. A block's unused ids are lost with the process, never given twice.

    `allocate_block` asks the controller for the next block, and may fail as the controller does.
    """

    def __init__(self, allocate_block: Callable[[], Awaitable[ProducerIdsBlock]]) -> None:
        self._allocate_block = allocate_block
        self._next = 0
        self._end = 0
        self._refill = trio.Lock()

    async def allocate(self) -> int:
        """Raises ApiError when a new block is needed and cannot be had."""
        async with self._refill:
            if self._next == self._end:
                block = await self._allocate_block()
                self._next = block.first_producer_id
                self._end = block.first_producer_id + block.size
            producer_id = self._next
            self._next += 1
            return producer_id
