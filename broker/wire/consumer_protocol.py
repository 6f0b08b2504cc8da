"""The messages between consumers of a classic group: subscriptions and assignments (ConsumerProtocol*.json).

version int16, then the fields of that version; a version that is not known yet begins with those of the last known one
"""

from collections.abc import Iterable
from struct import Struct
from typing import Any, Final

from broker.wire.codec import decode, encode
from broker.wire.errors import WireError
from broker.wire.schema import Buffer, data, field, struct

_VERSION: Final = Struct(">h")
VERSION_MAX: Final = 3
_NO_KEY: Final = -1


@struct
class OwnedPartitions:
    topic: str = field("string", "0+", default="")
    partitions: list[int] = field(["int32"], "0+", factory=list)


def group_by_topic(partitions: Iterable[tuple[str, int]]) -> list[OwnedPartitions]:
    """Partitions, each a topic and a number, by their topics: sorted, as Kafka's consumers send them."""
    topics: dict[str, OwnedPartitions] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, OwnedPartitions(topic=topic)).partitions.append(index)
    return list(topics.values())


@data(key=_NO_KEY, versions="0-3", flexible="99+")
class ConsumerProtocolSubscription:
    """A member's subscription: the topics that it reads, and the partitions that it owns."""

    topics: list[str] = field(["string"], "0+", factory=list)
    user_data: bytes | None = field("bytes", "0+", default=None, nullable="0+")
    owned_partitions: list[OwnedPartitions] = field([OwnedPartitions], "1+", factory=list)
    generation_id: int = field("int32", "2+", default=-1)
    rack_id: str | None = field("string", "3+", default=None, nullable="3+")


@data(key=_NO_KEY, versions="0-3", flexible="99+")
class ConsumerProtocolAssignment:
    """A member's assignment."""

    assigned_partitions: list[OwnedPartitions] = field([OwnedPartitions], "0+", factory=list)
    user_data: bytes | None = field("bytes", "0+", default=None, nullable="0+")


def protocol_version(metadata: Buffer) -> int:
    """The version in which these bytes are written, no later than the last one known. Raises WireError."""
    if len(metadata) < _VERSION.size:
        raise WireError(f"{len(metadata)} bytes are not a message of the consumer protocol")
    version: int = _VERSION.unpack_from(metadata)[0]
    if version < 0:
        raise WireError(f"there is no version {version}")
    return min(version, VERSION_MAX)


def decode_subscription(metadata: Buffer) -> ConsumerProtocolSubscription:
    """A member's subscription. Raises WireError."""
    return _decode(protocol_version(metadata), metadata)


def decode_assignment(assignment: Buffer) -> ConsumerProtocolAssignment:
    """Decodes a member's assignment. Raises WireError."""
    message: Any = ConsumerProtocolAssignment
    version = protocol_version(assignment)
    given: ConsumerProtocolAssignment = decode(message, version, assignment, _VERSION.size)[0]
    return given


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int) -> bytes:
    """Encodes the subscription with which a member joins."""
    message: Any = subscription
    return b"".join([_VERSION.pack(version), *encode(message, version)])


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int) -> bytes:
    """Encodes a member's assignment."""
    message: Any = assignment
    return b"".join([_VERSION.pack(version), *encode(message, version)])


def subscribed_topics(metadata: Buffer) -> list[str] | None:
    """The topics of a subscription, whatever else it holds; None where it is none."""
    try:
        protocol_version(metadata)
        return _decode(0, metadata).topics
    except WireError:
        return None


def _decode(version: int, metadata: Buffer) -> ConsumerProtocolSubscription:
    message: Any = ConsumerProtocolSubscription
    subscription: ConsumerProtocolSubscription = decode(message, version, metadata, _VERSION.size)[0]
    return subscription
