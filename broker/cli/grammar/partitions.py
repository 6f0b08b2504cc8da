"""The partitions that a command line means, and their offsets."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

from broker.cli.grammar.failures import CommandFailed, Exit
from broker.client.admin import Admin, OffsetSpec
from broker.client.errors import KafkaError, TimedOut
from broker.client.types import OffsetAndTimestamp, TopicPartition

# How long a partition may take to get a leader that answers. An election after a failed broker takes less, and a person
# should not wait for the minute that a call may take.
_ANSWER_MS: Final = 10_000

Offsets: TypeAlias = dict[TopicPartition, OffsetAndTimestamp | None]


class NoSuchPartition(CommandFailed):
    """The command names a partition that a topic of `count` partitions does not have."""

    def __init__(self, topic: str, number: int, count: int) -> None:
        super().__init__(
            f"Topic {topic} has no partition {number}; its partitions are 0 to {max(count - 1, 0)}", Exit.NOT_FOUND
        )


async def find_partitions(
    admin: Admin, given: Iterable[tuple[str, Sequence[int] | None]]
) -> dict[TopicPartition, None]:
    """The partitions in the order given. Raises KafkaError for a topic that does not exist, CommandFailed."""
    wanted = list(given)
    described = (await admin.describe_topics(dict.fromkeys(topic for topic, _ in wanted))).raise_first()
    found: dict[TopicPartition, None] = {}
    for topic, numbers in wanted:
        existing = [each.partition for each in described[topic].partitions]
        for number in existing if numbers is None else numbers:
            if number not in existing:
                raise NoSuchPartition(topic, number, len(existing))
            found[TopicPartition(topic, number)] = None
    return found


async def partitions_to_search(admin: Admin, topic: str | None, broker_id: int | None) -> list[TopicPartition]:
    """The partitions of a topic, or of all topics, with a replica on a broker, or on any. Raises KafkaError."""
    listed = await admin.list_topics(include_internal=True) if topic is None else []
    names = [each.name for each in listed] if topic is None else [topic]
    described = (await admin.describe_topics(names)).raise_first()
    return [
        TopicPartition(found.name, each.partition)
        for found in described.values()
        for each in found.partitions
        if broker_id is None or broker_id in each.replicas
    ]


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
