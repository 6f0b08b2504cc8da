"""Turns fetched bytes into the records that polls return, and moves the consumed positions along."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, cast

import attrs

from broker.client.consumer.config import ConsumerConfig
from broker.client.consumer.errors import CorruptRecords, DeserializationFailed
from broker.client.consumer.fetched_partition import FetchBuffer, FetchedPartition
from broker.client.consumer.positions import Position
from broker.client.serializers import Deserializer, deserialized
from broker.client.types import ConsumerRecord, K, TopicPartition, V
from broker.wire.api.fetch import AbortedTransaction
from broker.wire.errors import WireError


@attrs.frozen(eq=False)
class EncodedRecords:
    """Whole batches of one partition, of which the records from `from_offset` on are wanted."""

    partition: TopicPartition
    data: memoryview
    from_offset: int
    aborted: Sequence[AbortedTransaction]
    read_committed: bool
    check_crc: bool

    def decode_arrow(self, until_offset: int, columns: Sequence[str]) -> Iterator[Any]:
        """The records before `until_offset` as pyarrow RecordBatches of these columns. Raises CorruptRecords."""
        from broker.client.arrow import decode_arrow

        reached = self.from_offset
        try:
            for rows, reached, _ in decode_arrow(  # noqa: B007 - it is where decoding fails
                self.data,
                *self.partition,
                from_offset=self.from_offset,
                until_offset=until_offset,
                aborted=self.aborted,
                read_committed=self.read_committed,
                check_crc=self.check_crc,
                columns=columns,
            ):
                if rows.num_rows:
                    yield rows
        except WireError as error:
            raise CorruptRecords(self.partition, reached, str(error)) from error


class RecordReader(Generic[K, V]):
    """Reads a run of records of one partition at a time.

    `run` iterates over records that are not taken yet: `end_run` takes as many of them as it has returned. `drained` is
    called when there is more room in the buffer.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        buffer: FetchBuffer,
        key_deserializer: Deserializer[K] | None,
        value_deserializer: Deserializer[V] | None,
        drained: Callable[[], None],
    ) -> None:
        self._read_committed = config.isolation_level == "read_committed"
        self._check_crc = config.check_crcs
        self._buffer = buffer
        self._key_deserializer = key_deserializer
        self._value_deserializer = value_deserializer
        self._is_decoding_only = key_deserializer is None and value_deserializer is None
        self._drained = drained
        self._current: FetchedPartition | None = None
        self.run: Iterator[ConsumerRecord[K, V]] = iter(())
        self._run_length = 0

    def take(self, limit: int) -> list[ConsumerRecord[K, V]]:
        """The next records, at most `limit`, from as many partitions as have some. Raises PartitionFailed.

        If an error comes after some records, the next call raises it.
        """
        taken: list[ConsumerRecord[K, V]] = []
        while len(taken) < limit:
            try:
                records = self._begin(limit - len(taken))
            except (CorruptRecords, DeserializationFailed):
                if taken:
                    break
                raise
            if not records:
                break
            self._take(len(records))
            if taken:
                taken += records
            else:
                taken = records
        return taken

    def take_arrow(self, limit: int, columns: Sequence[str]) -> list[Any]:
        """As `take`, but the records are rows of pyarrow RecordBatches of these columns, and never deserialized."""
        from broker.client.arrow import decode_arrow

        taken: list[Any] = []
        while limit > 0 and (fetched := self._buffer.first()) is not None:
            try:
                for rows, next_offset, leader_epoch in decode_arrow(
                    fetched.encoded,
                    *fetched.assigned.partition,
                    from_offset=fetched.position.offset,
                    aborted=fetched.aborted,
                    read_committed=self._read_committed,
                    check_crc=self._check_crc,
                    columns=columns,
                    max_records=limit,
                ):
                    fetched.advance_to(Position(next_offset, leader_epoch))
                    if rows.num_rows:
                        taken.append(rows)
                        limit -= rows.num_rows
            except WireError as error:
                self._consume(fetched)
                if taken:
                    break
                raise CorruptRecords(fetched.assigned.partition, fetched.position.offset, str(error)) from error
            self._consume(fetched)
        return taken

    def take_encoded(self) -> EncodedRecords | None:
        """The next records of one partition as they were fetched; None where there are none."""
        fetched = self._buffer.first()
        if fetched is None:
            return None
        taken = EncodedRecords(
            fetched.assigned.partition,
            fetched.encoded,
            fetched.position.offset,
            fetched.aborted,
            self._read_committed,
            self._check_crc,
        )
        fetched.advance_to(fetched.end)
        self._consume(fetched)
        return taken

    def begin_run(self, limit: int) -> bool:
        """Makes `run` the next records of one partition, at most `limit`; False if there is nothing to return.

        Raises PartitionFailed.
        """
        records = self._begin(limit)
        self.run, self._run_length = iter(records), len(records)
        return bool(records)

    def cut_run(self) -> None:
        """Has the iteration come back for more after the record that it returned last.

        Another thread may iterate over the run meanwhile: each record is either returned there or counted here.
        """
        run, self.run = self.run, iter(())
        self._run_length -= len(list(run))

    def end_run(self, *, unprocessed: int = 0) -> None:
        """Takes the records that the iteration has returned, but for the last `unprocessed` ones."""
        if self._run_length:
            self.cut_run()
            self._take(max(self._run_length - unprocessed, 0))
            self._run_length = 0

    def _begin(self, limit: int) -> list[ConsumerRecord[K, V]]:
        """The next records of one partition, which `_take` takes."""
        while (fetched := self._buffer.first()) is not None:
            self._current = fetched
            try:
                records = fetched.read(limit, read_committed=self._read_committed, check_crc=self._check_crc)
            except WireError as error:
                self._take(0)
                raise CorruptRecords(fetched.assigned.partition, fetched.position.offset, str(error)) from error
            if records:
                return (
                    cast(list[ConsumerRecord[K, V]], records) if self._is_decoding_only else self._deserialized(records)
                )
            self._take(0)
        return []

    def _take(self, count: int) -> None:
        """Takes the first `count` records that `_begin` returned, unless the consumer has moved elsewhere since."""
        fetched, self._current = self._current, None
        if fetched is None or fetched.is_stale:
            return
        fetched.advance(count)
        self._consume(fetched)

    def _consume(self, fetched: FetchedPartition) -> None:
        """Moves the consumed position to that of what was taken, and drops what is exhausted."""
        fetched.assigned.consume(fetched.position)
        if fetched.is_exhausted:
            self._buffer.finish(fetched)
            if not self._buffer.holds(fetched.assigned.partition):
                fetched.assigned.waits_for_buffer = False
            self._drained()

    def _deserialized(self, records: list[ConsumerRecord]) -> list[ConsumerRecord[K, V]]:
        """Up to the first record that cannot be deserialized. Raises DeserializationFailed if that is the first."""
        done: list[ConsumerRecord[K, V]] = []
        for record in records:
            part = "key"
            try:
                key = deserialized(self._key_deserializer, record.topic, record.key)
                part = "value"
                value = deserialized(self._value_deserializer, record.topic, record.value)
            except Exception as error:
                if done:
                    break
                partition = TopicPartition(record.topic, record.partition)
                raise DeserializationFailed(partition, record.offset, part) from error
            done.append(cast(ConsumerRecord[K, V], record._replace(key=key, value=value)))
        return done
