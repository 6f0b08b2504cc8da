"""The shortcut for Fetch requests of a follower that name one partition within its fetch session.

While records arrive one by one, a follower sends such requests only. They differ from each other in the session epoch,
the wait, and the position of the follower's log. All requests with errors, with other news in the session, and of
throttled or lagging replicas are left to the handler, before anything has changed. The handler's code also makes the
response to a request that has waited, unless records of its partition, and nothing else, have ended the wait.
"""

from struct import Struct
from typing import Final, Literal, TypeAlias

import trio

from broker.handlers.fetch.handler import respond_again
from broker.handlers.fetch.log_reader import LogReader
from broker.handlers.fetch.policies import FollowerPolicy, fetch_policy
from broker.handlers.fetch.reply_template import read_small, reply_template, reply_with
from broker.handlers.fetch.throttling import response_bytes_max
from broker.net.completion import Completion
from broker.net.deadlines import Deadline
from broker.net.reply import Part, PendingReply
from broker.replication.cached_partition import CachedPartition
from broker.replication.fetch_sessions import INITIAL_EPOCH, Fetch, FetchSession
from broker.replication.in_sync_replicas import Follower
from broker.replication.leader_role import LeaderRole, diverging_epoch
from broker.replication.partition import Partition
from broker.server.context import BrokerContext
from broker.server.scheduler import Work
from broker.server.session import Session
from broker.storage.log import LogSlice
from broker.wire.api.fetch import FetchRequest, FetchResponse
from broker.wire.errors import KafkaError, WireError
from broker.wire.header import parse_request_header

Frame: TypeAlias = bytes | list[Part]
Reply: TypeAlias = Frame | PendingReply | Literal[False]

# The position after the correlation id.
_CONSTANT_FROM: Final = 8
_INT: Final = Struct(">i")
# Fetch offset, last fetched epoch and log start offset, which are adjacent.
_POSITION: Final = Struct(">qiq")
# Values that occur nowhere else in a request, to find out where the codec puts a field.
_WAIT, _EPOCH = 0x5A17A175, 0x5A17E90C
_FOLLOWER_POSITION: Final = (0x5A17FE7C << 24, 0x5A171A57, 0x5A175247 << 24)
# A follower's connection has an entry per partition and leader epoch; when there are more, all are removed.
_ENTRIES_MAX: Final = 1_024


class FollowerFetches:
    """Serves the requests of one fetch session over one connection.

    `owner` is the shortcut that has learned them, for clients with the same rights. `layout` has the positions of the
    fields that change, and the size of the frame.
    """

    __slots__ = ("_entries", "_epoch_at", "_position_at", "_size", "_wait_at", "owner", "session_id")

    def __init__(self, owner: object, session_id: int, layout: tuple[int, int, int, int]) -> None:
        self.owner = owner
        self.session_id = session_id
        self._wait_at, self._epoch_at, self._position_at, self._size = layout
        self._entries: dict[bytes, _Entry] = {}

    def can_add(self, owner: object, session_id: int, size: int) -> bool:
        """True if a request of this size within the session has the same layout."""
        return self.owner is owner and self.session_id == session_id and self._size == size

    def constant_bytes(self, frame: memoryview) -> bytes:
        """All bytes apart from the correlation id and the fields that change."""
        wait_at, epoch_at, position_at = self._wait_at, self._epoch_at, self._position_at
        return b"".join(
            (
                frame[_CONSTANT_FROM:wait_at],
                frame[wait_at + _INT.size : epoch_at],
                frame[epoch_at + _INT.size : position_at],
                frame[position_at + _POSITION.size :],
            )
        )

    def add(self, frame: memoryview, entry: "_Entry") -> bool:
        """Remember the request in `frame`. True if it is new."""
        key = self.constant_bytes(frame)
        is_new = key not in self._entries
        if len(self._entries) >= _ENTRIES_MAX:
            self._entries.clear()
        self._entries[key] = entry
        return is_new

    def serve(self, session: Session, frame: memoryview, correlation_id: int) -> Reply:
        """The reply, or False if the handler has to serve the request."""
        if len(frame) != self._size:
            return False
        entry = self._entries.get(self.constant_bytes(frame))
        if entry is None:
            return False
        max_wait_ms = _INT.unpack_from(frame, self._wait_at)[0]
        session_epoch = _INT.unpack_from(frame, self._epoch_at)[0]
        fetch_offset, last_epoch, log_start_offset = _POSITION.unpack_from(frame, self._position_at)
        entry.commit_staged()
        try:
            leader = entry.leader(session_epoch, fetch_offset, last_epoch)
            if leader is None or max_wait_ms <= 0:
                return False
            found = entry.read(leader[0], fetch_offset)
            data = read_small(found) if found.size else None
        except (KafkaError, OSError):
            return False  # the handler finds the same error and reports it
        entry.begin(leader, fetch_offset, last_epoch, log_start_offset)
        if found.size:
            return entry.reply(correlation_id, leader[0], found, data)
        return entry.wait(session, correlation_id, leader[0], max_wait_ms, len(frame))


class _Entry:
    """One partition that the follower fetches under one leader epoch.

    `session` is the fetch session, and `cached` is the partition in it.
    """

    __slots__ = (
        "_client_id",
        "_codec",
        "_frame",
        "_generation",
        "_incarnation",
        "_isolation_level",
        "_leader_epoch",
        "_max_bytes",
        "_max_bytes_of_partition",
        "_policy",
        "_read_max",
        "_server",
        "cached",
        "session",
    )

    def __init__(
        self, context: BrokerContext, request: FetchRequest, session: FetchSession, cached: CachedPartition
    ) -> None:
        policy = fetch_policy(context, request)
        assert isinstance(policy, FollowerPolicy), "only followers' requests are learned"
        topic = request.topics[0]
        self._server, self._codec, self._client_id = context.server, context.codec, context.client_id
        self._generation = context.server.access_generation
        self._policy = policy
        self._incarnation = policy.incarnation
        self._isolation_level = request.isolation_level
        self._leader_epoch = topic.partitions[0].current_leader_epoch
        self._max_bytes = response_bytes_max(context, request, policy)
        self._max_bytes_of_partition = topic.partitions[0].partition_max_bytes
        self._read_max = min(self._max_bytes, self._max_bytes_of_partition)
        self._frame = reply_template(context, topic, request.isolation_level, session_id=session.id)
        self.session = session
        self.cached = cached

    def commit_staged(self) -> None:
        """Write the records that were appended earlier in this turn, so that they are readable. Raises FsyncFailed."""
        self._server.services.partitions.commit_staged()

    def leader(self, session_epoch: int, fetch_offset: int, last_epoch: int) -> tuple[LeaderRole, Follower] | None:
        """The leader and its follower, if the request is usual; the request has no effect before. Raises KafkaError."""
        session, cached = self.session, self.cached
        if session_epoch != session.epoch or session_epoch <= INITIAL_EPOCH:
            return None  # a session that has ended has a negative epoch
        if session.waiter is not None or session.held:
            return None
        if session.follower != self._incarnation or session.isolation_level != self._isolation_level:
            return None
        if (due := session.due) and (len(due) > 1 or cached not in due):
            return None
        if fetch_offset < cached.fetch_offset or last_epoch < cached.last_fetched_epoch:
            return None  # the follower has truncated its log
        if cached.current_leader_epoch != self._leader_epoch or session.find(cached.topic, cached.index) is not cached:
            return None
        topic = self._server.services.partitions.topic(cached.topic)
        partition = None if topic is None else topic.partitions.get(cached.index)
        if partition is None:
            return None
        found = self._checked_leader(partition)
        if found is None or diverging_epoch(found[0].log, last_epoch, fetch_offset) is not None:
            return None
        cached.partition = partition
        return found

    def _checked_leader(self, partition: Partition) -> tuple[LeaderRole, Follower] | None:
        """The leader, if the follower is in sync and not throttled, and its rights have not changed.

        Raises KafkaError for a former incarnation of the follower.
        """
        role = partition.role
        if not isinstance(role, LeaderRole) or partition.leader_epoch != self._leader_epoch:
            return None
        if self._server.access_generation != self._generation:
            return None
        if self.session.access_generation != self._generation or partition.throttled_as_leader:
            return None
        replica_id, replica_epoch = self._incarnation
        follower = role.find_follower(replica_id, replica_epoch, self._leader_epoch)
        is_usual = replica_id in role.in_sync.isr and role.log.log_start_offset == self.cached.sent_log_start_offset
        return (role, follower) if is_usual else None

    def read(self, leader: LeaderRole, fetch_offset: int) -> LogSlice:
        """Raises KafkaError, as `Log.read` does."""
        log = leader.log
        return log.read(fetch_offset, self._read_max, upper_bound=log.readable_end_offset, min_one_batch=True)

    def begin(
        self, leader: tuple[LeaderRole, Follower], fetch_offset: int, last_epoch: int, log_start_offset: int
    ) -> None:
        """Take over the follower's position. The high watermark may advance."""
        cached = self.cached
        self._server.services.fetch_sessions.begin_for_one(self.session, cached, trio.current_time() * 1000)
        cached.fetch_offset, cached.last_fetched_epoch = fetch_offset, last_epoch
        cached.log_start_offset, cached.max_bytes = log_start_offset, self._max_bytes_of_partition
        leader[0].follower_fetched(
            leader[1],
            broker_epoch=self._incarnation[1],
            fetch_offset=fetch_offset,
            log_start_offset=log_start_offset,
        )

    def reply(self, correlation_id: int, leader: LeaderRole, found: LogSlice, data: bytes | None) -> Frame:
        """The response with the records that were found; `data` are those that were read."""
        partition, log, cached, size = leader.partition, leader.log, self.cached, found.size
        if found.segment is not log.segments.active:
            partition.tasks.check_old(partition, cached.fetch_offset)
        committed = partition.commit_state
        cached.sent_high_watermark, cached.sent_log_start_offset = committed.high_watermark, log.log_start_offset
        self.session.move_to_back(cached)
        partition.replication_bytes_out += size
        watermarks = (committed.high_watermark, committed.last_stable_offset(log), log.log_start_offset)
        return reply_with(self._frame(correlation_id, size, watermarks), found, data)

    def wait(
        self, session: Session, correlation_id: int, leader: LeaderRole, max_wait_ms: int, request_bytes: int
    ) -> PendingReply:
        """The response once there are records, or after `max_wait_ms`."""
        self.session.mark_idle(self.cached)
        self._policy.add_waiter(leader.partition, self.cached)
        wait = FollowerWait(self, session, leader, correlation_id, request_bytes)
        wait.deadline = self._server.services.deadlines.add(trio.current_time() + max_wait_ms / 1000, wait.expire)
        return wait

    def respond_by_handler(self, wait: "FollowerWait") -> None:
        """Have the handler's code make the response to a request that has waited."""
        request = wait.client_session, self._codec, wait.correlation_id, self._client_id, wait.request_bytes
        context, begun = BrokerContext(self._server, *request), Completion[None]()
        reply = self._server.scheduler.start(context, self._respond_after(begun, context, wait.fetch), in_turns=True)
        assert isinstance(reply, PendingReply), "it has not begun"
        wait.on_abandon = reply.abandon
        reply.on_completed = lambda: wait.complete(reply.outcome)
        begun.complete(None)

    def _respond_after(self, begun: Completion[None], context: BrokerContext, fetch: Fetch) -> Work[FetchResponse]:
        yield from begun
        if fetch.is_current:
            self.session.due[self.cached] = None  # its high watermark may have advanced with this request
        reader = LogReader(context, fetch, self._policy, self._max_bytes, has_updated_followers=True)
        return (yield from respond_again(context, reader, self._isolation_level))

    def reply_when_moved(self, correlation_id: int, waiting_at: LeaderRole, partition: Partition) -> Frame | None:
        """The response with the records that a waiting request waits for; None if the handler has to respond."""
        try:
            leader = self._checked_leader(partition)
            if leader is None or leader[0] is not waiting_at:
                return None
            found = self.read(waiting_at, self.cached.fetch_offset)
            data = read_small(found) if found.size else None
        except (KafkaError, OSError):
            return None
        return self.reply(correlation_id, waiting_at, found, data) if found.size else None

    def must_respond(self, cached: CachedPartition, partition: Partition) -> bool:
        """False if a change of the partition is told with the next response. `cached` waits again then."""
        if self._policy.must_reread(partition, cached):
            return True
        self._policy.add_reread_waiter(partition, cached)
        return False


class FollowerWait(PendingReply):
    """The reply to a request that waits until there are records; at its deadline the handler makes the response.

    `client_session` is the connection's session, `fetch` the request in the fetch session. The wait has a `deadline`
    until it ends.
    """

    __slots__ = ("_entry", "_leader", "client_session", "correlation_id", "deadline", "fetch", "request_bytes")

    def __init__(self, entry: _Entry, session: Session, leader: LeaderRole, correlation_id: int, size: int) -> None:
        assert session.connection is not None, "followers' requests are not forwarded"
        super().__init__(session.connection)
        self.deadline: Deadline | None = None
        self._entry = entry
        self._leader = leader
        self.client_session = session
        self.correlation_id = correlation_id
        self.fetch = Fetch(entry.session, is_full=False)
        self.request_bytes = size
        entry.session.waiter = self

    def moved(self, cached: CachedPartition, partition: Partition) -> None:
        """See `broker.replication.fetch_sessions.Waiter`."""
        entry = self._entry
        if not entry.must_respond(cached, partition):
            return
        is_alone = cached is entry.cached and len(entry.session.due) == 1  # no other partition has news
        frame = entry.reply_when_moved(self.correlation_id, self._leader, partition) if is_alone else None
        if frame is None:
            self.expire()
        else:
            self._end()
            self.complete(frame)

    def expire(self) -> None:
        """Respond with what is readable now."""
        if self.deadline is not None:
            self._end()
            self._entry.respond_by_handler(self)

    def abandon(self) -> None:
        self._end()
        super().abandon()

    def _end(self) -> None:
        """Wait for nothing more."""
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None
        if self._entry.session.waiter is self:
            self._entry.session.waiter = None


def learn_follower(owner: object, context: BrokerContext, request: FetchRequest, frame: memoryview) -> bool:
    """Remember a follower's request that the handler has served, if it is usual. True if it is new."""
    if (
        len(request.topics) != 1
        or len(request.topics[0].partitions) != 1
        or request.forgotten_topics_data
        or request.replica_state is None
        or request.replica_state.replica_id < 0
        or request.min_bytes > 1
        or context.server.charging is not None
        or context.services.replica_selector is not None
    ):
        return False
    session = context.services.fetch_sessions.by_id.get(request.session_id)
    topic = request.topics[0]
    cached = None if session is None else session.find(topic.topic_id, topic.partitions[0].partition)
    if session is None or cached is None:
        return False
    known: FollowerFetches | None = context.session.follower_fetches
    if known is None or not known.can_add(owner, session.id, len(frame)):
        layout = _layout(context, bytes(frame), request)
        if layout is None:
            return False
        known = context.session.follower_fetches = FollowerFetches(owner, session.id, layout)
    return known.add(frame, _Entry(context, request, session, cached))


def _layout(context: BrokerContext, frame: bytes, request: FetchRequest) -> tuple[int, int, int, int] | None:
    """The positions of the wait, the session epoch and the follower's position, and the size of the frame."""
    partition = request.topics[0].partitions[0]
    fields = (
        _INT.pack(request.max_wait_ms),
        _INT.pack(request.session_epoch),
        _POSITION.pack(partition.fetch_offset, partition.last_fetched_epoch, partition.log_start_offset),
    )
    values = (_INT.pack(_WAIT), _INT.pack(_EPOCH), _POSITION.pack(*_FOLLOWER_POSITION))
    body = parse_request_header(frame)[4]
    found = []
    for number, (field, value) in enumerate(zip(fields, values, strict=True)):
        at = frame.find(field, body)
        while at >= 0 and not _changes(context, frame[:at] + value + frame[at + len(value) :], body, request, number):
            at = frame.find(field, at + 1)
        if at < 0:
            return None
        found.append(at)
    wait_at, epoch_at, position_at = found
    return wait_at, epoch_at, position_at, len(frame)


def _changes(context: BrokerContext, frame: bytes, body: int, request: FetchRequest, number: int) -> bool:
    """True if the frame decodes to `request` with one other field: the wait, the epoch or the position, by number."""
    try:
        decoded, end = context.codec.decode(frame, body, len(frame))
    except WireError:
        return False
    if end != len(frame) or not decoded.topics or not decoded.topics[0].partitions:
        return False
    partition, own = decoded.topics[0].partitions[0], request.topics[0].partitions[0]
    position = (partition.fetch_offset, partition.last_fetched_epoch, partition.log_start_offset)
    if (decoded.max_wait_ms, decoded.session_epoch, position)[number] != (_WAIT, _EPOCH, _FOLLOWER_POSITION)[number]:
        return False
    decoded.max_wait_ms, decoded.session_epoch = request.max_wait_ms, request.session_epoch
    partition.fetch_offset, partition.last_fetched_epoch = own.fetch_offset, own.last_fetched_epoch
    partition.log_start_offset = own.log_start_offset
    return bool(repr(decoded) == repr(request))
