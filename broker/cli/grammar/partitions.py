"""The partitions that a command line means: all of a topic or of a broker, or those it names."""

from collections.abc import Iterable, Sequence

from broker.cli.grammar.failures import CommandFailed, Exit
from broker.client.admin import Admin
from broker.client.types import TopicPartition


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
