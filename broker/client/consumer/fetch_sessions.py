"""The client's side of a fetch session with one broker (KIP-227). Pure.

The first request names all partitions, and the broker keeps them. Later requests name only what has changed since, and
responses only partitions with news. The session's epoch counts the requests; where one of them got lost, a new session
begins with all partitions.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from broker.client.types import TopicPartition
from broker.wire.api.fetch import FetchPartition, FetchResponse, FetchTopic, ForgottenTopic, PartitionData
from broker.wire.errors import ErrorCode
from broker.wire.uuids import ZERO_UUID

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1


class PartitionFetch(NamedTuple):
    """A partition in a Fetch request. `topic_id` is ZERO_UUID if it is unknown."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    max_bytes: int


class SessionRequest(NamedTuple):
    """The session's part of a Fetch request."""

    session_id: int
    epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


class FetchSession:
    """See the module's docstring. Each `request` is followed by `accept` or `lose`."""

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._by_id = False
        self._partitions: dict[TopicPartition, PartitionFetch] = {}
        self._names: dict[bytes, str] = {}

    @property
    def is_open(self) -> bool:
        """True if the broker keeps a session."""
        return self.session_id != NO_SESSION

    @property
    def _is_full(self) -> bool:
        return self._epoch == INITIAL_EPOCH

    def request(self, wanted: Mapping[TopicPartition, PartitionFetch], *, by_id: bool) -> SessionRequest:
        """The request for exactly these partitions, in their order. A session has topic ids, or names (KIP-516)."""
        if by_id != self._by_id:
            self._by_id = by_id
            self._epoch = INITIAL_EPOCH
        if self._is_full:
            changed = dict(wanted)
            gone: list[tuple[TopicPartition, bytes]] = []
        else:
            before = self._partitions
            changed = {key: fetch for key, fetch in wanted.items() if before.get(key) != fetch}
            # A topic that was created again under its name is another one to the broker.
            gone = [
                (key, fetch.topic_id)
                for key, fetch in before.items()
                if key not in wanted or wanted[key].topic_id != fetch.topic_id
            ]
        self._partitions = dict(wanted)
        self._names = {fetch.topic_id: key.topic for key, fetch in wanted.items()}
        return SessionRequest(self.session_id, self._epoch, _fetch_topics(changed), _forgotten_topics(gone))

    def accept(self, response: FetchResponse) -> dict[TopicPartition, PartitionData] | None:
        """Applies the response to the last request. Returns its partitions, or None if it cannot be used."""
        if response.error_code != ErrorCode.NONE:
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.session_id = NO_SESSION
            self._epoch = INITIAL_EPOCH
            return None
        partitions = self._named(response)
        if self._is_full:
            # A throttled response may be empty (KIP-219).
            if partitions is None or len(partitions) != len(self._partitions):
                self.session_id = NO_SESSION
                return None
            self.session_id = response.session_id
            self._epoch = 1 if self.is_open else INITIAL_EPOCH
        elif partitions is None:
            self._epoch = INITIAL_EPOCH
        elif response.session_id == NO_SESSION:
            self.session_id, self._epoch = NO_SESSION, INITIAL_EPOCH
        else:
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1
        return partitions

    def lose(self) -> None:
        """Notes that the last request or its response was lost: the next request begins a new session."""
        self._epoch = INITIAL_EPOCH

    def _named(self, response: FetchResponse) -> dict[TopicPartition, PartitionData] | None:
        """The response's partitions by name; None if one of them was not asked for, or is there twice."""
        named: dict[TopicPartition, PartitionData] = {}
        for topic in response.responses:
            name = topic.topic or self._names.get(topic.topic_id, "")
            for data in topic.partitions:
                key = TopicPartition(name, data.partition_index)
                if key not in self._partitions or key in named:
                    return None
                named[key] = data
        return named


def _fetch_topics(partitions: Mapping[TopicPartition, PartitionFetch]) -> list[FetchTopic]:
    topics: dict[tuple[str, bytes], FetchTopic] = {}
    for key, fetch in partitions.items():
        topic = topics.get((key.topic, fetch.topic_id))
        if topic is None:
            topic = topics[key.topic, fetch.topic_id] = FetchTopic(topic=key.topic, topic_id=fetch.topic_id)
        topic.partitions.append(
            FetchPartition(
                partition=key.partition,
                current_leader_epoch=fetch.leader_epoch,
                fetch_offset=fetch.offset,
                partition_max_bytes=fetch.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten_topics(partitions: Iterable[tuple[TopicPartition, bytes]]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for key, topic_id in partitions:
        topic = topics.get((key.topic, topic_id))
        if topic is None:
            topic = topics[key.topic, topic_id] = ForgottenTopic(topic=key.topic, topic_id=topic_id)
        topic.partitions.append(key.partition)
    return list(topics.values())


def topic_ids_known(wanted: Iterable[PartitionFetch]) -> bool:
    """True if all topics can be asked for by id; a request names them all by id, or all by name."""
    return all(fetch.topic_id != ZERO_UUID for fetch in wanted)
