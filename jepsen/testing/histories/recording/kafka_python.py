"""Recorded clients of kafka-python: KafkaProducer and KafkaConsumer."""

from functools import partial
from typing import Any

from jepsen.testing.histories.recording.reads import ReadLog, positions_of
from jepsen.testing.histories.recording.recorded_client import RecordedClient
from jepsen.testing.histories.recording.sends import RecordedSend, SendLog, code_of


def group_of(consumer: Any) -> str:
    """The group id of a consumer; empty if it has none."""
    return consumer.config["group_id"] or ""


class RecordedProducer(RecordedClient):
    """Records `send` with its outcome, and transactions."""

    def __init__(self, client: Any, sends: SendLog) -> None:
        super().__init__(client)
        self._sends = sends

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Any:
        send = self._sends.begin(topic, value, key, partition, headers)
        try:
            future = self._recorded_client.send(topic, value, key, headers, partition, timestamp_ms)
        except BaseException as error:
            send.refused(error)
            raise
        future.add_callback(partial(_written, send))
        future.add_errback(partial(_failed, send))
        return future

    def begin_transaction(self) -> None:
        self._recorded_client.begin_transaction()
        self._sends.transactions.begin()

    def commit_transaction(self) -> None:
        with self._sends.transactions.committing():
            self._recorded_client.commit_transaction()

    def abort_transaction(self) -> None:
        with self._sends.transactions.aborting():
            self._recorded_client.abort_transaction()

    def send_offsets_to_transaction(self, offsets: Any, group_metadata: Any) -> None:
        group = getattr(group_metadata, "group_id", group_metadata)
        with self._sends.begin_offsets(str(group), positions_of(offsets)):
            self._recorded_client.send_offsets_to_transaction(offsets, group_metadata)

    def __enter__(self) -> "RecordedProducer":
        self._recorded_client.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._recorded_client.__exit__(*error)


class RecordedConsumer(RecordedClient):
    """Records `poll`, iteration, assignments, seeks and commits."""

    def __init__(self, client: Any, reads: ReadLog) -> None:
        super().__init__(client)
        self._reads = reads
        topics = client.subscription()
        if topics and reads.group:
            self.subscribe(topics=sorted(topics))

    def poll(self, *args: Any, **kwargs: Any) -> Any:
        began_ns = self._reads.log.file.now_ns()
        found = self._recorded_client.poll(*args, **kwargs)
        for records in found.values():
            self._reads.received_many(began_ns, records)
        return found

    def __iter__(self) -> "RecordedConsumer":
        return self

    def __next__(self) -> Any:
        began_ns = self._reads.log.file.now_ns()
        record = next(self._recorded_client)
        self._reads.received_one(began_ns, record)
        return record

    def subscribe(self, topics: Any = (), pattern: Any = None, listener: Any = None) -> None:
        from kafka import ConsumerRebalanceListener

        from jepsen.testing.histories.recording.rebalances import listener_class

        recording = listener_class(ConsumerRebalanceListener)(self._reads, listener)
        self._recorded_client.subscribe(topics=topics, pattern=pattern, listener=recording)

    def assign(self, partitions: Any) -> None:
        self._recorded_client.assign(partitions)
        self._reads.chosen((each.topic, each.partition, -1) for each in partitions)

    def seek(self, partition: Any, offset: int) -> None:
        self._recorded_client.seek(partition, offset)
        self._reads.sought([(partition.topic, partition.partition, offset)])

    def seek_to_beginning(self, *partitions: Any) -> None:
        self._recorded_client.seek_to_beginning(*partitions)
        self._sought(partitions)

    def seek_to_end(self, *partitions: Any) -> None:
        self._recorded_client.seek_to_end(*partitions)
        self._sought(partitions)

    def commit(self, offsets: Any = None, timeout_ms: Any = None) -> None:
        with self._reads.commit(None if offsets is None else positions_of(offsets)):
            self._recorded_client.commit(offsets, timeout_ms)

    def commit_async(self, offsets: Any = None, callback: Any = None) -> Any:
        commit = self._reads.commit(None if offsets is None else positions_of(offsets))
        future = self._recorded_client.commit_async(offsets, callback)
        future.add_callback(lambda _: commit.ended())
        future.add_errback(commit.ended)
        return future

    def close(self, *args: Any, **kwargs: Any) -> None:
        try:
            self._recorded_client.close(*args, **kwargs)
        finally:
            self._reads.closed()

    def __enter__(self) -> "RecordedConsumer":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def _sought(self, partitions: Any) -> None:
        sought = partitions or self._recorded_client.assignment()
        self._reads.sought(sorted((each.topic, each.partition, -1) for each in sought))


def _written(send: RecordedSend, metadata: Any) -> None:
    send.written(metadata.partition, metadata.offset)


def _failed(send: RecordedSend, error: Any) -> None:
    send.failed(error, code_of(error))
