"""Reads the offsets from a start to an end of one partition, and knows when all of them were read."""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any, Final, Self

import trio

from broker.client.consumer.engine import ConsumerEngine
from broker.client.consumer.errors import TopicDeleted
from broker.client.consumer.record_reader import EncodedRecords
from broker.client.errors import ConnectionLost, KafkaError, TimedOut, UnsupportedByBroker
from broker.client.every_broker import look_for_topic
from broker.client.types import TopicPartition
from broker.wire.errors import ErrorCode
from broker.wire.uuids import ZERO_UUID

# A partition's end may have been compacted away, control records and all. So many responses without a record, although
# the log reaches beyond the range, show that nothing more is in it.
_EMPTY_FETCHES: Final = 3
# A topic that was just created is not known to every broker at once, and a broker that knows it may be away.
_UNKNOWN_TIMEOUT_S: Final = 5.0
# The time between two rounds in which every broker is asked for a topic.
_LOOK_EVERY_S: Final = 0.25
# How long a reading that has timed out looks for the reason.
_REASON_TIMEOUT_S: Final = 2.0


class RangeReader:
    """Makes one partition the consumer's only one, and iterates over what is fetched of it from `start` up to `end`.

    `topic_id` is that of the topic that is meant; None means any of this name. See `Consumer.read_range`.
    """

    def __init__(
        self,
        engine: ConsumerEngine[Any, Any],
        partition: TopicPartition,
        start: int,
        end: int,
        columns: Sequence[str],
        topic_id: bytes | None,
        timeout_s: float | None,
    ) -> None:
        if not 0 <= start <= end:
            raise ValueError(f"a range of offsets is from 0 on and does not end before it starts: [{start}, {end})")
        self._engine = engine
        self._partition = partition
        self._end = end
        self._columns = columns
        self._topic_id = topic_id
        self._timeout_s = timeout_s
        self._batches: Iterator[Any] = iter(())
        self._unknown_since: float | None = None
        self._look_at = 0.0
        engine.read_range(partition, start, end, topic_id)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        while True:
            for batch in self._batches:
                return batch
            records = await self.fetch()
            if records is None:
                raise StopAsyncIteration
            self._batches = self.decode(records)

    def decode(self, records: EncodedRecords) -> Iterator[Any]:
        """The rows of fetched records. Any thread may call this. Raises CorruptRecords."""
        return records.decode_arrow(self._end, self._columns)

    async def fetch(self) -> EncodedRecords | None:
        """The next records; the last ones may go beyond the end. None after the last."""
        engine = self._engine
        deadline = inf if self._timeout_s is None else trio.current_time() + self._timeout_s
        while True:
            await engine.poll()
            await self._check_topic()
            if (records := engine.reader.take_encoded()) is not None:
                return records
            if self._is_at_end():
                return None
            now = trio.current_time()
            if now >= deadline:
                raise await self._timed_out()
            wait_s = _UNKNOWN_TIMEOUT_S if self._unknown_since is None else _LOOK_EVERY_S
            await engine.wait_for_change(min(deadline, now + wait_s))

    async def _timed_out(self) -> TimedOut:
        """The error of a range that has waited for too long, with the reason if one is known."""
        failure = self._engine.subscription.assigned(self._partition).last_failure
        if failure is None:
            failure = await self._failure_to_refresh()
        error = TimedOut(
            f"no records of {self._partition.topic}-{self._partition.partition} from offset {self._position()} on were "
            f"received in {self._timeout_s:g} s" + ("" if failure is None else f": {failure}")
        )
        error.__cause__ = failure
        return error

    async def _failure_to_refresh(self) -> Exception | None:
        """Without a leader nothing was fetched. That may be because no broker can be reached."""
        try:
            with trio.move_on_after(_REASON_TIMEOUT_S):
                await self._engine.cluster.refresh()
        except (ConnectionLost, KafkaError, UnsupportedByBroker) as failure:
            return failure
        return None

    def _position(self) -> int:
        consumed = self._engine.subscription.assigned(self._partition).consumed
        assert consumed is not None, "the range began at an offset"
        return consumed.offset

    def _is_at_end(self) -> bool:
        if self._position() >= self._end:
            return True
        assigned = self._engine.subscription.assigned(self._partition)
        is_committed = self._engine.config.isolation_level == "read_committed"
        log_end = assigned.last_stable_offset if is_committed else assigned.high_watermark
        return assigned.empty_fetches >= _EMPTY_FETCHES and log_end is not None and log_end >= self._end

    async def _check_topic(self) -> None:
        """Checks that the topic still exists, with the same id. Raises TopicDeleted if no broker knows it any more.

        A worker's metadata may be older than the topic, and so may a broker's. Only the absence at every broker counts;
        where one cannot be asked, or where no id says that the topic was there, for some seconds.
        """
        topic = self._engine.cluster.metadata.topic(self._partition.topic)
        if topic is None or self._is_meant(topic.id, topic.error):
            self._unknown_since = None
            return
        now = trio.current_time()
        if self._unknown_since is None:
            self._unknown_since = now
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_EVERY_S
        try:
            is_found, is_complete = await look_for_topic(
                self._engine.cluster,
                self._partition.topic,
                lambda found: self._is_meant(found.topic_id, found.error_code),
            )
        except (ConnectionLost, KafkaError, UnsupportedByBroker):
            return  # this is tried again until the timeout of the range
        is_certain = is_complete and self._topic_id is not None
        if not is_found and (is_certain or now - self._unknown_since > _UNKNOWN_TIMEOUT_S):
            known = self._engine.cluster.metadata.topic(self._partition.topic)
            is_recreated = known is not None and known.error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise TopicDeleted(self._partition, self._position(), is_recreated=is_recreated)

    def _is_meant(self, topic_id: bytes, code: int) -> bool:
        """True unless a broker that reports this does not know the topic, or knows another one under its name."""
        if code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
            return False
        return self._topic_id is None or topic_id in (self._topic_id, ZERO_UUID)
