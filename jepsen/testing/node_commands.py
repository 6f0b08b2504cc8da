"""The commands that a node of a test cluster takes from the supervisor."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from broker.coordinator.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from broker.coordinator.runtime.java_hash import java_hash
from broker.node import Node
from jepsen.testing.nearest_name import nearest_name

# The commands by name: functions of the node and of the command's other words.
Commands: TypeAlias = Mapping[str, Callable[..., Awaitable[Any]]]


class CommandRefused(Exception):
    """The node cannot do what the command says now."""


async def stop(node: Node) -> None:
    """Begin a clean shutdown."""
    node.stop()


async def view_topic(node: Node, topic: str) -> dict[str, Any]:
    """The partitions of a topic by this node's image of the metadata; none if it does not know the topic.

    `offset` is that of the image: of several nodes, the one with the highest offset knows the latest changes.
    """
    image = _loader(node).image
    found = image.topics.by_name.get(topic)
    partitions = [] if found is None else list(found.partitions.values())
    return {
        "offset": image.offset,
        "partitions": [
            {"leader": each.leader, "replicas": list(each.replicas), "isr": list(each.isr)} for each in partitions
        ],
    }


async def nearest_topic(node: Node, topic: str) -> dict[str, Any]:
    """The name of the topic that is most like `topic`; None if none is like it."""
    image = _loader(node).image
    return {"offset": image.offset, "name": nearest_name(topic, image.topics.by_name)}


async def view_coordinator(node: Node, group: str | None = None, transactional_id: str | None = None) -> dict[str, Any]:
    """The partition of the internal topic that a group or a transactional id belongs to; None before there is one."""
    topic, key = (CONSUMER_OFFSETS, group) if group is not None else (TRANSACTION_STATE, transactional_id or "")
    image = _loader(node).image
    found = image.topics.by_name.get(topic)
    partition = None if found is None else java_hash(key) % len(found.partitions)
    return {"offset": image.offset, "topic": topic, "partition": partition}


def _loader(node: Node) -> Any:
    if node.loader is None:
        raise CommandRefused("the node has not joined the quorum yet")
    return node.loader


COMMANDS: Final[Commands] = {
    "nearest_topic": nearest_topic,
    "stop": stop,
    "view_coordinator": view_coordinator,
    "view_topic": view_topic,
}
