"""failOnDataLoss: detects by the logs' start offsets that records are gone which a query has to read.

A gap between offsets alone is no loss: compaction and transactions leave gaps.
"""

from logging import getLogger
from typing import Final

import attrs

from broker.client import TopicPartition
from broker.spark.offsets import named

_log: Final = getLogger(__name__)


class DataLoss(Exception):
    """Records that a query was to read are not available any more, and failOnDataLoss is true."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            "Some data may have been lost because they are not available in Kafka any more; either the data was aged "
            "out by Kafka or the topic may have been deleted before all the data in the topic was processed. If you "
            "don't want your query to fail on such cases, set the source option failOnDataLoss to false. "
            f"Reason: {reason}"
        )


@attrs.frozen
class DataLossPolicy:
    """Raises DataLoss if the query `fails`; otherwise logs the loss, and the query continues with the remaining
    records.
    """

    fails: bool

    def report(self, reason: str) -> None:
        """Raises DataLoss if the query fails on losses."""
        if self.fails:
            raise DataLoss(reason)
        _log.warning("Data may have been lost, and failOnDataLoss is false: %s", reason)

    def start_within(self, partition: TopicPartition, start: int, log_start: int | None) -> int:
        """The offset to start at, given where the log starts; None means that there is nothing to compare."""
        if log_start is None or start >= log_start:
            return start
        self.report(
            f"Could not read records in offset [{start}, {log_start}) for topic partition {named(partition)}: "
            f"its log starts at {log_start}."
        )
        return log_start

    def end_within(self, partition: TopicPartition, end: int, log_end: int | None) -> int:
        """The offset to end at, given where the readable part of the log ends."""
        if log_end is None or end <= log_end:
            return end
        self.report(
            f"Could not read records in offset [{log_end}, {end}) for topic partition {named(partition)}: "
            f"what can be read of it ends at {log_end}."
        )
        return log_end
