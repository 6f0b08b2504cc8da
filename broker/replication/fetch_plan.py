"""Builds a follower's fetch requests to one leader and interprets the responses. Pure: times come as arguments.

One request is in flight at a time, apart from a request that ends its session. Within a session (KIP-227) a request
only names what has changed: partitions with a new position, new partitions, and partitions to be left out for now or
for good. So the cost of a round grows with the changes, not with the number of partitions. The request that opens a
session is answered at once; later ones wait at the leader. If a new partition cannot wait that long, the session is
ended, so that the waiting request is answered.

A response for a partition only counts while the partition's position is the one in the request. If the logs diverge,
the leader says so in the response (KIP-595); the follower truncates its log and continues from there.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from math import ceil, inf
from typing import Final, TypeAlias

from broker.wire.api.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from broker.wire.errors import ErrorCode
from kraft import lazy_attrs
from metadata.configuration import BrokerConfigs
from metadata.configuration.settings import from_key

# Topic id and partition index.
PartitionKey: TypeAlias = tuple[bytes, int]

FETCH_VERSION: Final = 17
# The pause after a first error; each further one doubles it, up to replica.fetch.backoff.ms, with which Kafka begins.
# The usual reason is a new leader that has not applied the metadata yet, which takes milliseconds.
BACKOFF_MIN_MS: Final = 10
_BACKOFF_DOUBLINGS_MAX: Final = 20

_NO_SESSION: Final = 0
_INITIAL_EPOCH: Final = 0
_FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1
_SESSION_ERRORS: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


@lazy_attrs.frozen
class FetchSettings:
    """The limits of a follower's fetches, and its pause after an error. `replica_id` is the follower's node id."""

    replica_id: int
    max_wait_ms: int = from_key(BrokerConfigs.replica_fetch_wait_max_ms)
    min_bytes: int = from_key(BrokerConfigs.replica_fetch_min_bytes)
    max_bytes: int = from_key(BrokerConfigs.replica_fetch_response_max_bytes)
    partition_max_bytes: int = from_key(BrokerConfigs.replica_fetch_max_bytes)
    backoff_ms: float = from_key(BrokerConfigs.replica_fetch_backoff_ms)


@lazy_attrs.frozen
class Position:
    """The end of a follower's log and the leader epoch under which it fetches; `last_epoch` is its last record's."""

    leader_epoch: int
    offset: int
    last_epoch: int
    log_start_offset: int


@lazy_attrs.frozen
class Records:
    """Records to append, perhaps none, with the leader's high watermark and log start offset."""

    key: PartitionKey
    leader_epoch: int
    data: PartitionData


@lazy_attrs.frozen
class Diverging:
    """The logs diverge: `epoch`, the leader's last epoch not after the follower's, ends at `end_offset` there."""

    key: PartitionKey
    leader_epoch: int
    epoch: int
    end_offset: int


@lazy_attrs.frozen
class OutOfRange:
    """The follower's position is outside of the leader's log; the leader must be asked for its start and end."""

    key: PartitionKey
    leader_epoch: int


@lazy_attrs.frozen
class Refused:
    """The leader has refused the partition; the plan tries again if that can help."""

    key: PartitionKey
    leader_epoch: int
    code: ErrorCode


Outcome: TypeAlias = Records | Diverging | OutOfRange | Refused


class FetchPlan:
    """See the module's docstring. Times are in seconds of any monotonic clock.

    For each partition in a response the caller calls `set_position` with its new position; without a call a partition
    stays where it is.

    `lagging` are partitions whose follower lacks committed records, according to the last response. A follower of a new
    leader does not count at first, as it is most likely in sync.
    """

    def __init__(self, settings: FetchSettings) -> None:
        self._settings = settings
        self._positions: dict[PartitionKey, Position] = {}
        self._paused: dict[PartitionKey, float] = {}  # -> end of the pause
        self._pauses: list[tuple[float, PartitionKey]] = []  # a heap of pauses that end; some are outdated
        self._failures: dict[PartitionKey, int] = {}  # in a row
        self._committed: dict[PartitionKey, int] = {}  # the leader's high watermark in its last response
        self.lagging: dict[PartitionKey, None] = {}
        self._session_id = _NO_SESSION
        self._session_epoch = _INITIAL_EPOCH
        self._is_granted_sessions = True
        self._is_waiting = False  # the request in flight may wait at the leader
        self._is_ending = False
        self._is_urgent = False  # a partition must be fetched that the request in flight does not name
        # The positions in the session, or in the last request without one.
        self._sent: dict[PartitionKey, Position] = {}
        self._changed: dict[PartitionKey, None] = {}  # partitions whose position may differ from that

    def __len__(self) -> int:
        return len(self._positions)

    # Partitions

    def follow(self, key: PartitionKey, position: Position) -> None:
        """Fetch a partition from this position on, whatever its state was before."""
        self._positions[key] = position
        self._paused.pop(key, None)
        self._failures.pop(key, None)
        self._committed.pop(key, None)
        self.lagging.pop(key, None)
        self._changed[key] = None
        self._is_urgent = True

    def forget(self, key: PartitionKey) -> None:
        """Stop fetching a partition."""
        if self._positions.pop(key, None) is not None:
            self._paused.pop(key, None)
            self._failures.pop(key, None)
            self._committed.pop(key, None)
            self.lagging.pop(key, None)
            self._changed[key] = None

    def set_position(self, key: PartitionKey, position: Position) -> None:
        """Record a partition's position after a response was applied. Progress moves it to the end of the order."""
        if key in self._positions:
            self._failures.pop(key, None)
            if position != self._positions[key]:
                del self._positions[key]
                self._positions[key] = position
                self._changed[key] = None
            if position.offset < self._committed.get(key, -1):
                self.lagging[key] = None
            else:
                self.lagging.pop(key, None)

    def back_off(self, key: PartitionKey, now: float) -> None:
        """Leave a partition out for a while, which doubles with each failure in a row."""
        if key in self._positions:
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
            pause_ms = BACKOFF_MIN_MS * 2 ** min(failures, _BACKOFF_DOUBLINGS_MAX)
            self._pause(key, now + min(pause_ms, self._settings.backoff_ms) / 1000)

    def delay(self, key: PartitionKey, until: float) -> None:
        """Leave a partition out until then, without an error; does nothing if it is left out already."""
        if key in self._positions and key not in self._paused:
            self._pause(key, until)

    def _pause(self, key: PartitionKey, until: float) -> None:
        self._paused[key] = until
        self._changed[key] = None
        if until < inf:
            heappush(self._pauses, (until, key))

    # Requests

    def ready_at(self) -> float:
        """The time of the next request: -inf for now, inf if something must change first."""
        return -inf if len(self._paused) < len(self._positions) else self._next_pause_end()

    def request(self, broker_epoch: int, now: float) -> FetchRequest | None:
        """The next request; None if there is nothing to fetch now. `broker_epoch` is the follower's own."""
        self._end_pauses(now)
        if len(self._paused) == len(self._positions):
            return None
        is_full = self._session_epoch == _INITIAL_EPOCH
        named, forgotten = self._full() if is_full else self._incremental()
        self._changed.clear()
        self._is_urgent = self._is_ending = False
        self._is_waiting = not (is_full and self._is_granted_sessions)
        settings = self._settings
        return FetchRequest(
            replica_state=ReplicaState(replica_id=settings.replica_id, replica_epoch=broker_epoch),
            max_wait_ms=self._max_wait_ms(now) if self._is_waiting else 0,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=self._topics(named),
            forgotten_topics_data=_forgotten(forgotten),
        )

    def single_request(self) -> tuple[int, int, PartitionKey, Position] | None:
        """The next request, if it continues the session and names one partition; otherwise `request` makes it.

        Returns the session's id and epoch, the partition and its position.
        """
        if len(self._changed) != 1 or self._paused or self._session_epoch == _INITIAL_EPOCH:
            return None
        (key,) = self._changed
        position, sent = self._positions.get(key), self._sent.get(key)
        if position is None or sent is None or position == sent:
            return None
        self._sent[key] = position
        self._changed.clear()
        self._is_urgent = self._is_ending = False
        self._is_waiting = True
        return self._session_id, self._session_epoch, key, position

    @property
    def is_urgent(self) -> bool:
        """Whether the request in flight waits at the leader and does not name a partition that must be fetched."""
        return self._is_urgent and self._is_waiting and not self._is_ending and self._session_id != _NO_SESSION

    def session_end(self, broker_epoch: int) -> FetchRequest:
        """A request that ends the session, so that the request in flight is answered; its own response is empty."""
        assert self.is_urgent, "only an urgent fetch ends its session"
        self._is_ending = True
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self._settings.replica_id, replica_epoch=broker_epoch),
            session_id=self._session_id,
            session_epoch=_FINAL_EPOCH,
        )

    def _max_wait_ms(self, now: float) -> int:
        """The time for which a request may wait at the leader: not longer than until a paused partition is due.

        A leader that has just been elected refuses its followers until it knows of its election. It needs their next
        fetch in order to commit, and would otherwise wait for it as long as other partitions have no records.
        """
        return ceil(min(self._settings.max_wait_ms, (self._next_pause_end() - now) * 1000))

    def _next_pause_end(self) -> float:
        while self._pauses and self._paused.get(self._pauses[0][1]) != self._pauses[0][0]:
            heappop(self._pauses)
        return self._pauses[0][0] if self._pauses else inf

    def _end_pauses(self, now: float) -> None:
        while self._pauses and self._pauses[0][0] <= now:
            until, key = heappop(self._pauses)
            if self._paused.get(key) == until:
                del self._paused[key]
                self._changed[key] = None

    def _full(self) -> tuple[list[PartitionKey], list[PartitionKey]]:
        self._sent = {key: position for key, position in self._positions.items() if key not in self._paused}
        return list(self._sent), []

    def _incremental(self) -> tuple[list[PartitionKey], list[PartitionKey]]:
        named, forgotten = [], []
        for key in self._changed:
            position = None if key in self._paused else self._positions.get(key)
            if position is None:
                if self._sent.pop(key, None) is not None:
                    forgotten.append(key)
            elif position != self._sent.get(key):
                self._sent[key] = position
                named.append(key)
        return named, forgotten

    def _topics(self, keys: Iterable[PartitionKey]) -> list[FetchTopic]:
        topics: dict[bytes, FetchTopic] = {}
        for key in keys:
            position = self._sent[key]
            topic = topics.setdefault(key[0], FetchTopic(topic_id=key[0]))
            topic.partitions.append(named_partition(key, position, self._settings))
        return list(topics.values())

    # Responses

    def request_lost(self) -> None:
        """Record that the last request will not be answered; it is unknown whether the leader has received it."""
        self._session_epoch = _INITIAL_EPOCH
        self._is_waiting = False

    def handle_response(self, response: FetchResponse, now: float) -> list[Outcome]:
        """The outcomes of a response, for each partition whose position is still the one in the request."""
        self._is_waiting = False
        code = _code(response.error_code)
        if code is not ErrorCode.NONE:
            self._session_epoch = _INITIAL_EPOCH
            if code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._session_id = _NO_SESSION
            elif code not in _SESSION_ERRORS:
                for key in self._sent:
                    self.back_off(key, now)
            return []
        self._continue_session(response.session_id)
        return list(self._outcomes(response, now))

    def handle_single(self, session_id: int, key: PartitionKey, data: PartitionData, now: float) -> list[Outcome]:
        """As `handle_response`, for a response without an error that has one partition."""
        self._is_waiting = False
        self._continue_session(session_id)
        outcome = self._outcome(key, data, now)
        return [] if outcome is None else [outcome]

    def _continue_session(self, session_id: int) -> None:
        self._is_granted_sessions = session_id != _NO_SESSION
        if session_id == _NO_SESSION or self._is_ending:  # the leader has no free session, or has ended this one
            self._session_id, self._session_epoch = _NO_SESSION, _INITIAL_EPOCH
        elif session_id != self._session_id or self._session_epoch == _EPOCH_MAX:
            self._session_id, self._session_epoch = session_id, _INITIAL_EPOCH + 1
        else:
            self._session_epoch += 1

    def _outcomes(self, response: FetchResponse, now: float) -> Iterator[Outcome]:
        for topic in response.responses:
            for data in topic.partitions:
                outcome = self._outcome((topic.topic_id, data.partition_index), data, now)
                if outcome is not None:
                    yield outcome

    def _outcome(self, key: PartitionKey, data: PartitionData, now: float) -> Outcome | None:
        """None for a partition whose position is no longer the one in the request."""
        position = self._positions.get(key)
        if position is None or position != self._sent.get(key) or key in self._paused:
            return None
        code = _code(data.error_code)
        if code is ErrorCode.NONE:
            if data.diverging_epoch is None or data.diverging_epoch.end_offset < 0:
                self._committed[key] = data.high_watermark
                return Records(key, position.leader_epoch, data)
            diverging = data.diverging_epoch
            return Diverging(key, position.leader_epoch, diverging.epoch, diverging.end_offset)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            return OutOfRange(key, position.leader_epoch)
        if code is ErrorCode.FENCED_LEADER_EPOCH:
            self._pause(key, inf)  # until the metadata has the leader epoch that the leader knows already
        else:
            self.back_off(key, now)
        return Refused(key, position.leader_epoch, code)


def named_partition(key: PartitionKey, position: Position, settings: FetchSettings) -> FetchPartition:
    """The element of a request for a partition."""
    return FetchPartition(
        partition=key[1],
        current_leader_epoch=position.leader_epoch,
        fetch_offset=position.offset,
        last_fetched_epoch=position.last_epoch,
        log_start_offset=position.log_start_offset,
        partition_max_bytes=settings.partition_max_bytes,
    )


def _forgotten(keys: Iterable[PartitionKey]) -> list[ForgottenTopic]:
    topics: dict[bytes, ForgottenTopic] = {}
    for topic_id, index in keys:
        topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id)).partitions.append(index)
    return list(topics.values())


def _code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:  # an error code of a newer leader
        return ErrorCode.UNKNOWN_SERVER_ERROR
