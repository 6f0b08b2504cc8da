"""Recorded producers of this package's client library: Producer, AsyncioProducer and SyncProducer."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import trio

from broker.client import TransactionAbortable
from broker.client.producer.batch import DeliveryObserver
from broker.client.producer.record_arguments import check_callback
from jepsen.testing.histories.recording.reads import positions_of
from jepsen.testing.histories.recording.recorded_client import RecordedClient
from jepsen.testing.histories.recording.sends import RecordedSend, SendLog, code_of


def current_task() -> int:
    """A number for the running task."""
    return id(trio.lowlevel.current_task())


def is_abortable(error: BaseException) -> bool:
    """True if an error of a commit says that the transaction has to be aborted."""
    return isinstance(error, TransactionAbortable)


class _RecordedSends(RecordedClient):
    """The methods that both producers have."""

    def __init__(self, client: Any, sends: SendLog) -> None:
        super().__init__(client)
        self._sends = sends

    def send_soon(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        on_delivery: Callable[[Any, Any], object] | None = None,
        **others: Any,
    ) -> Any:
        if on_delivery is not None:
            check_callback(on_delivery)
        send = self._sends.begin(topic, value, key, partition, others.get("headers"))

        def delivered(metadata: Any, error: Exception | None) -> None:
            _ended(send, metadata, error)
            if on_delivery is not None:
                on_delivery(metadata, error)

        # Without a callback of its own, the application still learns of failures at the end of the producer's block.
        callback = DeliveryObserver(delivered) if on_delivery is None else delivered
        try:
            return self._recorded_client.send_soon(
                topic, value, key=key, partition=partition, on_delivery=callback, **others
            )
        except BaseException as error:
            send.refused(error)
            raise

    def _begin_send(self, topic: str, value: Any = None, **others: Any) -> RecordedSend:
        named = {name: others.get(name) for name in ("key", "partition", "headers")}
        return self._sends.begin(topic, value, **named)


class RecordedProducer(_RecordedSends):
    """Records the sends and the transactions of a Producer, and of an AsyncioProducer."""

    async def send(self, *args: Any, **kwargs: Any) -> Any:
        send = self._begin_send(*args, **kwargs)
        try:
            metadata = await self._recorded_client.send(*args, **kwargs)
        except BaseException as error:
            _ended(send, None, error)
            raise
        _ended(send, metadata, None)
        return metadata

    async def produce_arrow(self, *args: Any, **kwargs: Any) -> Any:
        self._sends.unrecorded("produce_arrow")
        return await self._recorded_client.produce_arrow(*args, **kwargs)

    async def begin_transaction(self) -> None:
        await self._recorded_client.begin_transaction()
        self._sends.transactions.begin()

    async def commit_transaction(self) -> None:
        with self._sends.transactions.committing():
            await self._recorded_client.commit_transaction()

    async def abort_transaction(self) -> None:
        with self._sends.transactions.aborting():
            await self._recorded_client.abort_transaction()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        block = self._recorded_client.transaction()
        await block.__aenter__()
        self._sends.transactions.begin()
        try:
            yield
        except BaseException as error:
            with self._sends.transactions.aborting():
                await block.__aexit__(type(error), error, error.__traceback__)
            raise
        with self._sends.transactions.committing():
            await block.__aexit__(None, None, None)

    async def send_offsets_to_transaction(self, offsets: Any, group: Any) -> None:
        with self._sends.begin_offsets(group.group_id, positions_of(offsets)):
            await self._recorded_client.send_offsets_to_transaction(offsets, group)

    async def __aenter__(self) -> "RecordedProducer":
        await self._recorded_client.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._recorded_client.__aexit__(*error)


class RecordedSyncProducer(_RecordedSends):
    """Records the sends and the transactions of a SyncProducer."""

    def send(self, topic: str, value: Any = None, **others: Any) -> Any:
        return self.send_soon(topic, value, **others).result()

    def produce_arrow(self, *args: Any, **kwargs: Any) -> Any:
        self._sends.unrecorded("produce_arrow")
        return self._recorded_client.produce_arrow(*args, **kwargs)

    def begin_transaction(self) -> None:
        self._recorded_client.begin_transaction()
        self._sends.transactions.begin()

    def commit_transaction(self) -> None:
        with self._sends.transactions.committing():
            self._recorded_client.commit_transaction()

    def abort_transaction(self) -> None:
        with self._sends.transactions.aborting():
            self._recorded_client.abort_transaction()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        block = self._recorded_client.transaction()
        block.__enter__()
        self._sends.transactions.begin()
        try:
            yield
        except BaseException as error:
            with self._sends.transactions.aborting():
                block.__exit__(type(error), error, error.__traceback__)
            raise
        with self._sends.transactions.committing():
            block.__exit__(None, None, None)

    def send_offsets_to_transaction(self, offsets: Any, group: Any) -> None:
        with self._sends.begin_offsets(group.group_id, positions_of(offsets)):
            self._recorded_client.send_offsets_to_transaction(offsets, group)

    def __enter__(self) -> "RecordedSyncProducer":
        self._recorded_client.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._recorded_client.__exit__(*error)


def _ended(send: RecordedSend, metadata: Any, error: BaseException | None) -> None:
    if error is None:
        send.written(metadata.partition, metadata.offset)
    else:
        send.failed(error, code_of(error))
