"""Recorded clients of confluent-kafka: Producer and Consumer, and those that serialize."""

import inspect
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from jepsen.testing.histories.recording.reads import UNKNOWN_OFFSET, Position, ReadLog
from jepsen.testing.histories.recording.recorded_client import RecordedClient
from jepsen.testing.histories.recording.sends import RecordedSend, SendLog, code_of

_ARGUMENTS: Final = ("topic", "value", "key", "partition", "callback", "on_delivery", "timestamp", "headers")
_CALLBACKS: Final = ("on_delivery", "callback")
# The header of librdkafka's group metadata: a magic text, and the generation as 32 bits.
_METADATA: Final = b"CGMDv"
_METADATA_HEADER_BYTES: Final = 11


def is_abortable(error: BaseException) -> bool:
    """True if an error of a commit says that the transaction has to be aborted."""
    details = error.args[0] if error.args else None
    return bool(getattr(details, "txn_requires_abort", lambda: False)())


def group_of_metadata(metadata: object) -> str:
    """The group id in the metadata that librdkafka gives for transactions; empty if it cannot be read."""
    if not isinstance(metadata, bytes) or not metadata.startswith(_METADATA):
        return ""
    return metadata[_METADATA_HEADER_BYTES:].partition(b"\0")[0].decode("utf-8", "replace")


def group_of(consumer: Any) -> str:
    """The group id of a consumer; empty if it cannot be read."""
    return group_of_metadata(consumer.consumer_group_metadata())


class RecordedProducer(RecordedClient):
    """Records `produce` and its delivery reports, and transactions.

    A callback of a record hides the producer's own `on_delivery`, so that is given again as `on_delivery`.
    """

    def __init__(self, client: Any, sends: SendLog, on_delivery: Callable[[Any, Any], object] | None) -> None:
        super().__init__(client)
        self._sends, self._on_delivery = sends, on_delivery
        own = getattr(type(client), "produce")  # noqa: B009  # a slot of a C type, or a function
        self._arguments = list(inspect.signature(own).parameters)[1:] if inspect.isfunction(own) else _ARGUMENTS

    def produce(self, *args: Any, **kwargs: Any) -> None:
        given = dict(zip(self._arguments, args, strict=False)) | kwargs
        callbacks = [given.pop(name, None) for name in _CALLBACKS]
        then = next((each for each in callbacks if each is not None), self._on_delivery)
        partition = given.get("partition", -1)
        send = self._sends.begin(
            given.get("topic", ""), given.get("value"), given.get("key"), partition, given.get("headers")
        )
        try:
            self._recorded_client.produce(**given, on_delivery=partial(_delivered, send, then))
        except BaseException as error:
            send.refused(error)
            raise

    def produce_batch(self, *args: Any, **kwargs: Any) -> Any:
        self._sends.unrecorded("produce_batch")
        return self._recorded_client.produce_batch(*args, **kwargs)

    def begin_transaction(self, *args: Any, **kwargs: Any) -> None:
        self._recorded_client.begin_transaction(*args, **kwargs)
        self._sends.transactions.begin()

    def commit_transaction(self, *args: Any, **kwargs: Any) -> None:
        with self._sends.transactions.committing():
            self._recorded_client.commit_transaction(*args, **kwargs)

    def abort_transaction(self, *args: Any, **kwargs: Any) -> None:
        with self._sends.transactions.aborting():
            self._recorded_client.abort_transaction(*args, **kwargs)

    def send_offsets_to_transaction(self, positions: Sequence[Any], group_metadata: Any, *args: Any) -> None:
        with self._sends.begin_offsets(group_of_metadata(group_metadata), _positions(positions)):
            self._recorded_client.send_offsets_to_transaction(positions, group_metadata, *args)

    def __len__(self) -> int:
        return len(self._recorded_client)

    def __enter__(self) -> "RecordedProducer":
        self._recorded_client.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._recorded_client.__exit__(*error)


class RecordedConsumer(RecordedClient):
    """Records messages, assignments, seeks and commits. An asynchronous commit has no known outcome."""

    def __init__(self, client: Any, reads: ReadLog) -> None:
        super().__init__(client)
        self._reads = reads
        self._in_callback = threading.local()

    def poll(self, *args: Any, **kwargs: Any) -> Any:
        began_ns = self._reads.log.file.now_ns()
        message = self._recorded_client.poll(*args, **kwargs)
        if message is not None and not message.error():
            row = message.offset(), message.key(), message.value(), message.headers()
            self._reads.received(began_ns, message.topic(), message.partition(), [row])
        return message

    def consume(self, *args: Any, **kwargs: Any) -> list[Any]:
        began_ns = self._reads.log.file.now_ns()
        messages: list[Any] = self._recorded_client.consume(*args, **kwargs)
        by_partition: dict[tuple[str, int], list[tuple[int, Any, Any, Any]]] = {}
        for each in messages:
            if not each.error():
                row = each.offset(), each.key(), each.value(), each.headers()
                by_partition.setdefault((each.topic(), each.partition()), []).append(row)
        for (topic, partition), rows in by_partition.items():
            self._reads.received(began_ns, topic, partition, rows)
        return messages

    def subscribe(
        self, topics: list[str], on_assign: Any = None, on_revoke: Any = None, on_lost: Any = None, **kwargs: Any
    ) -> None:
        def assigned(consumer: Any, partitions: list[Any]) -> None:
            self._reads.assigned((each.topic, each.partition) for each in partitions)
            self._call(on_assign, partitions)

        def revoked(consumer: Any, partitions: list[Any]) -> None:
            self._call(on_revoke, partitions)
            self._reads.given_up((each.topic, each.partition) for each in partitions)

        def lost(consumer: Any, partitions: list[Any]) -> None:
            self._reads.given_up(((each.topic, each.partition) for each in partitions), is_lost=True)
            self._call(on_revoke if on_lost is None else on_lost, partitions)

        self._recorded_client.subscribe(topics, on_assign=assigned, on_revoke=revoked, on_lost=lost, **kwargs)

    def assign(self, partitions: list[Any]) -> None:
        self._recorded_client.assign(partitions)
        self._chosen(partitions)

    def incremental_assign(self, partitions: list[Any]) -> None:
        self._recorded_client.incremental_assign(partitions)
        self._chosen(partitions)

    def seek(self, partition: Any) -> None:
        self._recorded_client.seek(partition)
        self._reads.sought(_positions([partition]))

    def commit(self, *args: Any, **kwargs: Any) -> Any:
        given = dict(zip(("message", "offsets", "asynchronous"), args, strict=False)) | kwargs
        message, offsets = given.get("message"), given.get("offsets")
        wanted = None if offsets is None else _positions(offsets)
        if message is not None:
            wanted = [(message.topic(), message.partition(), message.offset() + 1)]
        commit = self._reads.commit(wanted)
        try:
            committed = self._recorded_client.commit(*args, **kwargs)
        except BaseException as error:
            commit.ended(error)
            raise
        if committed is not None:
            done = _positions(each for each in committed if each.error is None and each.offset >= 0)
            commit.committed(done, is_all=all(each.error is None for each in committed))
        return committed

    def close(self) -> None:
        try:
            self._recorded_client.close()
        finally:
            self._reads.closed()

    def __enter__(self) -> "RecordedConsumer":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def _call(self, callback: Any, partitions: list[Any]) -> None:
        if callback is not None:
            self._in_callback.now = True
            try:
                callback(self, partitions)
            finally:
                self._in_callback.now = False

    def _chosen(self, partitions: list[Any]) -> None:
        """Within a callback of a rebalance, the partitions are the group's, and their positions may be given."""
        if getattr(self._in_callback, "now", False):
            self._reads.sought(each for each in _positions(partitions) if each[2] >= 0)
        else:
            self._reads.chosen(_positions(partitions))


def _delivered(send: RecordedSend, then: Any, error: Any, message: Any) -> None:
    if error is None:
        send.written(message.partition(), message.offset())
    else:
        send.failed(error, code_of(error))
    if then is not None:
        then(error, message)


def _positions(partitions: Any) -> list[Position]:
    return [(each.topic, each.partition, max(each.offset, UNKNOWN_OFFSET)) for each in partitions]
