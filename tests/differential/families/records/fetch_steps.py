"""Fetches, in sessions or without one."""

from typing import Any, Final

import attrs

from broker.wire.api.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from broker.wire.schema import replaced
from tests.differential.families.records.readers import Session, TopicId, label_topics, readers_of, topic_id
from tests.differential.sequences import Place, Step

_LOG_STARTS_FROM: Final = 5
_SESSIONS_FROM: Final = 7
_LEADER_EPOCHS_FROM: Final = 9
_FETCHED_EPOCHS_FROM: Final = 12
_BY_ID_FROM: Final = 13


@attrs.frozen
class Asked:
    """A partition of a request."""

    topic: str
    partition: int
    offset: int = 0
    max_bytes: int = 1 << 20
    leader_epoch: int = -1
    fetched_epoch: int = -1
    topic_id: TopicId = TopicId.CURRENT


@attrs.frozen(kw_only=True)
class Fetch(Step):
    """`number` is that of the session."""

    version: int
    asked: tuple[Asked, ...]
    forgotten: tuple[tuple[str, int, TopicId], ...] = ()
    session: Session = Session.NONE
    number: int = 0
    isolation_level: int = 0
    max_wait_ms: int = 0
    min_bytes: int = 1
    max_bytes: int = 1 << 20

    def request(self, place: Place) -> tuple[Any, int]:
        message = FetchRequest(
            isolation_level=self.isolation_level,
            max_wait_ms=self.max_wait_ms,
            min_bytes=self.min_bytes,
            max_bytes=self.max_bytes,
        )
        topics: dict[tuple[str, TopicId], list[FetchPartition]] = {}
        for each in self.asked:
            topics.setdefault((each.topic, each.topic_id), []).append(self._partition(each))
        message.topics = [self._named(place, FetchTopic(partitions=found), *key) for key, found in topics.items()]
        if self.version >= _SESSIONS_FROM:
            message.session_id, message.session_epoch = readers_of(place).session(self.number, self.session)
            forgotten: dict[tuple[str, TopicId], list[int]] = {}
            for topic, index, which in self.forgotten:
                forgotten.setdefault((topic, which), []).append(index)
            message.forgotten_topics_data = [
                self._named(place, ForgottenTopic(partitions=found), *key) for key, found in forgotten.items()
            ]
        return message, self.version

    def _partition(self, asked: Asked) -> FetchPartition:
        found = FetchPartition(
            partition=asked.partition, fetch_offset=asked.offset, partition_max_bytes=asked.max_bytes
        )
        if self.version >= _LEADER_EPOCHS_FROM:
            found.current_leader_epoch = asked.leader_epoch
        if self.version >= _FETCHED_EPOCHS_FROM:
            found.last_fetched_epoch = asked.fetched_epoch
        return found

    def _named(self, place: Place, topic: Any, suffix: str, which: TopicId) -> Any:
        if self.version < _BY_ID_FROM:
            topic.topic = place.named(suffix)
        else:
            topic.topic_id = topic_id(place, suffix, which)
        return topic

    def observe(self, place: Place, response: Any) -> None:
        sessions = readers_of(place).sessions
        if self.version < _SESSIONS_FROM or response.error_code:
            return
        if self.session is Session.NEXT:
            session_id, epoch = sessions.get(self.number, (0, 0))
            sessions[self.number] = (response.session_id or session_id, epoch + 1)
        elif self.session in (Session.NEW, Session.REPLACE):
            sessions[self.number] = (response.session_id, 1)

    def comparable(self, place: Place, response: Any) -> Any:
        """One entry per topic."""
        label_topics(place)
        topics: dict[tuple[str, bytes], FetchableTopicResponse] = {}
        for each in response.responses:
            found = topics.setdefault((each.topic, bytes(each.topic_id)), replaced(each, partitions=[]))
            found.partitions += each.partitions
        return super().comparable(place, replaced(response, responses=list(topics.values())))
