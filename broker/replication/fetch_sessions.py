"""Fetch sessions: a client names its partitions once and afterwards only what changed (KIP-227).

A session lives at the broker, under a random id; each request carries the epoch that follows the last one's, so a
lost or repeated request is noticed. Sessions belong to no connection and are evicted when slots run out.
"""

import random
from collections.abc import Iterable, Sequence, Sized
from typing import Final, TypeAlias

from broker.replication.leading import DivergingEpoch
from broker.wire.errors import ErrorCode, KafkaError

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1
# A session used this recently is not evicted for a new one (KIP-227, min.incremental.fetch.session.eviction.ms).
EVICTION_MIN_MS: Final = 120_000


class FetchTarget:
    """One partition of a fetch request, and what the session last told the client about it.

    `topic` is a name, or a topic id of 16 bytes, as the request's version has it.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic",
    )

    def __init__(
        self,
        topic: str | bytes,
        index: int,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int,
        last_fetched_epoch: int,
        log_start_offset: int = -1,
    ) -> None:
        self.topic = topic
        self.index = index
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1


class FetchedPartition:
    """What one partition answers. `records` is opaque here; only whether it is empty matters.

    `diverging` is where the log parts from the client's, and `read_replica` is the broker to read from instead; both
    come instead of records.
    """

    __slots__ = (
        "diverging",
        "error",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "read_replica",
        "records",
        "target",
    )

    def __init__(
        self,
        target: FetchTarget,
        error: ErrorCode = ErrorCode.NONE,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        records: Sized | None = None,
        diverging: DivergingEpoch | None = None,
        read_replica: int | None = None,
    ) -> None:
        self.target = target
        self.error = error
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records = records
        self.diverging = diverging
        self.read_replica = read_replica


class FullFetch:
    """A request that names all its partitions, within no session or opening one (`session_id` then names it)."""

    def __init__(self, targets: list[FetchTarget], session_id: int) -> None:
        self.targets: Sequence[FetchTarget] = targets
        self.session_id = session_id

    def select(self, fetched: list[FetchedPartition]) -> list[FetchedPartition]:
        """Which of the results the response has to carry, remembering them as told: here, all."""
        for partition in fetched:
            _changed(partition)
        return fetched


class IncrementalFetch:
    """A request within a session: it is answered with the partitions whose answer says something new."""

    def __init__(self, session: "FetchSession") -> None:
        self._session = session
        self._epoch = session.epoch
        self.targets: Sequence[FetchTarget] = list(session.targets.values())
        self.session_id = session.id

    def select(self, fetched: list[FetchedPartition]) -> list[FetchedPartition]:
        """As for `FullFetch`. Raises INVALID_FETCH_SESSION_EPOCH if a later request overtook this one."""
        if self._session.epoch != self._epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, "a later request of the session was handled first")
        changed = [partition for partition in fetched if _changed(partition)]
        for partition in changed:
            if partition.records:
                # To the back of the queue, so that a busy partition cannot starve those behind it (KIP-227).
                key = (partition.target.topic, partition.target.index)
                if self._session.targets.get(key) is partition.target:
                    self._session.targets[key] = self._session.targets.pop(key)
        return changed


Fetch: TypeAlias = FullFetch | IncrementalFetch
TargetKey: TypeAlias = tuple[str | bytes, int]


class FetchSession:
    __slots__ = ("by_topic_id", "created_ms", "epoch", "id", "last_used_ms", "targets")

    def __init__(self, session_id: int, targets: Iterable[FetchTarget], by_topic_id: bool, now_ms: int) -> None:
        self.id = session_id
        self.epoch = INITIAL_EPOCH + 1
        self.targets: dict[TargetKey, FetchTarget] = {(target.topic, target.index): target for target in targets}
        self.by_topic_id = by_topic_id
        self.created_ms = now_ms
        self.last_used_ms = now_ms

    def update(self, named: Iterable[FetchTarget], forgotten: Iterable[TargetKey]) -> None:
        """Take over what an incremental request changes."""
        for target in named:
            known = self.targets.get((target.topic, target.index))
            if known is None:
                self.targets[target.topic, target.index] = target
            else:
                known.fetch_offset = target.fetch_offset
                known.max_bytes = target.max_bytes
                known.current_leader_epoch = target.current_leader_epoch
                known.last_fetched_epoch = target.last_fetched_epoch
                known.log_start_offset = target.log_start_offset
        for key in forgotten:
            self.targets.pop(key, None)


class FetchSessions:
    """The sessions of a broker, at most `slots` (`max.incremental.fetch.session.cache.slots`)."""

    def __init__(self, slots: int, rng: random.Random) -> None:
        self._slots = slots
        self._rng = rng
        self._sessions: dict[int, FetchSession] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self,
        session_id: int,
        epoch: int,
        named: list[FetchTarget],
        forgotten: list[TargetKey],
        *,
        by_topic_id: bool,
        now_ms: int,
    ) -> Fetch:
        """What a request with this session id and epoch fetches.

        Raises KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, and FETCH_SESSION_TOPIC_ID_ERROR
        where the client changed between topic names and ids in mid-session.
        """
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(session_id, None)
            opened = NO_SESSION
            if epoch == INITIAL_EPOCH and named:
                opened = self._open(named, by_topic_id, now_ms)
            return FullFetch(named, opened)
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no fetch session {session_id}")
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, f"expected epoch {session.epoch}, got {epoch}")
        if session.by_topic_id != by_topic_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "the session was opened the other way")
        session.update(named, forgotten)
        session.epoch = session.epoch + 1 if session.epoch < _EPOCH_MAX else INITIAL_EPOCH + 1
        session.last_used_ms = now_ms
        if session.targets:
            self._sessions[session_id] = self._sessions.pop(session_id)
            return IncrementalFetch(session)
        del self._sessions[session_id]  # nothing left to fetch: Kafka ends the session too
        return FullFetch([], NO_SESSION)

    def _open(self, named: list[FetchTarget], by_topic_id: bool, now_ms: int) -> int:
        """A new session's id, or NO_SESSION when there is no room; the client then simply names all every time."""
        if len(self._sessions) >= self._slots and not self._evict_for(len(named), now_ms):
            return NO_SESSION
        while (session_id := self._rng.randrange(1, 2**31)) in self._sessions:
            pass
        self._sessions[session_id] = FetchSession(session_id, named, by_topic_id, now_ms)
        return session_id

    def _evict_for(self, size: int, now_ms: int) -> bool:
        """Make room by the session unused for too long, or an established one that is no larger (KIP-227)."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms > EVICTION_MIN_MS:
            del self._sessions[oldest.id]
            return True
        established = (session for session in self._sessions.values() if now_ms - session.created_ms > EVICTION_MIN_MS)
        smallest = min(established, key=lambda session: len(session.targets), default=None)
        if smallest is None or len(smallest.targets) > size:
            return False
        del self._sessions[smallest.id]
        return True


def _changed(fetched: FetchedPartition) -> bool:
    """Whether this says anything the client has not been told, and note that it is told now."""
    target = fetched.target
    changed = bool(fetched.records) or fetched.diverging is not None or fetched.read_replica is not None
    if fetched.high_watermark != target.sent_high_watermark:
        target.sent_high_watermark = fetched.high_watermark
        changed = True
    if fetched.log_start_offset != target.sent_log_start_offset:
        target.sent_log_start_offset = fetched.log_start_offset
        changed = True
    if fetched.error is not ErrorCode.NONE:
        target.sent_high_watermark = -1  # say so again when it has recovered
        changed = True
    return changed
