"""Producer ids for idempotent producers, handed out from blocks that the controller reserves (KIP-730)."""

from collections import deque
from typing import Final

import attrs
import trio

from broker.controller_client.channel import ControllerChannel
from broker.controller_client.lifecycle import BrokerLifecycle
from broker.wire.api.allocate_producer_ids import AllocateProducerIdsRequest
from broker.wire.errors import ErrorCode
from metadata.errors import ApiError

# What the callers that wait for a block wait for the controller at most; then they are told to come again.
ALLOCATE_TIMEOUT_MS: Final = 5_000
_VERSION: Final = 0


@attrs.define
class _Attempt:
    """One request for a block, and everybody who waits for it."""

    ended: trio.Event = attrs.field(factory=trio.Event)
    error: str | None = None


class ProducerIds:
    """Gives every caller an id of its own. A block's unused ids are lost with the process, never given twice.

    `run` fetches a block when none is left, and the next one when nine tenths are used, so that new producers rarely
    notice that the controller is away for a moment. A block that was reserved twice, since an answer got lost, is lost.
    """

    def __init__(self, channel: ControllerChannel, lifecycle: BrokerLifecycle, broker_id: int) -> None:
        self._channel = channel
        self._lifecycle = lifecycle
        self._broker_id = broker_id
        self._blocks: deque[range] = deque()
        self._left = 0
        self._refill_below = 1
        self._attempt = _Attempt()
        self._wanted = trio.Event()

    async def allocate(self) -> int:
        """Raises ApiError when a new block is needed and cannot be had now."""
        while self._left == 0:
            attempt = self._attempt
            self._wanted.set()
            await attempt.ended.wait()
            if attempt.error is not None:
                raise ApiError(attempt.error)
        self._left -= 1
        if self._left < self._refill_below:
            self._wanted.set()
        block = self._blocks.popleft()
        if len(block) > 1:
            self._blocks.appendleft(block[1:])
        return block[0]

    async def run(self) -> None:
        """Fetch blocks as they are needed, until cancelled."""
        while True:
            await self._wanted.wait()
            try:
                await self._refill()
            except ApiError as error:
                self._attempt.error = f"no producer ids: {error}"
            self._wanted = trio.Event()
            ended, self._attempt = self._attempt, _Attempt()
            ended.ended.set()

    async def _refill(self) -> None:
        """Raises ApiError."""
        request = AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._lifecycle.broker_epoch)
        response = await self._channel.call(request, _VERSION, timeout_ms=ALLOCATE_TIMEOUT_MS)
        if response.error_code != ErrorCode.NONE:
            raise ApiError(f"the controller refuses with error {response.error_code}")
        first, size = response.producer_id_start, response.producer_id_len
        if size <= 0:
            raise ApiError(f"the controller reserved {size} ids")
        self._blocks.append(range(first, first + size))
        self._left += size
        self._refill_below = size // 10
