"""Recorded clients of aiokafka: AIOKafkaProducer and AIOKafkaConsumer."""

import asyncio
from functools import partial
from typing import Any

from jepsen.testing.histories.recording.reads import ReadLog, positions_of
from jepsen.testing.histories.recording.recorded_client import RecordedClient
from jepsen.testing.histories.recording.sends import RecordedSend, SendLog, code_of


def current_task() -> int:
    """A number for the running task."""
    return id(asyncio.current_task())


def group_of(consumer: Any) -> str:
    """The group id of a consumer; empty if it has none."""
    return getattr(consumer, "_group_id", None) or ""


class RecordedProducer(RecordedClient):
    """Records `send` and `send_and_wait` with their outcomes, and transactions."""

    def __init__(self, client: Any, sends: SendLog) -> None:
        super().__init__(client)
        self._sends = sends

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Any = None,
    ) -> "asyncio.Future[Any]":
        send = self._sends.begin(topic, value, key, partition, headers)
        try:
            future: asyncio.Future[Any] = await self._recorded_client.send(
                topic, value=value, key=key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
            )
        except BaseException as error:
            # It is not in a batch then, also if the call was cancelled.
            send.refused(error)
            raise
        future.add_done_callback(partial(_delivered, send))
        return future

    async def send_and_wait(self, *args: Any, **kwargs: Any) -> Any:
        return await (await self.send(*args, **kwargs))

    async def send_batch(self, *args: Any, **kwargs: Any) -> Any:
        self._sends.unrecorded("send_batch")
        return await self._recorded_client.send_batch(*args, **kwargs)

    async def begin_transaction(self) -> None:
        await self._recorded_client.begin_transaction()
        self._sends.transactions.begin()

    async def commit_transaction(self) -> None:
        with self._sends.transactions.committing():
            await self._recorded_client.commit_transaction()

    async def abort_transaction(self) -> None:
        with self._sends.transactions.aborting():
            await self._recorded_client.abort_transaction()

    def transaction(self) -> Any:
        # The block of the client, which begins and ends its transaction here.
        return type(self._recorded_client.transaction())(self)

    async def send_offsets_to_transaction(self, offsets: Any, group_id: str) -> None:
        with self._sends.begin_offsets(group_id, positions_of(offsets)):
            await self._recorded_client.send_offsets_to_transaction(offsets, group_id)

    async def __aenter__(self) -> "RecordedProducer":
        await self._recorded_client.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._recorded_client.__aexit__(*error)


class RecordedConsumer(RecordedClient):
    """Records `getone`, `getmany`, iteration, assignments, seeks and commits. Wrap the consumer before `start`."""

    def __init__(self, client: Any, reads: ReadLog) -> None:
        super().__init__(client)
        self._reads = reads
        topics = client.subscription()
        if topics and reads.group:
            self.subscribe(topics=sorted(topics))

    async def getone(self, *partitions: Any) -> Any:
        began_ns = self._reads.log.file.now_ns()
        record = await self._recorded_client.getone(*partitions)
        self._reads.received_one(began_ns, record)
        return record

    async def getmany(self, *partitions: Any, **kwargs: Any) -> Any:
        began_ns = self._reads.log.file.now_ns()
        found = await self._recorded_client.getmany(*partitions, **kwargs)
        for records in found.values():
            self._reads.received_many(began_ns, records)
        return found

    def __aiter__(self) -> "RecordedConsumer":
        self._recorded_client.__aiter__()
        return self

    async def __anext__(self) -> Any:
        began_ns = self._reads.log.file.now_ns()
        record = await self._recorded_client.__anext__()
        self._reads.received_one(began_ns, record)
        return record

    def subscribe(self, topics: Any = (), pattern: Any = None, listener: Any = None) -> None:
        from aiokafka import ConsumerRebalanceListener

        from jepsen.testing.histories.recording.rebalances import listener_class

        recording = listener_class(ConsumerRebalanceListener)(self._reads, listener)
        self._recorded_client.subscribe(topics=topics, pattern=pattern, listener=recording)

    def assign(self, partitions: Any) -> None:
        self._recorded_client.assign(partitions)
        self._reads.chosen((each.topic, each.partition, -1) for each in partitions)

    def seek(self, partition: Any, offset: int) -> None:
        self._recorded_client.seek(partition, offset)
        self._reads.sought([(partition.topic, partition.partition, offset)])

    async def seek_to_beginning(self, *partitions: Any) -> Any:
        return await self._seek_to("seek_to_beginning", partitions)

    async def seek_to_end(self, *partitions: Any) -> Any:
        return await self._seek_to("seek_to_end", partitions)

    async def seek_to_committed(self, *partitions: Any) -> Any:
        return await self._seek_to("seek_to_committed", partitions)

    async def commit(self, offsets: Any = None) -> None:
        wanted = None if offsets is None else positions_of(offsets)
        with self._reads.commit(wanted):
            await self._recorded_client.commit(offsets)

    async def stop(self) -> None:
        try:
            await self._recorded_client.stop()
        finally:
            self._reads.closed()

    async def __aenter__(self) -> "RecordedConsumer":
        await self._recorded_client.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.stop()

    async def _seek_to(self, method: str, partitions: Any) -> Any:
        result = await getattr(self._recorded_client, method)(*partitions)
        sought = partitions or self._recorded_client.assignment()
        self._reads.sought(sorted((each.topic, each.partition, -1) for each in sought))
        return result


def _delivered(send: RecordedSend, future: "asyncio.Future[Any]") -> None:
    if future.cancelled():
        send.unknown("the future was cancelled")
    elif (error := future.exception()) is not None:
        send.failed(error, code_of(error))
    elif (metadata := future.result()) is None:
        send.unknown("acks=0")
    else:
        send.written(metadata.partition, metadata.offset)
