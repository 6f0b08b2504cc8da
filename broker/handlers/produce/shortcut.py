"""The shortcut for Produce requests with one batch for one partition, which most producers repeat.

Up to the length of the batch, such requests of a client are the same bytes apart from the correlation id. The shortcut
halves the cost of a small request.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, Literal, TypeAlias

from broker.handlers.partition_shortcut import (
    LOG_START_OFFSET_FROM,
    PREFIX_START,
    TOPIC_IDS_FROM,
    PartitionEntry,
    PartitionShortcut,
    around_fields,
)
from broker.handlers.produce.acknowledgement_wait import PartitionWait
from broker.handlers.produce.handler import ZSTD_FROM, appended, produce, set_acknowledgement_errors
from broker.handlers.topic_names import is_internal
from broker.net.connection import Connection
from broker.net.deadlines import Deadlines
from broker.net.reply import Part, PendingReply
from broker.replication.partition import Partition
from broker.server.context import BrokerContext, Server
from broker.server.handler import Handler
from broker.server.message_codec import MessageCodec
from broker.server.services import Services
from broker.server.session import Session
from broker.storage.append_info import AppendInfo
from broker.wire.api.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from broker.wire.errors import ErrorCode, KafkaError, WireError
from broker.wire.records import HEADER_SIZE, Compression
from broker.wire.records.batch import ATTRIBUTES_POSITION, COMPRESSION_MASK, TRANSACTIONAL_FLAG
from broker.wire.varint import encode_varint, read_varint

# No tagged fields of the partition, the topic and the request.
_FLEXIBLE_TAIL: Final = b"\0\0\0"
_TAIL_SIZE: Final = len(_FLEXIBLE_TAIL)
_LENGTH: Final = Struct(">i")
# The byte of a batch's attributes that has flags in it.
_FLAGS_POSITION: Final = ATTRIBUTES_POSITION + 1

# Values that occur nowhere else in a reply, to find out where the codec puts a field.
_CORRELATION_ID, _BASE_OFFSET, _APPEND_TIME, _LOG_START = (
    0x5A17C0DE,
    0x5A17BA5E << 24,
    0x5A1771AE << 24,
    0x5A175247 << 24,
)

Reply: TypeAlias = bytes | list[Part] | PendingReply | Literal[False] | None


class ProduceShortcut(PartitionShortcut["_Entry"]):
    """Learns from requests whose batch was appended."""

    def __init__(self, server: Server[Services], codec: MessageCodec) -> None:
        super().__init__(server, codec)
        self._now_ms = server.services.now_ms
        self._deadlines = server.services.deadlines
        self._stage = server.services.partitions.stage
        self._unusual_flags = frozenset(filter(lambda flags: _is_unusual(flags, codec.version), range(256)))

    def serve(self, connection: Connection, start: int, end: int, correlation_id: int) -> Reply:
        """The reply; None with acks=0; False if the handler has to serve the request."""
        session, buffer, data = connection.session, connection.buffer, connection.buffer.data
        position = start + session.prefix_length
        entry = self._entries.get(bytes(buffer.view[start + PREFIX_START : position]))
        if entry is None or position + 1 >= end or session.refused_batches is not None:
            return False
        if self._flexible:
            size, position = data[position], position + 1
            if size > 0x7F:
                size, position = size & 0x7F | data[position] << 7, position + 1
                if size > 0x3FFF:  # the second byte says that a third one follows
                    size, position = _read_long_varint(data, position - 2)
            batch_end = position + size - 1
            if batch_end + _TAIL_SIZE != end or data[batch_end:end] != _FLEXIBLE_TAIL:
                return False
        else:
            if position + 4 > end or _LENGTH.unpack_from(data, position)[0] != end - position - 4:
                return False
            position, batch_end = position + 4, end
        if batch_end - position < HEADER_SIZE or data[position + _FLAGS_POSITION] in self._unusual_flags:
            return False
        topic = self._topics.get(entry.topic)
        if topic is None or (partition := topic.partitions.get(entry.index)) is None:
            return False
        try:
            turn_ms = self._partitions.turn_ms or self._begin_turn()
            info = partition.role.append(buffer.view[position:batch_end], entry.acks, turn_ms)
        except KafkaError:
            return False  # nothing was appended; the handler finds the same error and reports it
        if not info.duplicate:
            self._stage(partition)
        throttle_time_ms = 0
        if (granted := entry.allowance) is not None:
            if (left := granted.left - end + start) >= 0:
                granted.left = left
            else:
                throttle_time_ms = self._charge(session, entry, end - start)
        if partition.role.answers_at_once and entry.acks and not throttle_time_ms:
            return entry.reply(correlation_id, info.first_offset, info.log_append_time_ms, info.log_start_offset)
        return entry.reply_when_safe(self._deadlines, connection, correlation_id, info, partition, throttle_time_ms)

    def _begin_turn(self) -> int:
        """Read the clock for all appends of this turn."""
        self._partitions.turn_ms = self._now_ms()
        return self._partitions.turn_ms

    def _key(self, context: BrokerContext, request: ProduceRequest, start: int, end: int) -> tuple[int, bytes] | None:
        """The bytes up to the length of the batch."""
        if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1:
            return None
        topic = request.topic_data[0]
        records = topic.partition_data[0].records
        if records is None or request.transactional_id is not None or request.acks not in (-1, 0, 1):
            return None
        local = self._topics.get(_topic_key(context, topic))
        if local is None or is_internal(local.name):
            return None
        size = len(records)
        suffix = (encode_varint(size + 1), _FLEXIBLE_TAIL) if self._flexible else (_LENGTH.pack(size), b"")
        prefix_end = end - len(suffix[1]) - size - len(suffix[0])
        view = context.own_connection.buffer.view
        length, tail = view[prefix_end : prefix_end + len(suffix[0])], view[end - len(suffix[1]) : end]
        if (bytes(length), bytes(tail)) != suffix:
            return None  # tagged fields, or a length that is not encoded in the shortest way
        return prefix_end - start, bytes(view[start + PREFIX_START : prefix_end])

    def _entry(self, context: BrokerContext, request: ProduceRequest) -> "_Entry":
        return _Entry(context, request, request.topic_data[0])


def _topic_key(context: BrokerContext, topic: TopicProduceData) -> str | bytes:
    return topic.topic_id if context.api_version >= TOPIC_IDS_FROM else topic.name


def _read_long_varint(data: bytearray, position: int) -> tuple[int, int]:
    """Returns an unsigned varint of three bytes or more and the position after it; 0 for a malformed one."""
    try:
        return read_varint(data, position)
    except (IndexError, WireError):
        return 0, position


class _Entry(PartitionEntry):
    """The fields of the requests with one prefix, and the template of their replies."""

    __slots__ = ("_charging", "_pack", "_timeout_ms", "acks", "reply")

    def __init__(self, context: BrokerContext, request: ProduceRequest, topic: TopicProduceData) -> None:
        index = topic.partition_data[0].index
        super().__init__(context, _topic_key(context, topic), index)
        self._charging = context.server.charging
        self._pack = _packing(context, topic, index)
        self._timeout_ms = request.timeout_ms
        self.acks = request.acks
        self.reply = _reply_template(context, topic, index)

    def reply_when_safe(
        self,
        deadlines: Deadlines,
        connection: Connection,
        correlation_id: int,
        info: AppendInfo,
        partition: Partition,
        throttle_time_ms: int,
    ) -> bytes | list[Part] | PendingReply | None:
        """The reply, which is pending until the records are acknowledged; None with acks=0."""
        if self.acks == 0:
            return None
        end_offset = info.last_offset + 1
        acknowledgements = partition.role.awaits(self.acks, end_offset)
        if acknowledgements is None:
            return self._reply(connection, correlation_id, info, throttle_time_ms)

        def respond(code: ErrorCode) -> None:
            pending.complete(self._reply(connection, correlation_id, info, throttle_time_ms, code))

        def respond_timed(code: ErrorCode) -> None:
            assert charging is not None, "requests are timed only while quotas are charged"
            charging.timed_call(connection.session, lambda: respond(code))

        charging = self._charging

        pending = PendingReply(connection)
        wait = PartitionWait(acknowledgements, end_offset)
        wait.then(respond_timed if charging is not None and charging.is_timed else respond)
        wait.expire_in(deadlines, self._timeout_ms / 1000, wait.expire)
        pending.on_abandon = wait.abandon
        return pending

    def _reply(
        self,
        connection: Connection,
        correlation_id: int,
        info: AppendInfo,
        throttle_time_ms: int,
        code: ErrorCode = ErrorCode.NONE,
    ) -> bytes | list[Part]:
        if throttle_time_ms or code is not ErrorCode.NONE:
            return self._pack(connection.session, correlation_id, info, throttle_time_ms, code)
        return self.reply(correlation_id, info.first_offset, info.log_append_time_ms, info.log_start_offset)


def _packing(
    context: BrokerContext, topic: TopicProduceData, index: int
) -> Callable[[Session, int, AppendInfo, int, ErrorCode], bytes | list[Part]]:
    """(session, correlation id, append, throttle time in ms, error) -> the frame of a reply, by the codec.

    For replies that are rare: of an append that is not known to be safe, and of a client that exceeds a quota.
    """
    server, codec, name, topic_id = context.server, context.codec, topic.name, topic.topic_id

    def pack(
        session: Session, correlation_id: int, info: AppendInfo, throttle_time_ms: int, code: ErrorCode
    ) -> bytes | list[Part]:
        like = BrokerContext.charged(server, session, codec, correlation_id, throttle_time_ms)
        answer = appended(index, info)
        topic_response = TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=[answer])
        response = ProduceResponse(responses=[topic_response])
        if code is not ErrorCode.NONE:
            set_acknowledgement_errors(
                like, response, [(topic_id if like.api_version >= TOPIC_IDS_FROM else name, answer, code)]
            )
        return like.pack(response)

    return pack


def _reply_template(
    context: BrokerContext, topic: TopicProduceData, index: int
) -> Callable[[int, int, int, int], bytes]:
    """(correlation id, base offset, log append time, log start offset) -> the frame of a successful reply.

    The codec encodes one such reply; what the four fields look like in it tells where to put others.
    """
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=index,
                        base_offset=_BASE_OFFSET,
                        log_append_time_ms=_APPEND_TIME,
                        log_start_offset=_LOG_START,
                    )
                ],
            )
        ]
    )
    sample = BrokerContext.charged(context.server, context.session, context.codec, _CORRELATION_ID)
    encoded = sample.pack(response)
    assert isinstance(encoded, bytes), "a reply without records is one small buffer"
    before, _, rest = encoded.partition(_CORRELATION_ID.to_bytes(4, "big"))
    values = (_BASE_OFFSET, _APPEND_TIME, _LOG_START)
    if context.api_version < LOG_START_OFFSET_FROM:
        between, after = around_fields(rest, values[:2])
        pack = Struct(f">{len(before)}si{len(between)}sqq{len(after)}s").pack
        return lambda correlation_id, offset, time, _: pack(before, correlation_id, between, offset, time, after)
    between, after = around_fields(rest, values)
    pack = Struct(f">{len(before)}si{len(between)}sqqq{len(after)}s").pack
    return lambda correlation_id, offset, time, log_start: pack(
        before, correlation_id, between, offset, time, log_start, after
    )


def _is_unusual(flags: int, version: int) -> bool:
    """True if `check_single_batch` may refuse a batch whose attributes end in this byte."""
    return bool(flags & TRANSACTIONAL_FLAG) or (flags & COMPRESSION_MASK == Compression.ZSTD and version < ZSTD_FROM)


HANDLER = Handler(
    ProduceRequest,
    produce,
    advertised_from=0,
    request_bytes_max=None,
    keeps_views=True,
    in_turns=True,
    shortcut=ProduceShortcut,
)
