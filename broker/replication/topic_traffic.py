"""Counts the traffic of topics. Partitions count for themselves; their counts are added to the topic's at a scrape.

A partition that leaves this broker must not take its counts along: the topic's would fall, and Prometheus takes a
counter that falls for one that started again at 0.
"""

from broker.storage.log import Log
from kraft import lazy_attrs


@lazy_attrs.define(eq=False)
class TopicTraffic:
    """The traffic of a topic on this broker since it has had a replica. Sizes are in bytes of record batches."""

    records_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    replication_bytes_in: int = 0
    replication_bytes_out: int = 0
    failed_produces: int = 0
    failed_fetches: int = 0


class PartitionTraffic:
    """The traffic of a partition that is not added to its topic's yet. The log counts what clients appended."""

    __slots__ = (
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "replication_bytes_in",
        "replication_bytes_out",
        "topic_traffic",
    )

    def __init__(self) -> None:
        self.topic_traffic = TopicTraffic()
        self._reset()

    def _reset(self) -> None:
        self.bytes_out = self.replication_bytes_in = self.replication_bytes_out = 0
        self.failed_produces = self.failed_fetches = 0

    def add_to_topic(self, log: Log | None) -> None:
        """Add this traffic to the topic's, and count from 0 again."""
        topic = self.topic_traffic
        if log is not None:
            segments = log.segments
            topic.records_in += segments.records_written
            topic.bytes_in += segments.bytes_written
            segments.records_written = segments.bytes_written = 0
        topic.bytes_out += self.bytes_out
        topic.replication_bytes_in += self.replication_bytes_in
        topic.replication_bytes_out += self.replication_bytes_out
        topic.failed_produces += self.failed_produces
        topic.failed_fetches += self.failed_fetches
        self._reset()


@lazy_attrs.define(eq=False)
class IsrChanges:
    """The replicas that have left and joined the in-sync replicas of partitions that this broker leads."""

    shrinks: int = 0
    expands: int = 0

    def add(self, before: tuple[int, ...], after: tuple[int, ...]) -> None:
        self.shrinks += sum(replica not in after for replica in before)
        self.expands += sum(replica not in before for replica in after)
