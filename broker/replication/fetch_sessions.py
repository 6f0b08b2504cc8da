"""Fetch sessions: a client names its partitions once and afterwards only what changed (KIP-227).

The broker keeps a session under a random id. Each request carries an epoch that is one higher than the last one's, so
that a lost or repeated request is noticed. Sessions belong to no connection, and are evicted when slots run out.

The cost of a request grows with what has changed, not with the size of the session. A session only reads cached
partitions that are *due*: those that the request names, and those whose partition has changed since the last read. A
cached partition without news is *idle*: it waits at its partition and becomes due when that changes. A cached
partition whose records were sent goes to the back, so that a busy partition cannot starve others.
"""

import random
from collections.abc import Generator, Iterable, Mapping, Sequence
from itertools import count, islice
from operator import attrgetter
from typing import Final, Protocol, TypeAlias

from broker.replication.cached_partition import CachedPartition, FetchedPartition
from broker.replication.commit_state import READ_UNCOMMITTED
from broker.replication.leader_role import LeaderRole
from broker.replication.partition import Partition
from broker.wire.errors import ErrorCode, KafkaError

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1
# The epoch of a closed session; no request carries it.
_CLOSED: Final = -2
# Sessions of more cached partitions than this are closed in steps of this size.
CLOSED_AT_ONCE: Final = 256
# A session used this recently is not evicted for a new one (KIP-227, min.incremental.fetch.session.eviction.ms).
EVICTION_MIN_MS: Final = 120_000
# This many cached partitions can usually fill a response.
RELEASED_MAX: Final = 32

_turn: Final = attrgetter("turn")

CachedPartitionKey: TypeAlias = tuple[str | bytes, int]
# A broker's id and epoch.
BrokerIncarnation: TypeAlias = tuple[int, int]


class Waiter(Protocol):
    """The request of the session that waits for news."""

    def moved(self, cached: CachedPartition, partition: Partition) -> None:
        """Called when `partition` has changed. `cached` is due, and does not wait at it any more."""
        ...

    def expire(self) -> None:
        """Respond with what is known now; no further call follows."""
        ...


class FetchSession:
    """The partitions that a client fetches. `due` are the cached partitions to read, in the order of their turns.

    `follower` is the fetching broker, or None for a consumer. For every idle cached partition the follower was
    caught up at its last request, at `last_used_ms`. That progress is recorded when the cached partition becomes due,
    not at each request.

    `held` are cached partitions with news that a throttle holds back.

    `access_generation` is the state of ACLs under which the cached partitions were last read, `isolation_level` that of
    the session's last request.
    """

    __slots__ = (
        "_cached_partitions",
        "_turns",
        "access_generation",
        "by_topic_id",
        "created_ms",
        "due",
        "epoch",
        "follower",
        "held",
        "id",
        "isolation_level",
        "last_used_ms",
        "waiter",
    )

    def __init__(
        self,
        session_id: int,
        cached_partitions: Iterable[CachedPartition],
        *,
        by_topic_id: bool,
        follower: BrokerIncarnation | None,
        now_ms: float,
    ) -> None:
        self.id = session_id
        self.epoch = INITIAL_EPOCH + 1
        self._cached_partitions: dict[CachedPartitionKey, CachedPartition] = {}
        self._turns = count()
        self.due: dict[CachedPartition, None] = {}
        self.held: dict[CachedPartition, None] = {}
        self.waiter: Waiter | None = None
        self.access_generation = 0
        self.isolation_level = READ_UNCOMMITTED
        self.by_topic_id = by_topic_id
        self.follower = follower
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.update(cached_partitions, ())

    def __len__(self) -> int:
        return len(self._cached_partitions)

    def update(self, named: Iterable[CachedPartition], forgotten: Iterable[CachedPartitionKey]) -> None:
        """Add, change and remove cached partitions as a request says."""
        for cached in named:
            known = self._cached_partitions.get((cached.topic, cached.index))
            if known is None:
                self._cached_partitions[cached.topic, cached.index] = known = cached
                cached.listener = self
                cached.turn = next(self._turns)
            else:
                known.update_from_request(cached)
                self.held.pop(known, None)
            self.due[known] = None
        for key in forgotten:
            gone = self._cached_partitions.pop(key, None)
            if gone is not None:
                self.due.pop(gone, None)
                self.held.pop(gone, None)
                gone.leave()

    def find(self, topic: str | bytes, index: int) -> CachedPartition | None:
        """The cached partition with this topic name or id; None if the session does not contain it."""
        return self._cached_partitions.get((topic, index))

    def advance_epoch(self) -> None:
        """The session's next request has come."""
        self.epoch = self.epoch + 1 if self.epoch < _EPOCH_MAX else INITIAL_EPOCH + 1

    def begin_request(self, follower: BrokerIncarnation | None, now_ms: float) -> None:
        """Start another request. A new incarnation of the follower reports the state of every partition again."""
        if follower != self.follower:
            self.make_all_due()
            self.follower = follower
        self.last_used_ms = now_ms
        waiter, self.waiter = self.waiter, None
        if waiter is not None:
            waiter.expire()

    def make_all_due(self) -> None:
        """Have the next request read every cached partition."""
        self.held.clear()
        for cached in self._cached_partitions.values():
            self.due[cached] = None

    def mark_idle(self, cached: CachedPartition) -> None:
        """Take a cached partition without news out of `due`; it waits at its partition."""
        self.due.pop(cached, None)

    def hold(self, cached: CachedPartition) -> None:
        """Take a cached partition with news out of `due`, as a throttle holds it back."""
        if cached in self.due:
            del self.due[cached]
            self.held[cached] = None

    def release(self) -> None:
        """Make some held cached partitions due again; they keep their turns.

        Only some of them: a few may use up what the throttle lets through, and reading the others would be in vain.
        """
        for cached in list(islice(self.held, RELEASED_MAX)):
            del self.held[cached]
            self.due[cached] = None

    def moved(self, cached: CachedPartition, partition: Partition) -> None:
        """Make the cached partition due, as its partition has changed, and notify the waiting request."""
        if cached in self.held:
            del self.held[cached]
            self.due[cached] = None
        elif cached not in self.due:
            self.due[cached] = None
            role, leader_epoch = partition.role, cached.current_leader_epoch
            if self.follower is not None and leader_epoch == partition.leader_epoch and isinstance(role, LeaderRole):
                role.record_caught_up(*self.follower, cached.fetch_offset, self.last_used_ms)
        if self.waiter is not None:
            self.waiter.moved(cached, partition)

    def move_to_back(self, cached: CachedPartition) -> None:
        """Have a cached partition that was served read after all others, even after those that have no news now."""
        cached.turn = next(self._turns)

    def end(self) -> None:
        """End the session: the waiting request is answered. The caller must call `stop_waiting` then."""
        waiter, self.waiter = self.waiter, None
        if waiter is not None:
            waiter.expire()
        self.epoch = _CLOSED

    def stop_waiting(self) -> Generator[None, None, None]:
        """Stop waiting at all partitions; yields after some of them."""
        while self._cached_partitions:
            _, cached = self._cached_partitions.popitem()
            self.due.pop(cached, None)
            self.held.pop(cached, None)
            cached.leave()
            if self._cached_partitions and not len(self._cached_partitions) % CLOSED_AT_ONCE:
                yield


class Fetch:
    """One fetch request: which cached partitions to read, and which results its response contains.

    A *full* request is one outside of a session, or one that opens a session (`session_id`); its response contains all
    its partitions. The response to any other request only contains partitions with news.
    """

    __slots__ = ("_epoch", "is_full", "session")

    def __init__(self, session: FetchSession, *, is_full: bool) -> None:
        self.session = session
        self.is_full = is_full
        self._epoch = session.epoch

    @property
    def session_id(self) -> int:
        return self.session.id

    @property
    def cached_partitions(self) -> Sequence[CachedPartition]:
        """The cached partitions to read, in the order of their turns."""
        return sorted(self.session.due, key=_turn)

    def select(self, fetched: Iterable[FetchedPartition]) -> list[FetchedPartition]:
        """The results that the response contains; they count as known to the client from now on.

        Raises INVALID_FETCH_SESSION_EPOCH if a later request of the session overtook this one.
        """
        if self.is_full:
            for partition in fetched:
                partition.mark_sent()
            return list(fetched)
        self.check_is_current()
        news = [partition for partition in fetched if partition.mark_sent()]
        for partition in news:
            if partition.records:
                self.session.move_to_back(partition.cached)
        return news

    @property
    def is_current(self) -> bool:
        """False after a later request of the session has come, or the session was ended."""
        return self.session.epoch == self._epoch

    def check_is_current(self) -> None:
        """Raise INVALID_FETCH_SESSION_EPOCH unless `is_current`."""
        if not self.is_current:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, "a later request of the session was handled first")

    def end(self) -> Generator[None, None, None]:
        """End a request that was answered or whose connection was closed; yields after some cached partitions.

        A request without a session stops waiting.
        """
        if self.session.id == NO_SESSION:
            self.session.waiter = None
            yield from self.session.stop_waiting()


class FetchSessions:
    """The sessions of a broker, at most `slots` (`max.incremental.fetch.session.cache.slots`).

    `ended` are ended sessions on which `stop_waiting` must still be called.
    """

    def __init__(self, slots: int, rng: random.Random) -> None:
        self._slots = slots
        self._rng = rng
        self._sessions: dict[int, FetchSession] = {}  # least recently used first
        self.ended: list[FetchSession] = []

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def by_id(self) -> Mapping[int, FetchSession]:
        return self._sessions

    def begin(
        self,
        session_id: int,
        epoch: int,
        named: Sequence[CachedPartition],
        forgotten: Sequence[CachedPartitionKey],
        *,
        by_topic_id: bool,
        now_ms: float,
        follower: BrokerIncarnation | None = None,
        named_count: int = 0,
    ) -> Fetch:
        """Begin a request with this session id and epoch. `now_ms` is the time of a monotonic clock.

        If `named` are only the first of more cached partitions, `named_count` is the number of all.

        Raises KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, and FETCH_SESSION_TOPIC_ID_ERROR
        if the client switched between topic names and topic ids within the session.
        """
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._remove(session_id)
            opened = NO_SESSION
            if epoch == INITIAL_EPOCH:
                opened = self._free_id(named_count or len(named), now_ms)
            session = FetchSession(opened, named, by_topic_id=by_topic_id, follower=follower, now_ms=now_ms)
            if opened != NO_SESSION:
                self._sessions[opened] = session
            return Fetch(session, is_full=True)
        known = self._sessions.get(session_id)
        if known is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no fetch session {session_id}")
        if known.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, f"expected epoch {known.epoch}, got {epoch}")
        if known.by_topic_id != by_topic_id:
            raise KafkaError(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "the session and the request do not both name topics by id"
            )
        return self._continue(known, named, forgotten, follower, now_ms)

    def _continue(
        self,
        session: FetchSession,
        named: Sequence[CachedPartition],
        forgotten: Iterable[CachedPartitionKey],
        follower: BrokerIncarnation | None,
        now_ms: float,
    ) -> Fetch:
        session.advance_epoch()
        session.begin_request(follower, now_ms)
        session.update(named, forgotten)
        if len(session):
            self._sessions[session.id] = self._sessions.pop(session.id)
            return Fetch(session, is_full=False)
        # Kafka ends the session, too, and then carries out what remains of the request outside of one.
        self._remove(session.id)
        rest = FetchSession(NO_SESSION, named, by_topic_id=session.by_topic_id, follower=follower, now_ms=now_ms)
        return Fetch(rest, is_full=True)

    def begin_for_one(self, session: FetchSession, cached: CachedPartition, now_ms: float) -> None:
        """As `begin`, for a request of the session's epoch that names one of its cached partitions, which is read.

        No other request of the session waits, and the request is of the same incarnation of the follower.
        """
        session.advance_epoch()
        session.last_used_ms = now_ms
        session.due[cached] = None
        self._sessions[session.id] = self._sessions.pop(session.id)

    def close(self, fetch: Fetch) -> None:
        """End the session of a request whose response will not reach the client."""
        self._remove(fetch.session_id)

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.end()
            self.ended.append(session)

    def _free_id(self, size: int, now_ms: float) -> int:
        """An id for a new session, or NO_SESSION if all slots are in use; the client then sends full requests only."""
        if len(self._sessions) >= self._slots and not self._evict_for(size, now_ms):
            return NO_SESSION
        while (session_id := self._rng.randrange(1, 2**31)) in self._sessions:
            pass
        return session_id

    def _evict_for(self, size: int, now_ms: float) -> bool:
        """Evict a session that was unused for too long, or an established one that is not larger (KIP-227)."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms > EVICTION_MIN_MS:
            self._remove(oldest.id)
            return True
        established = (session for session in self._sessions.values() if now_ms - session.created_ms > EVICTION_MIN_MS)
        smallest = min(established, key=len, default=None)
        if smallest is None or len(smallest) > size:
            return False
        self._remove(smallest.id)
        return True
