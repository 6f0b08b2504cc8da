"""Committed offsets as a state machine, by examples and against a model (KIP-211, KIP-447)."""

from typing import Any

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from broker.coordinator.group.config import GroupConfig
from broker.coordinator.group.group_kind import PartitionValidator
from broker.coordinator.group.offsets.committed_offsets import CommittedPartition, offset_tombstone
from broker.coordinator.group.offsets.expiration import remove_offsets_of_deleted_topics
from broker.coordinator.group.offsets.requests import (
    Committer,
    OffsetToCommit,
    commit_offsets,
    delete_all_offsets,
    delete_offsets,
    fetch_offsets,
)
from broker.coordinator.group.record_formats import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from broker.coordinator.group.shard import UNREADABLE, GroupCoordinatorShard
from broker.coordinator.runtime.decision import CoordinatorRecord, Producer
from broker.coordinator.runtime.shard import Timers
from broker.wire.api.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.uuids import ZERO_UUID
from metadata.image import MetadataDelta
from metadata.records import RemoveTopicRecord, TopicRecord
from tests.support.groups_shard import GroupsShard

MINUTE_MS = 60_000
RETENTION_MS = 100 * MINUTE_MS
CHECK_MS = MINUTE_MS
CONFIG = GroupConfig(offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=CHECK_MS)


def commit(
    shard: GroupsShard,
    offset: int,
    *,
    group: str = "group",
    topic: str = "topic",
    partition: int = 0,
    topic_id: bytes = ZERO_UUID,
    metadata: str | None = "",
    epoch: int = -1,
    member: str = "",
    retention_ms: int = -1,
    api_version: int = 9,
    producer_id: int = -1,
) -> ErrorCode:
    committer = Committer(group, member, None, epoch, api_version)
    offsets = [OffsetToCommit(topic, topic_id, partition, offset, 1, metadata)]
    (code,) = shard.write(
        lambda state, now_ms: commit_offsets(state, committer, offsets, retention_ms, now_ms), producer_id
    )
    return code


def told(
    shard: GroupsShard,
    partition: int = 0,
    *,
    group: str = "group",
    topic: str = "topic",
    topic_id: bytes = ZERO_UUID,
    require_stable: bool = False,
) -> tuple[int, int]:
    """The offset and the error code."""
    asked = OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=[partition])
    request = OffsetFetchRequestGroup(group_id=group, topics=[asked])
    answer = fetch_offsets(shard.state, request, require_stable=require_stable).topics[0].partitions[0]
    return answer.committed_offset, answer.error_code


def delete(shard: GroupsShard, partition: int = 0, *, group: str = "group", topic: str = "topic") -> ErrorCode:
    (code,) = shard.write(lambda state, now_ms: delete_offsets(state, group, [(topic, partition)]))
    return code


@attrs.define
class SomeGroup:
    """A group with the attributes that a test chooses."""

    is_empty: bool = False
    subscribed: tuple[str, ...] = ()
    since_ms: int | None = None
    refusal: ErrorCode = ErrorCode.NONE
    heard_of: list[str] = attrs.Factory(list)

    def _check(self) -> None:
        if self.refusal is not ErrorCode.NONE:
            raise KafkaError(self.refusal)

    def validate_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, api_version: int, is_transactional: bool
    ) -> PartitionValidator | None:
        self._check()
        return None

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        self._check()

    def validate_offset_delete(self) -> None:
        self._check()

    def committed(self, member_id: str, timers: Timers) -> None:
        self.heard_of.append(member_id)

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed

    def retention_begins_ms(self, commit_timestamp_ms: int) -> int | None:
        return self.since_ms

    def tombstones(self) -> list[CoordinatorRecord]:
        return [CoordinatorRecord(b"\0\2\0\5group", None)]


# Examples


def test_offset_of_a_former_topic_of_the_same_name_is_not_returned() -> None:
    shard = GroupsShard()
    commit(shard, 5, topic_id=b"1" * 16)
    assert told(shard, topic_id=b"1" * 16) == (5, 0)
    assert told(shard, topic_id=b"2" * 16) == (-1, 0)
    assert told(shard) == (5, 0)
    commit(shard, 6)
    assert told(shard, topic_id=b"2" * 16) == (6, 0)


def test_pending_offset_is_committed_when_its_transaction_ends() -> None:
    shard = GroupsShard()
    commit(shard, 1)
    commit(shard, 2, producer_id=7)
    assert told(shard) == (1, 0)
    assert told(shard, require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert told(shard, 1, require_stable=True) == (-1, 0)
    shard.end_transaction(7, committed=True)
    assert told(shard, require_stable=True) == (2, 0)


def test_aborted_transaction_commits_no_offsets() -> None:
    shard = GroupsShard()
    commit(shard, 2, producer_id=7)
    shard.end_transaction(7, committed=False)
    assert told(shard, require_stable=True) == (-1, 0)
    assert not shard.state.offsets.has_group("group")


def test_later_record_wins_over_a_pending_offset() -> None:
    """Compaction, which keeps the later record, has the same result."""
    shard = GroupsShard()
    commit(shard, 2, producer_id=7)
    commit(shard, 3)
    shard.end_transaction(7, committed=True)
    assert told(shard) == (3, 0)


def test_delete_removes_pending_offsets() -> None:
    shard = GroupsShard()
    commit(shard, 2, producer_id=7)
    assert delete(shard) is ErrorCode.NONE
    shard.end_transaction(7, committed=True)
    assert told(shard) == (-1, 0)


def test_group_validates_commit_fetch_and_delete() -> None:
    shard = GroupsShard()
    shard.state.groups["group"] = SomeGroup(refusal=ErrorCode.ILLEGAL_GENERATION)
    for request in (commit, told, delete):
        with pytest.raises(KafkaError) as raised:
            request(shard, 0)
        assert raised.value.code is ErrorCode.ILLEGAL_GENERATION
    assert shard.log == []


def test_commit_prolongs_the_members_session() -> None:
    shard, group = GroupsShard(), SomeGroup()
    shard.state.groups["group"] = group
    committer = Committer("group", "member", None, 1, 9)
    decision = commit_offsets(shard.state, committer, [OffsetToCommit("topic", ZERO_UUID, 0, 1, 1, "")], -1, 0)
    assert group.heard_of == []
    assert decision.apply is not None
    decision.apply()
    assert group.heard_of == ["member"]


def test_offsets_of_subscribed_topics_cannot_be_deleted() -> None:
    shard = GroupsShard()
    shard.state.groups["group"] = SomeGroup(subscribed=("topic",))
    commit(shard, 1)
    commit(shard, 2, topic="other")
    assert delete(shard) is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete(shard, topic="other") is ErrorCode.NONE
    assert (told(shard), told(shard, topic="other")) == ((1, 0), (-1, 0))


def test_delete_group_removes_all_of_its_offsets() -> None:
    shard = GroupsShard()
    for partition in range(3):
        commit(shard, 1, partition=partition, producer_id=7 if partition == 2 else -1)
    commit(shard, 9, group="other")
    shard.append(*delete_all_offsets(shard.state, "group"))
    shard.end_transaction(7, committed=True)
    assert shard.state.offsets.group_ids() == ["other"]


def test_offsets_of_a_simple_group_expire_one_by_one() -> None:
    shard = GroupsShard(CONFIG)
    commit(shard, 1)
    shard.pass_ms(10 * MINUTE_MS)
    commit(shard, 2, partition=1)
    shard.pass_ms(RETENTION_MS - 10 * MINUTE_MS - 1)
    assert len(shard.state.offsets) == 2
    shard.pass_ms(CHECK_MS)
    assert (told(shard), told(shard, 1)) == ((-1, 0), (2, 0))
    shard.pass_ms(10 * MINUTE_MS)
    assert not shard.state.offsets.has_group("group")


def test_retention_time_of_a_commit_counts_from_the_commit() -> None:
    shard = GroupsShard(CONFIG)
    commit(shard, 1, retention_ms=5 * MINUTE_MS)
    commit(shard, 2, partition=1, retention_ms=3 * RETENTION_MS)
    shard.pass_ms(6 * MINUTE_MS)
    assert (told(shard), told(shard, 1)) == ((-1, 0), (2, 0))
    shard.pass_ms(2 * RETENTION_MS)
    assert told(shard, 1) == (2, 0)


def test_longest_retention_time_of_a_commit_does_not_overflow() -> None:
    """The expiration time must stay in the range of 64 bits, because it is written to the log."""
    shard = GroupsShard(CONFIG)
    commit(shard, 1, retention_ms=2**63 - 1)
    shard.pass_ms(3 * RETENTION_MS)
    assert told(shard) == (1, 0)


def test_offsets_of_a_group_with_members_are_kept_and_then_expire_together() -> None:
    shard = GroupsShard(CONFIG)
    group = SomeGroup()
    shard.state.groups["group"] = group
    commit(shard, 1)
    shard.pass_ms(3 * RETENTION_MS)
    assert told(shard) == (1, 0)
    group.is_empty, group.since_ms = True, shard.now_ms
    shard.pass_ms(RETENTION_MS - MINUTE_MS)
    assert told(shard) == (1, 0)
    shard.pass_ms(3 * MINUTE_MS)
    assert told(shard) == (-1, 0)


def test_a_topic_that_members_consume_does_not_expire() -> None:
    shard = GroupsShard(CONFIG)
    shard.state.groups["group"] = SomeGroup(subscribed=("topic",), since_ms=0)
    commit(shard, 1)
    commit(shard, 1, topic="other")
    shard.pass_ms(2 * CHECK_MS)
    assert (told(shard), told(shard, topic="other")) == ((1, 0), (-1, 0))


@pytest.mark.parametrize(
    ("is_empty", "has_pending", "goes"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_group_without_members_and_offsets_is_removed(is_empty: bool, has_pending: bool, goes: bool) -> None:
    shard = GroupsShard(CONFIG)
    shard.state.groups["group"] = SomeGroup(is_empty=is_empty, since_ms=0)
    commit(shard, 1)
    if has_pending:
        commit(shard, 2, partition=1, producer_id=7)
    before = len(shard.log)
    shard.pass_ms(CHECK_MS)
    tombstones = [entry[0] for entry in shard.log[before:] if len(entry) == 3]
    assert (CoordinatorRecord(b"\0\2\0\5group", None) in tombstones) is goes
    assert told(shard) == (-1, 0)


def test_deleted_topics_offsets_are_removed_but_not_those_of_its_successor() -> None:
    shard = GroupsShard()
    created = MetadataDelta(shard.image)
    created.replay([TopicRecord(name="topic", topic_id=b"1" * 16)])
    shard.image = created.apply(0)
    commit(shard, 1)
    commit(shard, 1, group="other", producer_id=7)
    commit(shard, 1, topic="other")
    deleted = MetadataDelta(shard.image)
    deleted.replay([RemoveTopicRecord(topic_id=b"1" * 16)])
    shard.image = deleted.apply(1)

    shard.state.metadata_changed(deleted, shard.image)
    commit(shard, 2, partition=1)
    shard.pass_ms(0)
    shard.end_transaction(7, committed=True)

    assert [told(shard), told(shard, 1), told(shard, group="other"), told(shard, topic="other")] == [
        (-1, 0),
        (2, 0),
        (-1, 0),
        (1, 0),
    ]
    assert not shard.state.deleted_topics


def test_next_coordinator_removes_offsets_of_deleted_topics() -> None:
    shard = GroupsShard()
    created = MetadataDelta(shard.image)
    created.replay([TopicRecord(name="topic", topic_id=b"1" * 16)])
    shard.image = created.apply(0)
    commit(shard, 1)
    commit(shard, 2, topic="gone")
    commit(shard, 3, topic="gone", partition=1, producer_id=7)

    shard.load()
    shard.pass_ms(0)
    shard.end_transaction(7, committed=True)

    assert shard.state.offsets.topics() == ["topic"]
    assert told(shard) == (1, 0)


@pytest.mark.parametrize(
    ("key", "value", "number"),
    [
        (b"\0\x17what streams have", b"\0\0", 23),
        (b"\x7f\xff", None, 0x7FFF),
        (b"", b"", UNREADABLE),
        (b"\0\1\0\5gro", b"\0\4", UNREADABLE),
        (encode_key(OffsetCommitKey(group="group", topic="topic")), b"\0\x63whatever", UNREADABLE),
    ],
)
def test_unreadable_records_are_skipped(key: bytes, value: bytes | None, number: int) -> None:
    shard = GroupsShard()
    commit(shard, 1)
    shard.append(CoordinatorRecord(key, value))
    assert shard.state.skipped_records == {number: 1}
    assert told(shard) == (1, 0)


@pytest.mark.parametrize("version", range(5))
def test_values_of_every_version_are_replayed(version: int) -> None:
    shard = GroupsShard()
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="note", commit_timestamp=9, expire_timestamp=11)
    shard.append(
        CoordinatorRecord(encode_key(OffsetCommitKey(group="group", topic="topic")), encode_value(value, version))
    )
    committed = shard.state.offsets.get("group", "topic", 0)
    assert committed is not None
    assert committed[:5] == (5, 2 if version >= 3 else -1, "note", 9, 11 if version == 1 else -1)


def test_commit_of_an_unknown_member_is_refused_by_version() -> None:
    shard = GroupsShard()
    committers = [(8, None, ErrorCode.ILLEGAL_GENERATION), (9, None, ErrorCode.GROUP_ID_NOT_FOUND)]
    committers += [(5, Producer(1, 0), ErrorCode.ILLEGAL_GENERATION), (6, Producer(1, 0), ErrorCode.GROUP_ID_NOT_FOUND)]
    for version, producer, code in committers:
        committer = Committer("group", "", None, 3, version)
        with pytest.raises(KafkaError) as raised:
            commit_offsets(shard.state, committer, [], -1, 0, producer)
        assert raised.value.code is code


def test_many_offsets_are_removed_in_several_turns() -> None:
    shard = GroupsShard(CONFIG)
    for group in range(3):
        for partition in range(1_700):
            commit(shard, 1, group=f"group-{group}", partition=partition)
    decision = shard.timers.due["expire-offsets"][1](shard.state, shard.now_ms + RETENTION_MS)
    assert len(decision.records) == 3_400
    shard.state.deleted_topics["topic"] = shard.state.offsets.last_record_offset
    decision = remove_offsets_of_deleted_topics(shard.state, shard.now_ms)
    assert len(decision.records) == 2_000
    before = len(shard.log)
    shard.pass_ms(RETENTION_MS + CHECK_MS)
    assert (len(shard.state.offsets), len(shard.log) - before) == (0, 5_100)
    shard.pass_ms(2 * CHECK_MS)
    assert len(shard.log) - before == 5_100


# Against a model

PLACES = st.builds(CommittedPartition, st.sampled_from(["g", "h"]), st.sampled_from(["t", "u"]), st.integers(0, 2))
PRODUCERS = st.integers(1, 2)


class OffsetsAgainstAModel(RuleBasedStateMachine):
    """The model has the committed offset by place, with the number of its record, and the pending ones by producer."""

    def __init__(self) -> None:
        super().__init__()
        self.shard = GroupsShard(CONFIG)
        self.committed: dict[CommittedPartition, tuple[int, int]] = {}
        self.pending: dict[int, dict[CommittedPartition, tuple[int, int]]] = {}

    @rule(place=PLACES, offset=st.integers(0, 1 << 62))
    def commit(self, place: CommittedPartition, offset: int) -> None:
        self.committed[place] = (len(self.shard.log), offset)
        commit(self.shard, offset, group=place.group_id, topic=place.topic, partition=place.partition)

    @rule(place=PLACES, offset=st.integers(0, 1 << 62), producer=PRODUCERS)
    def commit_in_transaction(self, place: CommittedPartition, offset: int, producer: int) -> None:
        self.pending.setdefault(producer, {})[place] = (len(self.shard.log), offset)
        commit(
            self.shard,
            offset,
            group=place.group_id,
            topic=place.topic,
            partition=place.partition,
            producer_id=producer,
        )

    @rule(producer=PRODUCERS, committed=st.booleans())
    def end(self, producer: int, committed: bool) -> None:
        for place, record in self.pending.pop(producer, {}).items():
            if committed and self.committed.get(place, (-1, 0)) < record:
                self.committed[place] = record
        self.shard.end_transaction(producer, committed=committed)

    @rule(place=PLACES)
    def delete(self, place: CommittedPartition) -> None:
        if self.shard.state.offsets.has_group(place.group_id):
            assert delete(self.shard, place.partition, group=place.group_id, topic=place.topic) is ErrorCode.NONE
        else:
            with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
                delete(self.shard, place.partition, group=place.group_id, topic=place.topic)
        self._forget(place)

    @rule(place=PLACES)
    def tombstone(self, place: CommittedPartition) -> None:
        self.shard.append(offset_tombstone(place))
        self._forget(place)

    def _forget(self, place: CommittedPartition) -> None:
        for records in (self.committed, *self.pending.values()):
            records.pop(place, None)

    @rule()
    def reload(self) -> None:
        self.shard.load()

    @invariant()
    def agrees(self) -> None:
        offsets = self.shard.state.offsets
        found = {
            place: (committed.record_offset, committed.offset)
            for group in ("g", "h")
            for place in offsets.partitions_of_group(group)
            if (committed := offsets.get(*place)) is not None
        }
        assert found == self.committed
        assert len(offsets) == len(self.committed)
        pending = {place for records in self.pending.values() for place in records}
        groups = {place.group_id for place in (*self.committed, *pending)}
        assert set(offsets.group_ids()) == groups
        for group in ("g", "h"):
            assert offsets.has_group(group) == (group in groups)
            for topic in ("t", "u"):
                for partition in range(3):
                    place = CommittedPartition(group, topic, partition)
                    assert offsets.is_pending(*place) == (place in pending)
        for topic in ("t", "u"):
            wanted = {place for place in (*self.committed, *pending) if place.topic == topic}
            assert set(offsets.of_topic(topic, len(self.shard.log))) == wanted


OffsetsAgainstAModel.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestOffsetsAgainstAModel: Any = OffsetsAgainstAModel.TestCase


def test_deciding_does_not_change_the_state() -> None:
    shard = GroupsShard(CONFIG)
    commit(shard, 1)
    log, state = list(shard.log), shard.state
    committer = Committer("group", "", None, -1, 9)
    commit_offsets(state, committer, [OffsetToCommit("topic", ZERO_UUID, 0, 2, 1, "")], -1, 5)
    delete_offsets(state, "group", [("topic", 0)])
    delete_all_offsets(state, "group")
    shard.timers.due["expire-offsets"][1](state, shard.now_ms + 2 * RETENTION_MS)
    assert isinstance(state, GroupCoordinatorShard)
    assert (told(shard), shard.log) == ((1, 0), log)
