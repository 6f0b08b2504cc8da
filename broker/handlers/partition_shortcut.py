"""The common part of the shortcuts of Produce and Fetch: requests for one partition that a client repeats.

Such requests are the same bytes apart from a few fields. A shortcut looks these bytes up instead of decoding them, and
fills a template of the reply instead of encoding it. It learns both from requests that the handler has served. Unusual
requests, such as those that end in an error, are left to the handler before anything has changed.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

from broker.net.reply import PendingReply
from broker.server.context import BrokerContext, Server
from broker.server.message_codec import MessageCodec
from broker.server.quotas import Usage
from broker.server.services import Services
from broker.server.session import Session
from broker.wire.errors import ErrorCode

# The position after the correlation id. The API key and version before it have selected the shortcut.
PREFIX_START: Final = 8
TOPIC_IDS_FROM: Final = 13
LOG_START_OFFSET_FROM: Final = 5
_FIELD_BYTES: Final = 8

E = TypeVar("E", bound="PartitionEntry")


class PartitionEntry:
    """The fields that requests with the same bytes have in common.

    `topic` is the topic's name or id, as the request names it. `allowance` is the client's, see `Quotas.allowance`.
    """

    __slots__ = ("allowance", "client_id", "index", "topic")

    def __init__(self, context: BrokerContext, topic: str | bytes, index: int) -> None:
        self.client_id = context.client_id
        self.allowance = context.allowance()
        self.topic, self.index = topic, index


class PartitionShortcut(ABC, Generic[E]):
    """See `broker.server.shortcut_tables.Shortcut`. A subclass serves, and says which requests it can learn."""

    def __init__(self, server: Server[Services], codec: MessageCodec) -> None:
        self._server, self._codec = server, codec
        self._charging = server.charging
        self._partitions = server.services.partitions
        self._topics = server.services.partitions.topics
        self._flexible = codec.flexible
        self._entries: dict[bytes, E] = {}

    @abstractmethod
    def _key(self, context: BrokerContext, request: Any, start: int, end: int) -> tuple[int, bytes] | None:
        """The length of the bytes before those that change, and all bytes that do not; None if it is unusual."""

    @abstractmethod
    def _entry(self, context: BrokerContext, request: Any) -> E: ...

    def learn(self, context: BrokerContext, request: Any, response: Any, start: int, end: int) -> bool:
        """Remember a request that was accepted, if it is of the kind served here. True if it is new."""
        if not _is_accepted(response):
            return False
        known = self._key(context, request, start, end)
        if known is None:
            return False
        context.session.prefix_length, key = known
        if key in self._entries:
            return False
        self._entries[key] = self._entry(context, request)
        return True

    def _charge(self, session: Session, entry: E, request_bytes: int, fetched_bytes: int = 0) -> int:
        """Charge a request that exceeds what was left of the allowance. Returns the throttle time in ms."""
        charging, codec = self._charging, self._codec
        assert charging is not None, "there is an allowance only while quotas are charged"
        usage = Usage(session, entry.client_id, codec.api_key, codec.version, request_bytes, fetched_bytes)
        throttle_time_ms = charging.charge(usage)
        entry.allowance = charging.allowance(session, entry.client_id, codec.api_key)
        return throttle_time_ms


def _is_accepted(response: Any) -> bool:
    """True if the only partition of the request has no error, or if there is no response yet, or none at all."""
    if response is None or isinstance(response, PendingReply):
        return True
    topics = getattr(response, "responses", None)
    if not topics:
        return False
    first: Any = topics[0]
    partitions = first.partitions if hasattr(first, "partitions") else first.partition_responses
    return bool(partitions) and partitions[0].error_code == ErrorCode.NONE


def around_fields(encoded: bytes, values: Sequence[int]) -> tuple[bytes, bytes]:
    """The bytes before and after some adjacent fields of 8 bytes, in an encoded sample with these values.

    The values must occur nowhere else in it. They tell where to put others.
    """
    fields = b"".join(value.to_bytes(_FIELD_BYTES, "big") for value in values)
    before, found, after = encoded.partition(fields)
    assert found, "the fields are adjacent"
    return before, after
