"""Allocates producer ids for idempotent producers, from blocks that the controller reserves (KIP-730)."""

from collections import deque
from typing import Final

import attrs
import trio

from broker.controller_client.channel import ControllerChannel
from broker.controller_client.lifecycle import BrokerLifecycle
from broker.wire.api.allocate_producer_ids import AllocateProducerIdsRequest
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs

# How long callers wait for the controller to reserve a block; their clients then get a retriable error.
ALLOCATE_TIMEOUT_MS: Final = 5_000
_VERSION: Final = 0


@lazy_attrs.define
class _Attempt:
    """One request for a block. `ended` wakes all callers that wait for it."""

    ended: trio.Event = attrs.field(factory=trio.Event)
    error: str | None = None


class ProducerIds:
    """Gives every caller a unique id. The unused ids of a block are lost when the process ends; no id is given twice.

    `run` requests the first block when an id is asked for, and another one when nine tenths of the ids are used. A
    short absence of the controller thus rarely delays new producers. A block is lost if its response was lost.
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
        """Return an unused producer id. Raises KafkaError if this needs a new block and the request for it fails."""
        while self._left == 0:
            attempt = self._attempt
            self._wanted.set()
            await attempt.ended.wait()
            if attempt.error is not None:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, attempt.error)
        self._left -= 1
        if self._left < self._refill_below:
            self._wanted.set()
        block = self._blocks.popleft()
        if len(block) > 1:
            self._blocks.appendleft(block[1:])
        return block[0]

    async def run(self) -> None:
        """Request blocks as they are needed, until cancelled."""
        while True:
            await self._wanted.wait()
            try:
                await self._refill()
            except KafkaError as error:
                self._attempt.error = f"no producer ids: {error}"
            self._wanted = trio.Event()
            ended, self._attempt = self._attempt, _Attempt()
            ended.ended.set()

    async def _refill(self) -> None:
        """Request one block. Raises KafkaError."""
        request = AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._lifecycle.broker_epoch)
        response = await self._channel.call(request, _VERSION, timeout_ms=ALLOCATE_TIMEOUT_MS)
        if response.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller refuses with error {response.error_code}")
        first, size = response.producer_id_start, response.producer_id_len
        if size <= 0:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller reserved {size} ids")
        self._blocks.append(range(first, first + size))
        self._left += size
        self._refill_below = size // 10
