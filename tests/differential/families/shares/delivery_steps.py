"""The requests of share sessions: ShareFetch and ShareAcknowledge."""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Final

import attrs

from broker.wire.api import share_acknowledge, share_fetch
from broker.wire.api.share_acknowledge import ShareAcknowledgeRequest
from broker.wire.api.share_fetch import ForgottenTopic, ShareFetchRequest
from broker.wire.records import iter_headers, iter_records
from tests.differential.comparable import error_name
from tests.differential.families.groups.members import GROUP, Who
from tests.differential.families.records.readers import SUFFIXES, TopicId, known_topic_ids, label_topics, topic_id
from tests.differential.families.shares.membership_steps import sent_id
from tests.differential.families.shares.share_members import Acquired, ShareEpoch, members_of
from tests.differential.sequences import Place, Step

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
_MODES_FROM: Final = 2
_RENEWALS_FROM: Final = 2
# A member without records acknowledges these.
_NO_RECORDS: Final = (0, 0)
_FAR_AWAY: Final = 1_000


class Part(Enum):
    """The offsets of an acknowledgement, relative to records that the member has acquired at once."""

    ALL = "all"
    FIRST = "first"
    LAST = "last"
    LATER = "later"
    PAST_THE_END = "past the end"
    FAR = "far away"
    BACKWARDS = "backwards"


@attrs.frozen
class Acknowledged:
    """Acknowledges records of `member`: those that it acquired last, or `back` deliveries before them.

    With `is_each`, each offset has a type of its own, and `kinds` are repeated; otherwise they are sent as they are.
    """

    kinds: tuple[int, ...] = (ACCEPT,)
    back: int = 0
    part: Part = Part.ALL
    is_each: bool = False
    member: int = 0
    topic_id: TopicId = TopicId.CURRENT
    partition: int | None = None

    def target(self, place: Place) -> tuple[bytes, int]:
        """The topic id and the partition."""
        acquired = self._acquired(place)
        if acquired is None or self.topic_id is not TopicId.CURRENT:
            found = topic_id(place, "t" if acquired is None else acquired.topic, self.topic_id)
            partition = 0 if acquired is None else acquired.partition
        else:
            found, partition = acquired.topic_id, acquired.partition
        return found, partition if self.partition is None else self.partition

    def batch(self, place: Place) -> tuple[int, int, list[int]]:
        """The first and the last offset, and the types."""
        acquired = self._acquired(place)
        first, last = _NO_RECORDS if acquired is None else (acquired.first_offset, acquired.last_offset)
        first, last = {
            Part.ALL: (first, last),
            Part.FIRST: (first, first),
            Part.LAST: (last, last),
            Part.LATER: (first + 1, max(last, first + 1)),
            Part.PAST_THE_END: (first, last + 1),
            Part.FAR: (first + _FAR_AWAY, last + _FAR_AWAY),
            Part.BACKWARDS: (last + 1, first),
        }[self.part]
        count = max(last - first + 1, 1)
        kinds = (
            [self.kinds[at % len(self.kinds)] for at in range(count)]
            if self.is_each and self.kinds
            else list(self.kinds)
        )
        return first, last, kinds

    def _acquired(self, place: Place) -> Acquired | None:
        found = members_of(place).acquired.get(self.member, [])
        return found[-1 - self.back % len(found)] if found else None


@attrs.frozen(kw_only=True)
class SessionStep(Step):
    """A request of a member's share session."""

    member: int
    version: int = 2
    epoch: ShareEpoch = ShareEpoch.NEXT
    who: Who = Who.OWN
    group: str = GROUP
    acknowledged: tuple[Acknowledged, ...] = ()
    is_renewal: bool = False

    def _batches(self, place: Place, batch_type: Any) -> dict[tuple[bytes, int], list[Any]]:
        """The batches of each partition in the order of their offsets."""
        found: dict[tuple[bytes, int], list[Any]] = {}
        for each in self.acknowledged:
            first, last, kinds = each.batch(place)
            batch = batch_type(first_offset=first, last_offset=last, acknowledge_types=kinds)
            found.setdefault(each.target(place), []).append(batch)
        members_of(place).acknowledged[self.member] = set(found)
        for batches in found.values():
            batches.sort(key=lambda batch: (batch.first_offset, batch.last_offset))
        return found

    def _session_epoch(self, place: Place) -> int:
        return members_of(place).session_epoch(self.member, self.epoch)

    def _observe_session(self, place: Place, response: Any) -> None:
        state = members_of(place)
        if response.error_code or self.who is not Who.OWN or self.group != GROUP:
            return
        if self.epoch is ShareEpoch.CLOSE:
            state.session_epochs.pop(self.member, None)
            state.has_released = True
        elif self.epoch in (ShareEpoch.OPEN, ShareEpoch.NEXT):
            state.session_epochs[self.member] = self._session_epoch(place) + 1


@attrs.frozen(kw_only=True)
class ShareFetch(SessionStep):
    """`asked` and `forgotten` are partitions that join and leave the session."""

    asked: tuple[tuple[str, int], ...] = ()
    forgotten: tuple[tuple[str, int], ...] = ()
    topic_id: TopicId = TopicId.CURRENT
    max_wait_ms: int = 0
    min_bytes: int = 1
    max_bytes: int = 1 << 20
    max_records: int = 500
    batch_size: int = 500
    mode: int = 0

    def request(self, place: Place) -> tuple[Any, int]:
        partitions: dict[tuple[bytes, int], list[Any]] = {
            (topic_id(place, topic, self.topic_id), index): [] for topic, index in self.asked
        }
        partitions |= self._batches(place, share_fetch.AcknowledgementBatch)
        topics: dict[bytes, list[share_fetch.FetchPartition]] = {}
        for (found, index), batches in partitions.items():
            topics.setdefault(found, []).append(
                share_fetch.FetchPartition(partition_index=index, acknowledgement_batches=batches)
            )
        forgotten: dict[bytes, list[int]] = {}
        for topic, index in self.forgotten:
            forgotten.setdefault(topic_id(place, topic, self.topic_id), []).append(index)
        message = ShareFetchRequest(
            group_id=place.named(self.group),
            member_id=sent_id(self.member, self.who),
            share_session_epoch=self._session_epoch(place),
            max_wait_ms=self.max_wait_ms,
            min_bytes=self.min_bytes,
            max_bytes=self.max_bytes,
            max_records=self.max_records,
            batch_size=self.batch_size,
            topics=[share_fetch.FetchTopic(topic_id=found, partitions=listed) for found, listed in topics.items()],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=found, partitions=listed) for found, listed in forgotten.items()
            ],
        )
        if self.version >= _MODES_FROM:
            message.share_acquire_mode, message.is_renew_ack = self.mode, self.is_renewal
        return message, self.version

    def observe(self, place: Place, response: Any) -> None:
        self._observe_session(place, response)
        suffixes = {each: suffix for suffix in SUFFIXES for each in known_topic_ids(place, suffix)}
        acquired = members_of(place).acquired.setdefault(self.member, [])
        delivered = [
            Acquired(suffixes[found], found, partition.partition_index, first, last)
            for topic, partition in _partitions(response)
            if (found := bytes(topic.topic_id)) in suffixes
            for first, last, _ in _joined(partition.acquired_records)
        ]
        acquired.extend(sorted(delivered, key=lambda each: (each.topic, each.partition, each.first_offset)))

    def comparable(self, place: Place, response: Any) -> Any:
        """Compares records by their offsets, because Kafka returns them in the parts of their first delivery.

        Partitions without records, errors and acknowledgements are left out: Kafka returns those that are new.
        """
        label_topics(place)
        partitions = {}
        targets = members_of(place).acknowledged[self.member]
        for topic, each in _partitions(response):
            is_empty = not (each.error_code or each.acknowledge_error_code or each.acquired_records)
            if is_empty and (bytes(topic.topic_id), each.partition_index) not in targets:
                continue
            name = f"{place.labels.label('T', bytes(topic.topic_id))}-{each.partition_index}"
            partitions[name] = {
                "error_code": error_name(each.error_code),
                "acknowledge_error_code": error_name(each.acknowledge_error_code),
                "acquired": list(_joined(each.acquired_records)),
                "values": _values(each),
            }
        return {
            "error_code": error_name(response.error_code),
            "acquisition_lock_timeout_ms": response.acquisition_lock_timeout_ms,
            "partitions": partitions,
        }


@attrs.frozen(kw_only=True)
class ShareAcknowledge(SessionStep):
    def request(self, place: Place) -> tuple[Any, int]:
        topics: dict[bytes, list[share_acknowledge.AcknowledgePartition]] = {}
        for (found, index), batches in self._batches(place, share_acknowledge.AcknowledgementBatch).items():
            topics.setdefault(found, []).append(
                share_acknowledge.AcknowledgePartition(partition_index=index, acknowledgement_batches=batches)
            )
        message = ShareAcknowledgeRequest(
            group_id=place.named(self.group),
            member_id=sent_id(self.member, self.who),
            share_session_epoch=self._session_epoch(place),
            topics=[
                share_acknowledge.AcknowledgeTopic(topic_id=found, partitions=listed)
                for found, listed in topics.items()
            ],
        )
        if self.version >= _RENEWALS_FROM:
            message.is_renew_ack = self.is_renewal
        return message, self.version

    def observe(self, place: Place, response: Any) -> None:
        self._observe_session(place, response)

    def comparable(self, place: Place, response: Any) -> Any:
        label_topics(place)
        return {
            "error_code": error_name(response.error_code),
            "acquisition_lock_timeout_ms": response.acquisition_lock_timeout_ms,
            "partitions": {
                f"{place.labels.label('T', bytes(topic.topic_id))}-{each.partition_index}": error_name(each.error_code)
                for topic, each in _partitions(response)
            },
        }


def _partitions(response: Any) -> Sequence[tuple[Any, Any]]:
    """Each partition with its topic, in the order of indexes."""
    return sorted(
        ((topic, each) for topic in response.responses for each in topic.partitions),
        key=lambda found: found[1].partition_index,
    )


def _joined(acquired: Iterable[Any]) -> Iterable[tuple[int, int, int]]:
    """The acquired records as the fewest ranges: first and last offset, delivery count."""
    joined: list[tuple[int, int, int]] = []
    for each in sorted(acquired, key=lambda part: part.first_offset):
        if joined and joined[-1][1:] == (each.first_offset - 1, each.delivery_count):
            joined[-1] = (joined[-1][0], each.last_offset, each.delivery_count)
        else:
            joined.append((each.first_offset, each.last_offset, each.delivery_count))
    return joined


def _values(partition: Any) -> dict[str, str]:
    """The values of the acquired records by offset."""
    values: dict[int, str] = {}
    data = partition.records or b""
    for at, header in iter_headers(data):
        if not header.is_control:
            values |= {each.offset: repr(each.value) for each in iter_records(data, at, header)}
    acquired = {
        offset for each in partition.acquired_records for offset in range(each.first_offset, each.last_offset + 1)
    }
    return {str(offset): value for offset, value in values.items() if offset in acquired}
