"""Fetch sessions: a client names its partitions once and afterwards only what changed (KIP-227).

A session lives at the broker, under a random id; each request carries the epoch that follows the last one's, so a
lost or repeated request is noticed. Sessions belong to no connection and are evicted when slots run out.

A request costs what has changed, and not what there is. Of its targets a session looks only at those that are *due*:
named anew, or of partitions that may have more to tell than they did. One that has nothing to tell is *settled*: it
waits at its partition, and is due again when that moves. Those that have something to tell take turns, so that a busy
partition cannot starve others: whoever is served goes to the back.
"""

import random
from collections.abc import Generator, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol, TypeAlias

from broker.replication.fetch_targets import FetchedPartition, FetchTarget
from broker.replication.leading import note_caught_up
from broker.replication.partition import Partition
from broker.wire.errors import ErrorCode, KafkaError

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1
# Of a session that was closed; no request has it.
_CLOSED: Final = -2
# Sessions of more targets than this are closed in steps, of so many targets each.
CLOSED_AT_ONCE: Final = 256
# A session used this recently is not evicted for a new one (KIP-227, min.incremental.fetch.session.eviction.ms).
EVICTION_MIN_MS: Final = 120_000
# As many as may well fill a response between them.
RELEASED_MAX: Final = 32

TargetKey: TypeAlias = tuple[str | bytes, int]
# A broker's id and epoch.
BrokerIncarnation: TypeAlias = tuple[int, int]


class Waiter(Protocol):
    """The session's request that waits for more."""

    def moved(self, target: FetchTarget, partition: Partition) -> None:
        """The target's partition has moved, and has forgotten the target. It is due."""
        ...

    def expire(self) -> None:
        """Answer with what there is: nothing more will be heard of."""
        ...


class FetchSession:
    """What a client fetches. `due` are the targets to look at, in turn.

    `follower` is the broker that asks, or None. It has what it had at its last request, at `last_used_ms`, of every
    settled target, and that was all there was: its progress is noted when the target is due again, not at each request.

    `held` are targets that have something to tell, and are kept from it by a throttle.

    `access_generation` is the state of ACLs under which the targets were last looked at.
    """

    __slots__ = (
        "_targets",
        "access_generation",
        "by_topic_id",
        "created_ms",
        "due",
        "epoch",
        "follower",
        "held",
        "id",
        "last_used_ms",
        "waiter",
    )

    def __init__(
        self,
        session_id: int,
        targets: Iterable[FetchTarget],
        *,
        by_topic_id: bool,
        follower: BrokerIncarnation | None,
        now_ms: float,
    ) -> None:
        self.id = session_id
        self.epoch = INITIAL_EPOCH + 1
        self._targets: dict[TargetKey, FetchTarget] = {}
        self.due: dict[FetchTarget, None] = {}
        self.held: dict[FetchTarget, None] = {}
        self.waiter: Waiter | None = None
        self.access_generation = 0
        self.by_topic_id = by_topic_id
        self.follower = follower
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.update(targets, ())

    def __len__(self) -> int:
        return len(self._targets)

    def update(self, named: Iterable[FetchTarget], forgotten: Iterable[TargetKey]) -> None:
        """Take over what a request changes."""
        for target in named:
            known = self._targets.get((target.topic, target.index))
            if known is None:
                self._targets[target.topic, target.index] = known = target
                target.listener = self
            else:
                known.take_over(target)
                self.held.pop(known, None)
            self.due[known] = None
        for key in forgotten:
            gone = self._targets.pop(key, None)
            if gone is not None:
                self.due.pop(gone, None)
                self.held.pop(gone, None)
                gone.leave()

    def asked(self, follower: BrokerIncarnation | None, now_ms: float) -> None:
        """Another request has come. One of another life of the broker says anew what it has of everything."""
        if follower != self.follower:
            self.look_at_all()
            self.follower = follower
        self.last_used_ms = now_ms
        waiter, self.waiter = self.waiter, None
        if waiter is not None:
            waiter.expire()

    def look_at_all(self) -> None:
        """Have every target looked at by the next request."""
        self.held.clear()
        for target in self._targets.values():
            self.due[target] = None

    def settle(self, target: FetchTarget) -> None:
        """The target has nothing to tell, and waits at its partition."""
        self.due.pop(target, None)

    def hold(self, target: FetchTarget) -> None:
        """What the target has to tell, it may not tell now."""
        if target in self.due:
            del self.due[target]
            self.held[target] = None

    def release(self) -> None:
        """Some of those that were held back are due, before all others: their turn had come.

        Not all, since a few may take all that is let through, and the others would be looked at for nothing.
        """
        released = list(islice(self.held, RELEASED_MAX))
        for target in released:
            del self.held[target]
        self.due = {**dict.fromkeys(released), **self.due}

    def moved(self, target: FetchTarget, partition: Partition) -> None:
        """The target's partition has moved."""
        if target in self.held:
            del self.held[target]
            self.due[target] = None
        elif target not in self.due:
            self.due[target] = None
            if self.follower is not None and target.current_leader_epoch == partition.leader_epoch:
                note_caught_up(partition, *self.follower, target.fetch_offset, self.last_used_ms)
        if self.waiter is not None:
            self.waiter.moved(target, partition)

    def served(self, target: FetchTarget) -> None:
        """The target's turn is over."""
        if target in self.due:
            del self.due[target]
            self.due[target] = None

    def end(self) -> None:
        """Answer the request that waits. No other one follows, and `leave` is to be called."""
        waiter, self.waiter = self.waiter, None
        if waiter is not None:
            waiter.expire()
        self.epoch = _CLOSED

    def leave_at_once(self) -> None:
        """As `leave`, for few targets."""
        for target in self._targets.values():
            target.leave()

    def leave(self) -> Generator[None, None, None]:
        """Wait at no partition any more; yields after some of them."""
        while self._targets:
            _, target = self._targets.popitem()
            self.due.pop(target, None)
            self.held.pop(target, None)
            target.leave()
            if not len(self._targets) % CLOSED_AT_ONCE:
                yield

    def close(self) -> None:
        """End a session of few targets."""
        self.end()
        self.leave_at_once()


class Fetch:
    """One request: what to look at for it, and what of that to tell.

    A request is *full* if it names all its partitions, and is told of all of them, within no session or opening one
    (`session_id` then names it). Otherwise it is told of those of which there is something new to say.
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
    def targets(self) -> Sequence[FetchTarget]:
        """What to look at, in turn."""
        return list(self.session.due)

    def select(self, fetched: Iterable[FetchedPartition]) -> list[FetchedPartition]:
        """Which of the results the response has to carry, remembering them as told.

        Raises INVALID_FETCH_SESSION_EPOCH if a later request of the session overtook this one.
        """
        if self.is_full:
            for partition in fetched:
                partition.is_news()
            return list(fetched)
        self.check_is_current()
        news = [partition for partition in fetched if partition.is_news()]
        for partition in news:
            if partition.records:
                self.session.served(partition.target)
        return news

    @property
    def is_current(self) -> bool:
        """False after a later request of the session has come, or the session was ended."""
        return self.session.epoch == self._epoch

    def check_is_current(self) -> None:
        """Raises INVALID_FETCH_SESSION_EPOCH where it is not."""
        if not self.is_current:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, "a later request of the session was handled first")

    def end(self) -> None:
        """The request is answered, or its connection is closed. Its targets leave if they belong to no session."""
        if self.session.id == NO_SESSION:
            self.session.waiter = None
            self.session.leave_at_once()

    def end_in_steps(self) -> Generator[None, None, None]:
        """As `end`, for many targets."""
        if self.session.id == NO_SESSION:
            self.session.waiter = None
            yield from self.session.leave()


class FetchSessions:
    """The sessions of a broker, at most `slots` (`max.incremental.fetch.session.cache.slots`).

    `ended` are sessions of many targets, which have yet to `leave` their partitions.
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
        named: Sequence[FetchTarget],
        forgotten: Sequence[TargetKey],
        *,
        by_topic_id: bool,
        now_ms: float,
        follower: BrokerIncarnation | None = None,
        named_count: int = 0,
    ) -> Fetch:
        """What a request with this session id and epoch fetches. `now_ms` is of a clock that does not go back.

        Where `named` are only the first of more targets, `named_count` is the number of all.

        Raises KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, and FETCH_SESSION_TOPIC_ID_ERROR
        where the client changed between topic names and ids in mid-session.
        """
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._remove(session_id)
            opened = NO_SESSION
            if epoch == INITIAL_EPOCH and named:
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
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "the session was opened the other way")
        return self._go_on(known, named, forgotten, follower, now_ms)

    def _go_on(
        self,
        session: FetchSession,
        named: Iterable[FetchTarget],
        forgotten: Iterable[TargetKey],
        follower: BrokerIncarnation | None,
        now_ms: float,
    ) -> Fetch:
        session.epoch = session.epoch + 1 if session.epoch < _EPOCH_MAX else INITIAL_EPOCH + 1
        session.asked(follower, now_ms)
        session.update(named, forgotten)
        if len(session):
            self._sessions[session.id] = self._sessions.pop(session.id)
            return Fetch(session, is_full=False)
        self._remove(session.id)  # nothing left to fetch: Kafka ends the session too
        nothing = FetchSession(NO_SESSION, (), by_topic_id=session.by_topic_id, follower=follower, now_ms=now_ms)
        return Fetch(nothing, is_full=True)

    def close(self, fetch: Fetch) -> None:
        """End the session of a request, of which its client will not hear."""
        self._remove(fetch.session_id)

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        if len(session) > CLOSED_AT_ONCE:
            session.end()
            self.ended.append(session)
        else:
            session.close()

    def _free_id(self, size: int, now_ms: float) -> int:
        """A new session's id, or NO_SESSION when there is no room; the client then simply names all every time."""
        if len(self._sessions) >= self._slots and not self._evict_for(size, now_ms):
            return NO_SESSION
        while (session_id := self._rng.randrange(1, 2**31)) in self._sessions:
            pass
        return session_id

    def _evict_for(self, size: int, now_ms: float) -> bool:
        """Make room by the session unused for too long, or an established one that is no larger (KIP-227)."""
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
