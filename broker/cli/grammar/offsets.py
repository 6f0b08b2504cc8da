"""Offsets of partitions, also where some of the partitions have no leader that answers."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

from broker.client.admin import Admin, OffsetSpec
from broker.client.errors import KafkaError, TimedOut
from broker.client.types import OffsetAndTimestamp, TopicPartition

# How long a partition may take to get a leader that answers. An election after a failed broker takes less, and a person
# should not wait for the minute that a call may take.
_ANSWER_MS: Final = 10_000

Offsets: TypeAlias = dict[TopicPartition, OffsetAndTimestamp | None]


async def find_offsets(
    admin: Admin,
    partitions: Iterable[TopicPartition],
    specs: Sequence[OffsetSpec | int],
    *,
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
) -> tuple[list[Offsets], dict[TopicPartition, Exception]]:
    """The offsets for each of `specs`, of the partitions that have all of them, and the errors of the others."""
    wanted = list(partitions)
    found: list[Offsets] = []
    errors: dict[TopicPartition, Exception] = {}
    for spec in specs:
        asked = {each: spec for each in wanted if each not in errors}
        try:
            results = await admin.list_offsets(asked, isolation_level=isolation_level, timeout_ms=_ANSWER_MS)
        except (TimedOut, KafkaError) as error:
            errors.update(dict.fromkeys(asked, error))
            found.append({})
        else:
            found.append(results.succeeded)
            errors.update(results.failed)
    return [{each: offset for each, offset in offsets.items() if each not in errors} for offsets in found], errors
