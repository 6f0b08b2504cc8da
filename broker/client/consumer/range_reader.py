"""Reads the offsets from a start to an end of one partition, and knows when all of them were read."""

from math import inf
from typing import Final

import trio

from broker.client.consumer.engine import ConsumerEngine
from broker.client.consumer.errors import TopicDeleted
from broker.client.consumer.record_reader import EncodedRecords
from broker.client.errors import TimedOut
from broker.client.types import TopicPartition
from broker.wire.errors import ErrorCode
from broker.wire.uuids import ZERO_UUID

# A partition's end may have been compacted away, control records and all. So many responses without a record, although
# the log reaches beyond the range, show that nothing more is in it.
_EMPTY_FETCHES: Final = 3
# A topic that was just created is not known to every broker at once.
_UNKNOWN_PATIENCE_S: Final = 5.0


class RangeReader:
    """Makes one partition the consumer's only one, and returns what is fetched of it from `start` up to `end`.

    `topic_id` is that of the topic that is meant; None means any of this name.
    """

    def __init__(
        self, engine: ConsumerEngine, partition: TopicPartition, start: int, end: int, topic_id: bytes | None
    ) -> None:
        self._engine = engine
        self._partition = partition
        self._end = end
        self._topic_id = topic_id
        self._unknown_since: float | None = None
        engine.read_range(partition, start, end)

    async def next(self, timeout_s: float | None) -> EncodedRecords | None:
        """The next records; the last ones may go beyond the end. None after the last.

        Raises what `Consumer.read_range` raises.
        """
        engine = self._engine
        deadline = inf if timeout_s is None else trio.current_time() + timeout_s
        while True:
            await engine.poll()
            self._check_topic()
            if (records := engine.reader.take_encoded()) is not None:
                return records
            if self._is_at_end():
                return None
            now = trio.current_time()
            if now >= deadline:
                raise TimedOut(
                    f"no records of {self._partition.topic}-{self._partition.partition} from offset "
                    f"{self._position()} on were received in {timeout_s} s: its leader did not respond"
                )
            await engine.wait_for_news(min(deadline, now + _UNKNOWN_PATIENCE_S))

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

    def _check_topic(self) -> None:
        """Raises TopicDeleted."""
        topic = self._engine.cluster.metadata.topic(self._partition.topic)
        if topic is None:
            return
        if self._topic_id is not None and topic.id not in (self._topic_id, ZERO_UUID):
            raise TopicDeleted(self._partition, self._position(), is_recreated=True)
        if topic.error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._unknown_since = None
        elif self._unknown_since is None:
            self._unknown_since = trio.current_time()
        elif trio.current_time() - self._unknown_since > _UNKNOWN_PATIENCE_S:
            raise TopicDeleted(self._partition, self._position(), is_recreated=False)
