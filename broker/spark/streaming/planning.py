"""Compares two positions of a streaming query: partitions that continue, that are new, and that are gone."""

from collections.abc import Mapping

import attrs

from broker.client import TopicPartition
from broker.spark.data_loss import DataLossPolicy
from broker.spark.offsets import Offsets, named, names_of
from broker.spark.ranges import OffsetRange
from broker.spark.streaming.stream_offsets import StreamOffsets


@attrs.frozen
class Topics:
    """The topics that a query reads at the moment: their ids, and their partitions."""

    ids: Mapping[str, bytes] = attrs.field(hash=False)
    partitions: tuple[TopicPartition, ...]


def continued_offsets(position: StreamOffsets, topics: Topics, policy: DataLossPolicy) -> Offsets:
    """The offsets of a position whose partitions are still those that they were.

    Reports topics that were deleted and created again, and partitions that do not exist any more.
    """
    recreated = {
        topic for topic, topic_id in position.topic_ids.items() if topic in topics.ids and topics.ids[topic] != topic_id
    }
    for topic in sorted(recreated):
        policy.report(
            f"Topic {topic} was deleted and created again: it has another id than the topic that the query has read. "
            "The query's offsets do not belong to it, and it is read from its beginning. "
            "Records of the deleted topic may have been missed"
        )
    exists = frozenset(topics.partitions)
    gone = [each for each in position.offsets if each not in exists and each.topic not in recreated]
    if gone:
        policy.report(f"{names_of(gone)} are gone. Some data may have been missed")
    return {each: offset for each, offset in position.offsets.items() if each in exists and each.topic not in recreated}


def report_new_partitions(earliest: Offsets, policy: DataLossPolicy) -> None:
    """Reports new partitions from whose beginning records were deleted before the query could read them."""
    for partition, offset in sorted(earliest.items()):
        if offset != 0:
            policy.report(
                f"Added partition {named(partition)} starts from {offset} instead of 0. Some data may have been missed"
            )


def report_truncation(start: Offsets, latest: Offsets, policy: DataLossPolicy) -> None:
    """Reports partitions that end before the query's position."""
    for partition, offset in sorted(start.items()):
        if partition in latest and latest[partition] < offset:
            policy.report(
                f"Partition {named(partition)}'s offset was changed from {offset} to {latest[partition]}. This could be"
                " either 1) a user error that the start offset is set beyond available offset when starting query, or"
                " 2) the log was truncated"
            )


def ranges_between(start: StreamOffsets, end: StreamOffsets, ids: Mapping[str, bytes]) -> list[OffsetRange]:
    """The offsets that a batch reads. `ids` are those of topics for which the end has none.

    A partition that is in one of the positions only is not read, unless the end says where it starts.
    """
    begin = {**start.offsets, **end.started_at}
    known = {**ids, **end.topic_ids}
    return [
        OffsetRange(each.topic, known[each.topic], each.partition, begin[each], offset)
        for each, offset in sorted(end.offsets.items())
        if each in begin and begin[each] < offset and each.topic in known
    ]


def skip_deleted_records(ranges: list[OffsetRange], earliest: Offsets, policy: DataLossPolicy) -> list[OffsetRange]:
    """Reports ranges whose first records are before the start of the log, and moves their starts there."""
    return [
        attrs.evolve(
            each,
            start=min(
                policy.start_within(each.topic_partition, each.start, earliest.get(each.topic_partition)), each.end
            ),
        )
        for each in ranges
    ]
