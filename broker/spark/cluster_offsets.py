"""Looks up partitions and their offsets in the cluster: the driver's part of planning."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from logging import getLogger
from types import TracebackType
from typing import Final, Literal, Self, TypeVar

from broker.client import ClientError, KafkaError, OffsetSpec, SyncAdmin, TimedOut, TopicPartition
from broker.client.admin.config import AdminConfig
from broker.spark.data_loss import DataLossPolicy
from broker.spark.offsets import EARLIEST, LATEST, Offsets, named, names_of
from broker.spark.options import (
    Assign,
    Earliest,
    IllegalOption,
    Latest,
    NoMatchStrategy,
    OffsetLimit,
    ReadOptions,
    SpecificOffsets,
    SpecificTimestamps,
    Subscribe,
    client_settings,
)
from broker.spark.ranges import OffsetRange

_log: Final = getLogger(__name__)
_T = TypeVar("_T")


class ClusterOffsets:
    """A connection to the cluster for as long as a query is planned. To be closed, or used in a `with` block.

    Every call is tried `fetchOffset.numRetries` times, `fetchOffset.retryIntervalMs` apart, and raises KafkaError or
    ClientError after that. TimedOut is raised at once: the client has tried for `default.api.timeout.ms` then. Under
    read_committed, the latest offset of a partition is its last stable one.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._admin = SyncAdmin(config=client_settings(options.client_config, AdminConfig))
        self._level: Literal["read_committed", "read_uncommitted"] = (
            "read_committed" if options.reads_committed else "read_uncommitted"
        )

    def close(self) -> None:
        self._admin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # Lookups

    def partitions(self) -> dict[TopicPartition, bytes]:
        """The partitions that the options choose, sorted, each with its topic's id of 16 bytes."""
        return self._retried(self._partitions)

    def _partitions(self) -> dict[TopicPartition, bytes]:
        topics = self._options.topics
        if isinstance(topics, Assign):
            chosen = sorted(set(topics.partitions))
            described = self._describe({partition.topic for partition in chosen})
            return {partition: described[partition.topic][0] for partition in chosen}
        if isinstance(topics, Subscribe):
            names: Iterable[str] = topics.topics
        else:
            names = (topic.name for topic in self._admin.list_topics() if topics.matches(topic.name))
        return {
            TopicPartition(name, number): topic_id
            for name, (topic_id, numbers) in sorted(self._describe(names).items())
            for number in numbers
        }

    def _describe(self, topics: Iterable[str]) -> dict[str, tuple[bytes, Sequence[int]]]:
        described = self._admin.describe_topics(sorted(topics)).raise_first()
        return {
            topic.name: (topic.topic_id, [each.partition for each in topic.partitions]) for topic in described.values()
        }

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The log start offsets: records before them are gone."""
        return self._listed(dict.fromkeys(partitions, int(OffsetSpec.EARLIEST)))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The offsets after the last record that the query may read."""
        return self._listed(dict.fromkeys(partitions, int(OffsetSpec.LATEST)))

    def at_times(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after a time in milliseconds since 1970; None where there is no such record."""

        def ask() -> dict[TopicPartition, int | None]:
            found = self._admin.list_offsets(timestamps_ms, isolation_level=self._level).raise_first()
            return {partition: None if each is None else each.offset for partition, each in found.items()}

        return self._retried(ask) if timestamps_ms else {}

    def _listed(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        return {partition: offset for partition, offset in self.at_times(wanted).items() if offset is not None}

    def _retried(self, call: Callable[[], _T]) -> _T:
        attempts = self._options.fetch_offset_retries
        for attempt in range(1, attempts):
            try:
                return call()
            except TimedOut:
                raise
            except (KafkaError, ClientError) as error:
                _log.warning("Attempt %d of %d to get offsets failed: %s", attempt, attempts, error)
                time.sleep(self._options.fetch_offset_retry_interval_ms / 1000)
        return call()

    # Options resolved to offsets

    def starting_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The offsets at which the options start a query. Raises IllegalOption."""
        return self._resolve(self._options.starting, list(partitions), is_start=True)

    def ending_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The offsets at which the options end a query. Raises IllegalOption."""
        return self._resolve(self._options.ending, list(partitions), is_start=False)

    def ranges(self) -> list[OffsetRange]:
        """The ranges of a batch query: the offsets of each partition from the start to the end.

        Raises IllegalOption where a start comes after an end, and DataLoss, unless failOnDataLoss is false, where the
        options ask for offsets that a log has deleted, or does not have yet.
        """
        partitions = self.partitions()
        starts, ends = self.starting_offsets(partitions), self.ending_offsets(partitions)
        for partition, start in starts.items():
            _check_order(partition, start, ends[partition])
        earliest = self._needed(self._options.starting, partitions, self.earliest)
        latest = self._needed(self._options.ending, partitions, self.latest)
        policy = DataLossPolicy(self._options.fails_on_data_loss)
        return [
            OffsetRange(
                partition.topic,
                topic_id,
                partition.partition,
                policy.start_within(partition, starts[partition], earliest.get(partition)),
                policy.end_within(partition, ends[partition], latest.get(partition)),
            )
            for partition, topic_id in partitions.items()
        ]

    def _needed(
        self,
        limit: OffsetLimit,
        partitions: Iterable[TopicPartition],
        ask: Callable[[Iterable[TopicPartition]], Offsets],
    ) -> Offsets:
        """Looks offsets up if the limit needs them: only offsets that a user names can lie outside of a log."""
        return ask(partitions) if isinstance(limit, SpecificOffsets) else {}

    def _resolve(self, limit: OffsetLimit, partitions: Sequence[TopicPartition], *, is_start: bool) -> Offsets:
        if isinstance(limit, Earliest):
            return self.earliest(partitions)
        if isinstance(limit, Latest):
            return self.latest(partitions)
        if isinstance(limit, SpecificOffsets):
            _check_partitions("start" if is_start else "end", limit.offsets, partitions)
            return self._resolve_symbols(limit.offsets)
        if isinstance(limit, SpecificTimestamps):
            _check_partitions(
                f"timestamp based {'starting' if is_start else 'ending'}", limit.timestamps_ms, partitions
            )
            timestamps = limit.timestamps_ms
        else:
            timestamps = dict.fromkeys(partitions, limit.timestamp_ms)
        found = self.at_times(timestamps)
        if is_start and limit.strategy is NoMatchStrategy.ERROR:
            _check_matches(timestamps, found)
        return self._resolve_symbols(
            {partition: LATEST if offset is None else offset for partition, offset in found.items()}
        )

    def _resolve_symbols(self, offsets: Offsets) -> Offsets:
        """Replaces LATEST and EARLIEST."""
        latest = self.latest([partition for partition, offset in offsets.items() if offset == LATEST])
        earliest = self.earliest([partition for partition, offset in offsets.items() if offset == EARLIEST])
        return {**offsets, **latest, **earliest}


def _check_partitions(kind: str, given: Mapping[TopicPartition, int], partitions: Sequence[TopicPartition]) -> None:
    if set(given) != set(partitions):
        hint = (
            "deleted while the query is running. Use -1 for latest, -2 for earliest."
            if kind in ("start", "end")
            else "deleted while the query is running, or you didn't specify all the partitions."
        )
        raise IllegalOption(
            f"Partitions specified for Kafka {kind} offsets don't match what are assigned. Maybe topic partitions are "
            f"created or {hint} Specified: {names_of(given)} Assigned: {names_of(partitions)}"
        )


def _check_matches(timestamps_ms: Mapping[TopicPartition, int], found: Mapping[TopicPartition, int | None]) -> None:
    for partition, offset in found.items():
        if offset is None:
            raise IllegalOption(
                f"No offset matched from request of topic-partition {named(partition)} and timestamp "
                f"{timestamps_ms[partition]}."
            )


def _check_order(partition: TopicPartition, start: int, end: int) -> None:
    if start > end:
        raise IllegalOption(
            f"The resolved start offset {start} is greater than the resolved end offset {end} for topic "
            f"{partition.topic} partition {partition.partition}. Start and end are offsets, times, or latest: set them "
            "so that the start comes first"
        )
