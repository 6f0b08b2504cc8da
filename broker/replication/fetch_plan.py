"""What a follower asks one leader for, and what the answers mean. Pure: times come as arguments.

One request is in flight at a time, apart from one that ends its session. Within a session (KIP-227) a request names
only what has changed: partitions whose position is another one, those that are new, and those that are to be left out
for now or for good. So a round costs what changes, and not what there is. A request that opens a session is answered at
once; those within it wait at the leader. Ending the session has the one that waits answered, where a partition that it
does not name cannot wait that long.

An answer for a partition counts only while the partition is where it was when it was asked for. Where the logs part,
the leader says so in its answer (KIP-595), and the follower cuts its log and goes on from there.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from math import inf
from typing import Final, TypeAlias

import attrs

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
from metadata.configuration import BrokerConfigs
from metadata.configuration.settings import from_key

# A partition, by its topic's id and its own.
PartitionKey: TypeAlias = tuple[bytes, int]

FETCH_VERSION: Final = 17
# The pause after a first error; each further one doubles it, up to replica.fetch.backoff.ms, with which Kafka begins.
# But the usual reason is a new leader that has yet to hear that it leads, which takes it milliseconds.
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


@attrs.frozen
class FetchSettings:
    """The limits of a follower's fetches, and its pause after an error. `replica_id` is the follower's node id."""

    replica_id: int
    max_wait_ms: int = from_key(BrokerConfigs.replica_fetch_wait_max_ms)
    min_bytes: int = from_key(BrokerConfigs.replica_fetch_min_bytes)
    max_bytes: int = from_key(BrokerConfigs.replica_fetch_response_max_bytes)
    partition_max_bytes: int = from_key(BrokerConfigs.replica_fetch_max_bytes)
    backoff_ms: float = from_key(BrokerConfigs.replica_fetch_backoff_ms)


@attrs.frozen
class Position:
    """Where a follower's log ends, and under which leader epoch it follows; `last_epoch` is that of its last record."""

    leader_epoch: int
    offset: int
    last_epoch: int
    log_start_offset: int


@attrs.frozen
class Records:
    """To be appended, if there are any; and what the leader has committed and deleted, to be followed."""

    key: PartitionKey
    leader_epoch: int
    data: PartitionData


@attrs.frozen
class Diverging:
    """The follower's log has to be cut: the leader's last epoch that is not after the follower's ends here."""

    key: PartitionKey
    leader_epoch: int
    epoch: int
    end_offset: int


@attrs.frozen
class OutOfRange:
    """The leader has nothing at the follower's position: it is to be asked where its log begins and ends."""

    key: PartitionKey
    leader_epoch: int


@attrs.frozen
class Refused:
    """The leader has refused; the plan tries again by itself, where that can help."""

    key: PartitionKey
    leader_epoch: int
    code: ErrorCode


Outcome: TypeAlias = Records | Diverging | OutOfRange | Refused


class FetchPlan:
    """See the module's docstring. Times are of any clock that does not go back, in seconds.

    Whoever carries it out tells by `moved` how each partition that an answer spoke of is from then on; one that
    is told nothing about stays where it is.

    `lagging` are partitions of which the follower lacks something that is committed, as far as answers have told: who
    has just begun to follow a new leader is most likely in sync.
    """

    def __init__(self, settings: FetchSettings) -> None:
        self._settings = settings
        self._positions: dict[PartitionKey, Position] = {}
        self._paused: dict[PartitionKey, float] = {}  # until when
        self._pauses: list[tuple[float, PartitionKey]] = []  # a heap of those that end, and of some that do not count
        self._failures: dict[PartitionKey, int] = {}  # in a row
        self._committed: dict[PartitionKey, int] = {}  # at the leader, as it said last
        self.lagging: dict[PartitionKey, None] = {}
        self._session_id = _NO_SESSION
        self._session_epoch = _INITIAL_EPOCH
        self._is_granted_sessions = True
        self._is_waiting = False  # for an answer, which may take its time
        self._is_ending = False
        self._is_urgent = False  # to name a partition of which the request in flight does not know
        self._told: dict[PartitionKey, Position] = {}  # what the session holds, or the last request without one
        self._untold: dict[PartitionKey, None] = {}  # what may differ from that

    def __len__(self) -> int:
        return len(self._positions)

    # Which partitions

    def follow(self, key: PartitionKey, position: Position) -> None:
        """Fetch a partition from here on, at once, whatever was before."""
        self._positions[key] = position
        self._paused.pop(key, None)
        self._failures.pop(key, None)
        self._committed.pop(key, None)
        self.lagging.pop(key, None)
        self._untold[key] = None
        self._is_urgent = True

    def forget(self, key: PartitionKey) -> None:
        """Do not fetch it any more."""
        if self._positions.pop(key, None) is not None:
            self._paused.pop(key, None)
            self._failures.pop(key, None)
            self._committed.pop(key, None)
            self.lagging.pop(key, None)
            self._untold[key] = None

    def moved(self, key: PartitionKey, position: Position) -> None:
        """An answer was acted upon, and the follower's log ends here now. Who got something goes to the back."""
        if key in self._positions:
            self._failures.pop(key, None)
            if position != self._positions[key]:
                del self._positions[key]
                self._positions[key] = position
                self._untold[key] = None
            if position.offset < self._committed.get(key, -1):
                self.lagging[key] = None
            else:
                self.lagging.pop(key, None)

    def failed(self, key: PartitionKey, now: float) -> None:
        """Leave a partition out for a while: for longer, the more often that has happened in a row."""
        if key in self._positions:
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
            pause_ms = BACKOFF_MIN_MS * 2 ** min(failures, _BACKOFF_DOUBLINGS_MAX)
            self._pause(key, now + min(pause_ms, self._settings.backoff_ms) / 1000)

    def hold_back(self, key: PartitionKey, until: float) -> None:
        """Leave a partition out until then, though nothing is wrong with it; one that is left out already stays so."""
        if key in self._positions and key not in self._paused:
            self._pause(key, until)

    def _pause(self, key: PartitionKey, until: float) -> None:
        self._paused[key] = until
        self._untold[key] = None
        if until < inf:
            heappush(self._pauses, (until, key))

    # Requests

    def ready_at(self) -> float:
        """When there is something to ask for: -inf for now, inf for not before something changes."""
        if len(self._paused) < len(self._positions):
            return -inf
        while self._pauses and self._paused.get(self._pauses[0][1]) != self._pauses[0][0]:
            heappop(self._pauses)
        return self._pauses[0][0] if self._pauses else inf

    def request(self, broker_epoch: int, now: float) -> FetchRequest | None:
        """The next request; None where there is nothing to ask for now. `broker_epoch` is the follower's own."""
        self._end_pauses(now)
        if len(self._paused) == len(self._positions):
            return None
        is_full = self._session_epoch == _INITIAL_EPOCH
        named, forgotten = self._full() if is_full else self._incremental()
        self._untold.clear()
        self._is_urgent = self._is_ending = False
        self._is_waiting = not (is_full and self._is_granted_sessions)
        settings = self._settings
        return FetchRequest(
            replica_state=ReplicaState(replica_id=settings.replica_id, replica_epoch=broker_epoch),
            max_wait_ms=settings.max_wait_ms if self._is_waiting else 0,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=self._topics(named),
            forgotten_topics_data=_forgotten(forgotten),
        )

    @property
    def is_urgent(self) -> bool:
        """Whether the request in flight waits, and there is a partition to be fetched that it does not name."""
        return self._is_urgent and self._is_waiting and not self._is_ending and self._session_id != _NO_SESSION

    def ending(self, broker_epoch: int) -> FetchRequest:
        """Ends the session, and has the request in flight answered; the answer to this one tells nothing."""
        assert self.is_urgent, "there is nothing to be ended"
        self._is_ending = True
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self._settings.replica_id, replica_epoch=broker_epoch),
            session_id=self._session_id,
            session_epoch=_FINAL_EPOCH,
        )

    def _end_pauses(self, now: float) -> None:
        while self._pauses and self._pauses[0][0] <= now:
            until, key = heappop(self._pauses)
            if self._paused.get(key) == until:
                del self._paused[key]
                self._untold[key] = None

    def _full(self) -> tuple[list[PartitionKey], list[PartitionKey]]:
        self._told = {key: position for key, position in self._positions.items() if key not in self._paused}
        return list(self._told), []

    def _incremental(self) -> tuple[list[PartitionKey], list[PartitionKey]]:
        named, forgotten = [], []
        for key in self._untold:
            position = None if key in self._paused else self._positions.get(key)
            if position is None:
                if self._told.pop(key, None) is not None:
                    forgotten.append(key)
            elif position != self._told.get(key):
                self._told[key] = position
                named.append(key)
        return named, forgotten

    def _topics(self, keys: Iterable[PartitionKey]) -> list[FetchTopic]:
        topics: dict[bytes, FetchTopic] = {}
        for key in keys:
            topic_id, index = key
            position = self._told[key]
            topic = topics.setdefault(topic_id, FetchTopic(topic_id=topic_id))
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.offset,
                    last_fetched_epoch=position.last_epoch,
                    log_start_offset=position.log_start_offset,
                    partition_max_bytes=self._settings.partition_max_bytes,
                )
            )
        return list(topics.values())

    # Answers

    def lost(self) -> None:
        """The last request will not be answered: nobody knows what the leader has made of it."""
        self._session_epoch = _INITIAL_EPOCH
        self._is_waiting = False

    def answered(self, response: FetchResponse, now: float) -> list[Outcome]:
        """What the answer to the last request means, for each partition that is still where it was asked for."""
        self._is_waiting = False
        code = _code(response.error_code)
        if code is not ErrorCode.NONE:
            self._session_epoch = _INITIAL_EPOCH
            if code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._session_id = _NO_SESSION
            elif code not in _SESSION_ERRORS:
                for key in self._told:
                    self.failed(key, now)
            return []
        self._continue_session(response.session_id)
        return list(self._outcomes(response, now))

    def _continue_session(self, session_id: int) -> None:
        self._is_granted_sessions = session_id != _NO_SESSION
        if session_id == _NO_SESSION or self._is_ending:  # the leader has none to give, or has ended it
            self._session_id, self._session_epoch = _NO_SESSION, _INITIAL_EPOCH
        elif session_id != self._session_id or self._session_epoch == _EPOCH_MAX:
            self._session_id, self._session_epoch = session_id, _INITIAL_EPOCH + 1
        else:
            self._session_epoch += 1

    def _outcomes(self, response: FetchResponse, now: float) -> Iterator[Outcome]:
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                position = self._positions.get(key)
                if position is not None and position == self._told.get(key) and key not in self._paused:
                    yield self._outcome(key, position, data, now)

    def _outcome(self, key: PartitionKey, position: Position, data: PartitionData, now: float) -> Outcome:
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
            self._pause(key, inf)  # the metadata will tell of the epoch that the leader knows already
        else:
            self.failed(key, now)
        return Refused(key, position.leader_epoch, code)


def _forgotten(keys: Iterable[PartitionKey]) -> list[ForgottenTopic]:
    topics: dict[bytes, ForgottenTopic] = {}
    for topic_id, index in keys:
        topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id)).partitions.append(index)
    return list(topics.values())


def _code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:  # of a leader that is newer than this
        return ErrorCode.UNKNOWN_SERVER_ERROR
