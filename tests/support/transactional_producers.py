"""Transactional producers of a scripted coordinator, and a transaction of each kind."""

from math import inf
from typing import Any

import trio

from broker.client import GroupMetadata, OffsetAndMetadata, Producer, TopicPartition
from tests.support.transaction_coordinator import ScriptedCoordinator

SETTINGS: dict[str, Any] = {
    "transactional_id": "payments",
    "retry_backoff_ms": 5,
    "reconnect_backoff_ms": 5,
    "linger_ms": 0,
}
GROUP = GroupMetadata("readers", 3, "member-1")
OFFSETS = {TopicPartition("visits", 0): OffsetAndMetadata(17)}


def producer_of(coordinator: ScriptedCoordinator, **settings: Any) -> Producer:
    return Producer(coordinator.address, **{**SETTINGS, **settings})


async def send(producer: Producer, partition: int = 0) -> None:
    await producer.send("orders", b"value", partition=partition)


async def transact(producer: Producer, *, records: int = 0, offsets: bool = False, timeout_s: float = inf) -> None:
    """A transaction of records and offsets. The commit of the offsets is cancelled after `timeout_s`."""
    async with producer.transaction():
        if offsets:
            with trio.move_on_after(timeout_s):
                await producer.send_offsets_to_transaction(OFFSETS, GROUP)
        for _ in range(records):
            await send(producer)
