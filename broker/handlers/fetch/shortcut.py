"""The shortcut for Fetch requests of a consumer that reads one partition without a fetch session, and of followers.

Requests of such a consumer are the same bytes apart from the correlation id and the fetch offset. Requests that fail or
have to wait are left to the handler.
"""

from struct import Struct
from typing import Any, Final, Literal, TypeAlias

from broker.handlers.fetch.follower_shortcut import learn_follower
from broker.handlers.fetch.handler import fetch
from broker.handlers.fetch.log_reader import ZSTD_FROM
from broker.handlers.fetch.policies import CONSUMER_REPLICA_ID, READ_REPLICAS_FROM, fetch_policy
from broker.handlers.fetch.reply_template import read_small, reply_template, reply_with
from broker.handlers.fetch.throttling import FRAME_LENGTH_BYTES, response_bytes_max, response_sizes
from broker.handlers.partition_shortcut import (
    PREFIX_START,
    TOPIC_IDS_FROM,
    PartitionEntry,
    PartitionShortcut,
)
from broker.net.connection import Connection
from broker.net.reply import Part, PendingReply
from broker.replication.commit_state import READ_COMMITTED
from broker.replication.fetch_sessions import FINAL_EPOCH, NO_SESSION
from broker.replication.partition import NO_EPOCH, Partition
from broker.server.context import BrokerContext, Server
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.message_codec import MessageCodec
from broker.server.services import Services
from broker.server.session import Session
from broker.storage.aborted_transactions import aborted_transactions
from broker.storage.log import Log, LogSlice
from broker.wire.api.fetch import FetchRequest, FetchResponse
from broker.wire.errors import KafkaError, WireError
from broker.wire.header import parse_request_header

_OFFSET: Final = Struct(">q")
# So often the same records are served again before they are suspected: as many clients of one name may read them.
_SUSPECT_REPEATS: Final = 8

# Values that occur nowhere else in a request or reply, to find out where the codec puts a field.
_FETCH_OFFSET: Final = 0x5A17FE7C << 24

Reply: TypeAlias = bytes | list[Part] | PendingReply | Literal[False]


class FetchShortcut(PartitionShortcut["_Entry"]):
    """Learns from requests that may read their partition."""

    def __init__(self, server: Server[Services], codec: MessageCodec) -> None:
        super().__init__(server, codec)
        self._commit_staged = server.services.partitions.commit_staged
        self._reads_zstd = codec.version >= ZSTD_FROM
        self._leader_only = codec.version < READ_REPLICAS_FROM
        self._may_select = server.services.replica_selector is not None

    def serve(self, connection: Connection, start: int, end: int, correlation_id: int) -> Reply:
        """The reply, or False if the handler has to serve the request."""
        view, session = connection.buffer.view, connection.session
        if (follower := session.follower_fetches) is not None and follower.owner is self:
            served: Reply = follower.serve(session, view[start:end], correlation_id)
            return served
        prefix_length = session.prefix_length
        position = start + prefix_length
        if position + 8 > end:
            return False
        entry = self._entries.get(bytes(view[start + PREFIX_START : position]) + view[position + 8 : end])
        if entry is None or entry.prefix_length != prefix_length:
            return False  # the session's prefix length is of another request; the remaining bytes are equal by chance
        self._commit_staged()
        topic = self._topics.get(entry.topic)
        partition = None if topic is None else topic.partitions.get(entry.index)
        if partition is None:
            return False
        try:
            epoch = entry.current_leader_epoch
            log = partition.leader_log(epoch) if self._leader_only else partition.committed_log(epoch)
            if not self._reads_zstd and log.config.compression_type == "zstd":
                return False
            offset, committed = _OFFSET.unpack_from(view, position)[0], partition.commit_state
            bound = committed.end_for(log, entry.isolation_level)
            records = log.read(offset, entry.max_bytes, upper_bound=bound, min_one_batch=True)
            size = records.size
            if records.available < entry.min_bytes or not size or _has_aborted(entry, log, records, offset, bound):
                return False
            data = read_small(records)
            if (granted := entry.allowance) is not None:
                if (left := granted.left - entry.overhead_bytes - size) >= 0:
                    granted.left = left
                elif reply := self._throttled(connection.session, entry, correlation_id, end - start, size):
                    return reply
            entry.record_sent(partition, log, records, offset)
            watermarks = (committed.high_watermark, committed.last_stable_offset(log), log.log_start_offset)
            return reply_with(entry.frame(correlation_id, size, watermarks), records, data)
        except (KafkaError, OSError):
            return False  # the handler finds the same error and reports it

    def learn(self, context: BrokerContext, request: FetchRequest, response: Any, start: int, end: int) -> bool:
        if request.session_id != NO_SESSION:
            return learn_follower(self, context, request, context.own_connection.buffer.view[start:end])
        return super().learn(context, request, response, start, end)

    def _throttled(
        self, session: Session, entry: "_Entry", correlation_id: int, request_bytes: int, records_bytes: int
    ) -> bytes | list[Part] | None:
        """The response to a consumer that exceeds a quota, see `throttled_response`; None if it does not."""
        throttle_time_ms = self._charge(session, entry, request_bytes, entry.overhead_bytes + records_bytes)
        if not throttle_time_ms:
            return None
        context = BrokerContext.charged(self._server, session, self._codec, correlation_id, throttle_time_ms)
        return context.pack(FetchResponse())

    def _key(self, context: BrokerContext, request: FetchRequest, start: int, end: int) -> tuple[int, bytes] | None:
        """All bytes without the fetch offset."""
        if (
            len(request.topics) != 1
            or len(request.topics[0].partitions) != 1
            or request.forgotten_topics_data
            or request.session_id != NO_SESSION
            or request.session_epoch != FINAL_EPOCH
            or request.topics[0].partitions[0].last_fetched_epoch != NO_EPOCH
            or request.replica_state is not None
            or request.replica_id != CONSUMER_REPLICA_ID
            or (request.rack_id and self._may_select)
        ):
            return None
        frame = bytes(context.own_connection.buffer.view[start:end])
        position = _offset_position(context, frame, request)
        return None if position is None else (position, frame[PREFIX_START:position] + frame[position + 8 :])

    def _entry(self, context: BrokerContext, request: FetchRequest) -> "_Entry":
        return _Entry(context, request)


class _Entry(PartitionEntry):
    """The fields of a request apart from its offset, and the template of its replies.

    `last_offset` was served last, and `repeats` times before that.
    """

    __slots__ = (
        "current_leader_epoch",
        "frame",
        "isolation_level",
        "last_offset",
        "max_bytes",
        "min_bytes",
        "overhead_bytes",
        "prefix_length",
        "repeats",
    )

    def __init__(self, context: BrokerContext, request: FetchRequest) -> None:
        topic = request.topics[0]
        partition = topic.partitions[0]
        has_ids = context.api_version >= TOPIC_IDS_FROM
        super().__init__(context, topic.topic_id if has_ids else topic.topic, partition.partition)
        self.last_offset, self.repeats = -1, 0
        self.prefix_length = context.session.prefix_length
        self.current_leader_epoch = partition.current_leader_epoch
        self.isolation_level = request.isolation_level
        policy = fetch_policy(context, request)
        self.max_bytes = min(partition.partition_max_bytes, response_bytes_max(context, request, policy))
        self.min_bytes = min(request.min_bytes, request.max_bytes) if request.max_wait_ms > 0 else 0
        sizes = response_sizes(context.api_version)
        name_bytes = 0 if has_ids else len(topic.topic.encode())
        self.overhead_bytes = FRAME_LENGTH_BYTES + sizes.empty + sizes.topic + name_bytes + sizes.partition
        self.frame = reply_template(context, topic, request.isolation_level)

    def record_sent(self, partition: Partition, log: Log, records: LogSlice, offset: int) -> None:
        """Count the records. Old ones are checked, and at times those that are served again and again.

        A client that refuses records asks for them for ever. Clients of one name that read the same records look like
        one that repeats its request.
        """
        partition.bytes_out += records.size
        if records.segment is not log.segments.active:
            partition.tasks.check_old(partition, offset)
        if offset != self.last_offset:
            self.last_offset, self.repeats = offset, 0
            return
        self.repeats += 1
        if self.repeats >= _SUSPECT_REPEATS and self.repeats.bit_count() == 1:  # less and less often
            partition.tasks.check_log(partition, offset)


def _has_aborted(entry: _Entry, log: Log, found: LogSlice, offset: int, end_offset: int) -> bool:
    """True if the response has to list aborted transactions."""
    return entry.isolation_level == READ_COMMITTED and bool(aborted_transactions(log, found, offset, end_offset))


def _offset_position(context: BrokerContext, frame: bytes, request: FetchRequest) -> int | None:
    """The position of the fetch offset in the frame: a change of these bytes changes only the decoded offset."""
    offset = request.topics[0].partitions[0].fetch_offset
    encoded = _OFFSET.pack(offset)
    body = parse_request_header(frame)[4]
    position = frame.find(encoded, body)
    while position >= 0:
        changed = frame[:position] + _OFFSET.pack(_FETCH_OFFSET) + frame[position + 8 :]
        if _decodes_to(context, changed, body, request, _FETCH_OFFSET):
            return position
        position = frame.find(encoded, position + 1)
    return None


def _decodes_to(context: BrokerContext, frame: bytes, body: int, request: FetchRequest, fetch_offset: int) -> bool:
    """True if the frame decodes to `request` with this fetch offset, up to the end of the frame."""
    try:
        decoded, end = context.codec.decode(frame, body, len(frame))
    except WireError:
        return False
    if end != len(frame) or len(decoded.topics) != 1 or len(decoded.topics[0].partitions) != 1:
        return False
    partition = decoded.topics[0].partitions[0]
    if partition.fetch_offset != fetch_offset:
        return False
    partition.fetch_offset = request.topics[0].partitions[0].fetch_offset
    return repr(decoded) == repr(request)


# A follower of 50,000 partitions names all of them when a session begins.
HANDLER = Handler(FetchRequest, fetch, request_bytes_max=2 * REQUEST_BYTES_MAX, in_turns=True, shortcut=FetchShortcut)
