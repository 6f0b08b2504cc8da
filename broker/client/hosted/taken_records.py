"""Positions of the records that a consumer gave out last: it goes back to them if its caller did not get them."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from broker.client.consumer.consumer import Consumer
from broker.client.consumer.errors import NotAssigned
from broker.client.types import ConsumerRecord, OffsetAndMetadata, TopicPartition

# The columns of a table that say where its records are.
_PLACE_COLUMNS: Final = ("topic", "partition", "offset")


def begin_of(records: Iterable[ConsumerRecord[Any, Any]]) -> dict[TopicPartition, OffsetAndMetadata]:
    """The position of the first of these records in each partition."""
    first: dict[TopicPartition, OffsetAndMetadata] = {}
    for record in records:
        first.setdefault(
            TopicPartition(record.topic, record.partition), OffsetAndMetadata(record.offset, record.leader_epoch)
        )
    return first


def begin_of_one(record: ConsumerRecord[Any, Any]) -> dict[TopicPartition, OffsetAndMetadata]:
    return begin_of([record])


def begin_of_table(table: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    """The position of the first record of a table in each partition. It has the columns of `with_places`."""
    begins = table.group_by(["topic", "partition"]).aggregate([("offset", "min")]).to_pylist()
    return {TopicPartition(row["topic"], row["partition"]): OffsetAndMetadata(row["offset_min"]) for row in begins}


def with_places(columns: Sequence[str]) -> list[str]:
    """The columns, and those that say where the records begin, should the consumer have to go back."""
    return [*columns, *(name for name in _PLACE_COLUMNS if name not in columns)]


async def seek_back(consumer: Consumer[Any, Any], positions: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    """Has the consumer read from these positions again, as far as their partitions are still assigned."""
    for partition, position in positions.items():
        with suppress(NotAssigned):
            consumer.seek(partition, position)
