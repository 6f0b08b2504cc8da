"""The future of a record that was handed to a producer."""

from collections.abc import Generator, Iterable
from copy import copy
from typing import Any

import trio

from broker.client.producer.batch import Batch, OnDelivery
from broker.client.types import RecordMetadata


class Delivery:
    """The outcome of a record that was handed to a Producer: await it for the RecordMetadata.

    The record is written even if its delivery is dropped.
    """

    # A delivery is made for every record, so it only points into its batch. An event is made when a task waits.
    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        return self._wait().__await__()

    @property
    def is_done(self) -> bool:
        """True if the record was written, or given up."""
        return self._located()[0].is_done

    def result(self) -> RecordMetadata:
        """Where the record was written. Raises the reason why it was not, and RuntimeError where it is not decided."""
        batch, index = self._located()
        if not batch.is_done:
            raise RuntimeError("the record has no outcome yet: await the delivery, or flush the producer")
        outcome = batch.outcome(index)
        if isinstance(outcome, Exception):
            batch.note_read(index)
            # All records of the batch share the error: each raise would add its traceback to it.
            error = copy(outcome)
            error.__cause__ = outcome.__cause__
            raise error
        return outcome

    def add_callback(self, callback: OnDelivery) -> None:
        """Has `callback(metadata, error)` called when the record has its outcome; at once where it has one."""
        batch, index = self._located()
        batch.add_callback(index, callback)

    async def _wait(self) -> RecordMetadata:
        batch, _ = self._located()
        if batch.is_done:
            await trio.lowlevel.checkpoint()
        while not batch.is_done:
            event = trio.Event()
            batch.waiters.append(event.set)
            await event.wait()
            batch, _ = self._located()
        return self.result()

    def _located(self) -> tuple[Batch, int]:
        return self._batch.located(self._index)


async def wait_until_done(batches: Iterable[Batch]) -> None:
    """Waits until every batch, and every batch that its records were moved to, has its outcome."""
    unfinished = list(batches)
    while unfinished:
        batch = unfinished.pop()
        if batch.moved is not None:
            unfinished += dict.fromkeys(part for part, _ in batch.moved)
        elif not batch.is_done:
            event = trio.Event()
            batch.waiters.append(event.set)
            await event.wait()
            unfinished.append(batch)
