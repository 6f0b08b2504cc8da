"""The micro-batches of a streaming query: the start and end of each, and the offsets committed after it."""

import logging
import time
from collections.abc import Callable
from typing import Any, Final, Self
from uuid import uuid4

from broker.client import ClientError, KafkaError, SyncAdmin, TopicPartition
from broker.spark.data_loss import DataLossPolicy
from broker.spark.offsets import LATEST, Offsets
from broker.spark.options import (
    Latest,
    NoMatchStrategy,
    OffsetLimit,
    ReadOptions,
    SpecificOffsets,
    SpecificTimestamps,
    Timestamp,
    log_remarks,
)
from broker.spark.ranges import OffsetRange
from broker.spark.streaming.admission import (
    MinimumRows,
    count_rows,
    fraction_by_bytes,
    fraction_by_rows,
    limit_offsets,
)
from broker.spark.streaming.cluster import StreamCluster
from broker.spark.streaming.planning import (
    Topics,
    continued_offsets,
    ranges_between,
    report_new_partitions,
    report_truncation,
    skip_deleted_records,
)
from broker.spark.streaming.progress import Progress
from broker.spark.streaming.stream_offsets import StreamOffsets, topics_of

_LOG: Final = logging.getLogger(__name__)
# A commit to the group holds the query up for at most so long. After a failure, the next ones are left out for a while.
_COMMIT_TIMEOUT_MS: Final = 5_000
_COMMIT_PAUSE_S: Final = 30.0
# Topics are looked up before each batch, and so often while there is nothing to read.
_TOPICS_AGE_MAX_S: Final = 5.0
# How long an idle query waits between two looks at the ends of its partitions: first, and at most.
_PAUSE_MIN_S: Final = 0.01
_PAUSE_MAX_S: Final = 0.1
# The time for which measured sizes of records are reused.
_SIZES_AGE_MAX_S: Final = 60.0


class MicroBatches:
    """Plans the batches of one query, on the driver."""

    def __init__(self, options: ReadOptions, cluster: StreamCluster, now_s: Callable[[], float]) -> None:
        self._options = options
        self._cluster = cluster
        self._now_s = now_s
        self._policy = DataLossPolicy(options.fails_on_data_loss)
        self._progress = Progress(now_s)
        self._commits: _GroupCommits | None = None
        self._minimum = (
            None
            if options.min_offsets_per_trigger is None
            else MinimumRows(options.min_offsets_per_trigger, options.max_trigger_delay_ms / 1_000, now_s)
        )
        self._topics = Topics({}, ())
        self._topics_since_s: float | None = None
        # Trigger.AvailableNow: whether the query uses it, and the ends that no batch exceeds.
        self._is_available_now = False
        self._target: Offsets | None = None
        self._consumed: Offsets = {}
        self._pause_s = 0.0
        self._bytes_per_offset: dict[TopicPartition, float] = {}
        self._sizes_since_s: float | None = None

    @classmethod
    def open(cls, options: ReadOptions) -> Self:
        log_remarks(options.remarks)
        return cls(options, StreamCluster(options), time.monotonic)

    def close(self) -> None:
        self._cluster.close()

    def initial(self) -> StreamOffsets:
        """The start of a query that has no checkpoint."""
        partitions = self._cluster.partitions()
        return StreamOffsets(
            self._cluster.starting_offsets(partitions),
            {partition.topic: topic_id for partition, topic_id in partitions.items()},
            self._new_group_id(),
            starts_at_latest=_depends_on_the_latest(self._options.starting),
        )

    def fix_target(self) -> None:
        """Limits batches from now on to the records that exist when the first of them starts."""
        self._is_available_now = True

    def next_end(self, position: StreamOffsets, *, is_limited: bool) -> StreamOffsets | None:
        """Returns the end of the batch from this position on, or None if no batch is to start now.

        All batches before the position are complete. Waits for a moment if there was nothing to read the last time.
        """
        self._wait_while_idle()
        self.commit(position)
        end = self._find_end(position, is_limited=is_limited)
        if end is None:
            self._pause_s = min(max(2 * self._pause_s, _PAUSE_MIN_S), _PAUSE_MAX_S)
            self._consumed = position.offsets
        else:
            self._pause_s = 0.0
            self._consumed = end.offsets
        return end

    def report(self) -> dict[str, Any] | None:
        """The last known ends of the partitions, and the query's lag."""
        latest = self._progress.latest
        if not latest:
            return None
        return {**topics_of(latest), "#metrics": self._progress.metrics(self._consumed)}

    def ranges(self, start: StreamOffsets, end: StreamOffsets) -> list[OffsetRange]:
        """The ranges of a batch. Reports records that were deleted before it could read them."""
        has_ids = all(partition.topic in end.topic_ids for partition in end.offsets)
        ids = {} if has_ids else self._look_up_topics(end).ids
        ranges = ranges_between(start, end, ids)
        earliest = self._cluster.earliest([each.topic_partition for each in ranges])
        return skip_deleted_records(ranges, earliest, self._policy)

    def commit(self, position: StreamOffsets) -> None:
        """Commits the offsets of batches that are complete to the query's group."""
        group_id = self._options.group_id or position.group_id
        if position.is_initial or group_id is None:
            return
        if self._commits is None:
            self._commits = _GroupCommits(self._cluster.admin, group_id, self._now_s)
        self._commits.commit(position.offsets)

    def _new_group_id(self) -> str:
        return self._options.group_id or f"{self._options.group_id_prefix}-{uuid4()}"

    def _wait_while_idle(self) -> None:
        """Waits if there was nothing to read: Spark asks again at once, at the cost of a request to every leader."""
        if self._pause_s:
            time.sleep(self._pause_s)

    def _find_end(self, position: StreamOffsets, *, is_limited: bool) -> StreamOffsets | None:
        topics, latest = self._observe(position)
        continued = continued_offsets(position, topics, self._policy)
        added = self._cluster.earliest([each for each in topics.partitions if each not in continued])
        report_new_partitions(added, self._policy)
        report_truncation(continued, latest, self._policy)
        begin = {**continued, **added}
        offsets = self._admit(begin, latest) if is_limited else latest
        if offsets is None:
            return None
        started_at = begin if position.is_initial else added
        end = StreamOffsets(
            offsets,
            dict(topics.ids),
            self._options.group_id or position.group_id or self._new_group_id(),
            {each: started_at[each] for each in offsets if each in started_at},
        )
        # An empty first batch writes into the checkpoint where the query has begun.
        is_pinned = not position.starts_at_latest
        has_same_topics = all(topics.ids.get(topic) == topic_id for topic, topic_id in position.topic_ids.items())
        return None if offsets == position.offsets and has_same_topics and is_pinned else end

    def _observe(self, position: StreamOffsets) -> tuple[Topics, Offsets]:
        """The topics, and the offsets that batches may read up to.

        Topics are looked up after their offsets were: offsets of a topic that has been created again are not taken for
        those of the topic before it.
        """
        if self._target is not None:
            topics = self._look_up_topics(position)
            partitions = tuple(each for each in topics.partitions if each in self._target)
            return Topics(topics.ids, partitions), {each: self._target[each] for each in partitions}
        topics = self._topics
        if self._topics_since_s is None or self._now_s() - self._topics_since_s >= _TOPICS_AGE_MAX_S:
            topics = self._look_up_topics(position)
        while True:
            latest = self._latest(topics, position)
            if latest is not None and latest == position.offsets and not self._is_available_now:
                break
            confirmed = self._look_up_topics(position)
            if latest is not None and confirmed == topics:
                break
            topics = confirmed
        self._progress.observe(latest)
        if self._is_available_now:
            self._target = latest
        return topics, latest

    def _latest(self, topics: Topics, position: StreamOffsets) -> Offsets | None:
        """Returns the latest offsets, or None if the topics have to be looked up again since one may have been deleted.

        Partitions that end before the position are looked at again: a leader that was replaced, and does not know it
        yet, reports an end of before. Raises KafkaError and ClientError after the attempts of fetchOffset.numRetries.
        """
        attempts = self._options.fetch_offset_retries
        for attempt in range(1, attempts + 1):
            latest, failure = None, None
            try:
                latest = self._cluster.latest_now(topics.partitions, are_leaders_doubted=attempt > 1)
                if not _behind(latest, position, topics):
                    return latest
            except (KafkaError, ClientError) as error:
                failure = error
            if self._look_up_topics(position) != topics:
                return None
            if attempt < attempts:
                time.sleep(self._options.fetch_offset_retry_interval_ms / 1_000)
            elif failure is not None:
                raise failure
        return latest

    def _look_up_topics(self, position: StreamOffsets) -> Topics:
        self._topics = self._cluster.topics(position)
        self._topics_since_s = self._now_s()
        return self._topics

    def _admit(self, begin: Offsets, latest: Offsets) -> Offsets | None:
        """Returns the end of the batch by the options' limits, or None if the batch waits for more rows."""
        rows = count_rows(begin, latest)
        if not rows:
            return latest
        if self._minimum is not None and not self._is_available_now and not self._minimum.admits(rows):
            return None
        options = self._options
        fractions = [1.0]
        if options.max_offsets_per_trigger is not None:
            fractions.append(fraction_by_rows(begin, latest, options.max_offsets_per_trigger))
        if options.max_bytes_per_trigger is not None:
            sizes = self._record_sizes(begin, latest)
            fractions.append(fraction_by_bytes(begin, latest, options.max_bytes_per_trigger, sizes))
        return limit_offsets(begin, latest, min(fractions))

    def _record_sizes(self, begin: Offsets, latest: Offsets) -> dict[TopicPartition, float]:
        """The average bytes per offset, by partition."""
        is_old = self._sizes_since_s is None or self._now_s() - self._sizes_since_s >= _SIZES_AGE_MAX_S
        has_records = [each for each in latest if latest[each] > begin.get(each, latest[each])]
        if is_old or any(each not in self._bytes_per_offset for each in has_records):
            earliest = self._cluster.earliest(latest)
            self._bytes_per_offset = self._cluster.bytes_per_offset(earliest, latest)
            self._sizes_since_s = self._now_s()
        return self._bytes_per_offset


def _behind(latest: Offsets, position: StreamOffsets, topics: Topics) -> bool:
    """True if a partition ends before the position, in the topic that the position is of."""
    return any(
        latest.get(each, offset) < offset
        for each, offset in position.offsets.items()
        if topics.ids.get(each.topic) == position.id_of(each)
    )


def _depends_on_the_latest(starting: OffsetLimit) -> bool:
    """True if the option is resolved to a different position later, as "latest" is."""
    match starting:
        case Latest():
            return True
        case SpecificOffsets(offsets):
            return LATEST in offsets.values()
        case Timestamp(strategy=strategy) | SpecificTimestamps(strategy=strategy):
            return strategy is NoMatchStrategy.LATEST
    return False


class _GroupCommits:
    """Commits the offsets of batches that are complete.

    The checkpoint says where a query goes on; the offsets of the group are for tools only. So a commit that fails is
    logged, and never fails the query.
    """

    def __init__(self, admin: SyncAdmin, group_id: str, now_s: Callable[[], float]) -> None:
        self._admin = admin
        self._group_id = group_id
        self._now_s = now_s
        self._committed: Offsets = {}
        self._paused_until_s = 0.0

    def commit(self, offsets: Offsets) -> None:
        """Commits what has changed since the last commit."""
        changed = {each: offset for each, offset in offsets.items() if self._committed.get(each) != offset}
        if not changed or self._now_s() < self._paused_until_s:
            return
        try:
            self._admin.alter_group_offsets(self._group_id, changed, timeout_ms=_COMMIT_TIMEOUT_MS).raise_first()
        except (ClientError, KafkaError, OSError) as error:
            self._paused_until_s = self._now_s() + _COMMIT_PAUSE_S
            _LOG.warning("The offsets of group %s are not committed: %s", self._group_id, error)
        else:
            self._committed = dict(offsets)
