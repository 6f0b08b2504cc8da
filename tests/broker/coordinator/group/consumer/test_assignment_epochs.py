"""Commits at an earlier epoch than the member's: accepted from the assignment of each partition on (KIP-1251)."""

from typing import Any, Final

import attrs
import pytest

from broker.coordinator.group.consumer.member import ConsumerMember, MemberState
from broker.coordinator.group.consumer.records import assignment_record
from broker.coordinator.group.offsets.requests import Committer, OffsetToCommit, commit_offsets
from broker.coordinator.group.record_formats import (
    AssignedTopicPartitions,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    encode_key,
    encode_value,
)
from broker.coordinator.runtime.decision import CoordinatorRecord, Producer
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.uuids import ZERO_UUID
from tests.support.consumer_clients import GROUP, ConsumerClient, ConsumerGroups, settle
from tests.support.mixed_groups import mixed, shard_with, stable_classic_members
from tests.support.mixed_groups import settle as settle_both

NONE, STALE, ILLEGAL = ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION
TOO_LARGE, UNKNOWN = ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.UNKNOWN_MEMBER_ID
LONG: Final = "x" * 5_000


@pytest.fixture
def shard() -> ConsumerGroups:
    return shard_with()


@pytest.fixture
def one(shard: ConsumerGroups) -> ConsumerClient:
    return ConsumerClient(shard, "one", ["a"])


def commit(
    shard: ConsumerGroups,
    member_id: str,
    epoch: int,
    *partitions: int,
    topic: str = "a",
    has_id: bool = False,
    producer: Producer | None = None,
    **fields: Any,
) -> list[ErrorCode] | ErrorCode:
    """Commit offsets of these partitions. Returns their error codes, or the error of the whole request."""
    committer = attrs.evolve(Committer(GROUP, member_id, None, epoch, 9), **fields)
    topic_id = shard.topic_id(topic) if has_id else ZERO_UUID
    offsets = [OffsetToCommit(topic, topic_id, index, 7, -1, "") for index in partitions]
    try:
        return shard.write(lambda state, now_ms: commit_offsets(state, committer, offsets, -1, now_ms, producer))
    except KafkaError as error:
        return error.code


def kept_and_taken(one: ConsumerClient) -> tuple[int, int]:
    """Partitions of the member at epoch 3: it has had the first since epoch 1, and the second since epoch 3."""
    two = ConsumerClient(one.shard, "two", ["a"])
    settle([one])
    settle([one, two])
    (kept, *_) = sorted(one.names()["a"])
    (taken, *_) = sorted(two.names()["a"])
    two.leave()
    settle([one])
    assert (one.epoch, one.names()) == (3, {"a": {0, 1, 2, 3}})
    return kept, taken


@pytest.mark.parametrize("has_id", [False, True])
def test_earlier_epoch_may_commit_partitions_from_their_assignment_on_kip_1251(
    shard: ConsumerGroups, one: ConsumerClient, has_id: bool
) -> None:
    kept, taken = kept_and_taken(one)
    assert commit(shard, "one", 1, kept, has_id=has_id) == commit(shard, "one", 2, kept, has_id=has_id) == [NONE]
    assert commit(shard, "one", 0, kept, has_id=has_id) is STALE
    assert commit(shard, "one", 2, taken, has_id=has_id) is STALE
    assert commit(shard, "one", 3, kept, taken) == [NONE, NONE]
    assert commit(shard, "one", 4, kept) is STALE


def test_one_partition_that_the_member_did_not_own_refuses_the_commit_kip_1251(
    shard: ConsumerGroups, one: ConsumerClient
) -> None:
    kept, taken = kept_and_taken(one)
    committed = len(shard.log)
    assert commit(shard, "one", 2, kept, taken) is STALE
    assert commit(shard, "one", 2, kept, 99) is STALE
    assert len(shard.log) == committed


def test_metadata_is_checked_before_the_epoch_of_its_partition_kip_1251(
    shard: ConsumerGroups, one: ConsumerClient
) -> None:
    kept, taken = kept_and_taken(one)
    committer = Committer(GROUP, "one", None, 2, 9)
    offsets = [OffsetToCommit("a", ZERO_UUID, taken, 7, -1, LONG), OffsetToCommit("a", ZERO_UUID, kept, 7, -1, "")]
    codes = shard.write(lambda state, now_ms: commit_offsets(state, committer, offsets, -1, now_ms))
    assert codes == [TOO_LARGE, NONE]


def test_partition_to_be_revoked_may_be_committed_at_its_epoch_kip_1251(shard: ConsumerGroups) -> None:
    one, two = ConsumerClient(shard, "one", ["a"]), ConsumerClient(shard, "two", ["a"])
    settle([one])
    two.heartbeat()
    request = one.request()
    request.topic_partitions = None
    one.send(request)
    member = shard.group.members["one"]
    assert (member.state, member.member_epoch) == (MemberState.UNREVOKED_PARTITIONS, 1)
    (revoked, *_) = member.pending_revocation[shard.topic_id("a")]
    # A response with a new epoch, while partitions are still to be revoked, as a later version may write.
    shard.append(assignment_record(GROUP, attrs.evolve(member, member_epoch=2)))
    assert commit(shard, "one", 1, revoked) == [NONE]
    assert commit(shard, "one", 0, revoked) is STALE


def test_partition_that_was_lost_and_assigned_again_has_its_new_epoch_kip_1251(
    shard: ConsumerGroups, one: ConsumerClient
) -> None:
    """Another member may have consumed it in between."""
    kept, _ = kept_and_taken(one)
    two = ConsumerClient(shard, "two", ["a"])
    settle([one, two])
    assert commit(shard, "one", 3, *two.names()["a"]) is STALE
    theirs = two.names()["a"]
    two.leave()
    settle([one])
    assert one.epoch == 5
    assert commit(shard, "one", 4, *theirs) is STALE
    assert commit(shard, "one", 4, kept) == [NONE]


@pytest.mark.parametrize(("version", "code"), [(5, ILLEGAL), (6, STALE)])
def test_transaction_at_an_earlier_epoch_is_refused_by_version_kip_1251_kip_1319(
    shard: ConsumerGroups, one: ConsumerClient, version: int, code: ErrorCode
) -> None:
    kept, taken = kept_and_taken(one)
    sent = {"producer": Producer(1, 0), "api_version": version}
    assert commit(shard, "one", 1, kept, **sent) == [NONE]
    assert commit(shard, "one", 2, taken, **sent) is code
    assert commit(shard, "one", 4, kept, **sent) is code


def test_transaction_without_a_member_may_commit_for_a_consumer_group(
    shard: ConsumerGroups, one: ConsumerClient
) -> None:
    """As for a classic group: a producer that knows its group's id alone (KIP-447)."""
    kept, _ = kept_and_taken(one)
    producer = Producer(1, 0)
    assert commit(shard, "", -1, kept, producer=producer) == [NONE]
    assert commit(shard, "", -1, kept) is commit(shard, "", 1, kept, producer=producer) is UNKNOWN
    assert commit(shard, "", -1, kept, producer=producer, instance_id="i") is UNKNOWN


def test_classic_member_may_commit_at_an_earlier_generation_kip_1251() -> None:
    shard = shard_with()
    member, client = mixed(shard)
    kept, generation = sorted(member.names()["a"]), member.generation
    third = ConsumerClient(shard, "third", ["a"])
    third.heartbeat()
    settle_both(shard, [client, member, third])
    kept = [index for index in kept if index in member.names()["a"]]
    others = [index for index in range(4) if index not in member.names()["a"]]
    assert kept
    assert member.generation > generation
    assert commit(shard, member.member_id, generation, *kept, api_version=8) == [NONE] * len(kept)
    assert commit(shard, member.member_id, generation, others[0], api_version=8) is ILLEGAL
    assert commit(shard, member.member_id, 0, kept[0], api_version=8) is ILLEGAL


def test_generation_of_a_classic_group_is_the_epoch_of_its_partitions_after_an_upgrade_kip_1251() -> None:
    shard = shard_with()
    (member,) = stable_classic_members(shard, 1, is_cooperative=True)
    generation = member.generation
    client = ConsumerClient(shard, "client", ["a"])
    settle_both(shard, [client, member])
    kept = sorted(member.names()["a"])
    assert member.generation > generation
    assert commit(shard, member.member_id, generation, *kept) == [NONE] * len(kept)
    assert commit(shard, member.member_id, generation - 1, kept[0]) is ILLEGAL


def test_static_member_that_left_for_a_while_keeps_partitions_from_the_first_epoch_kip_1251(
    shard: ConsumerGroups,
) -> None:
    """Kafka sets the epochs of its partitions to 0, so that its next incarnation may commit at any of its epochs."""
    client = ConsumerClient(shard, "m", ["a"], instance_id="i")
    settle([client])
    client.leave(-2)
    assert shard.group.members["m"].assignment_epochs == {shard.topic_id("a"): dict.fromkeys(range(4), 0)}
    assert commit(shard, "m", 1, 0) is STALE
    back = ConsumerClient(shard, "back", ["a"], instance_id="i")
    settle([back])
    assert back.epoch == 1
    assert commit(shard, "back", 0, 0) == [NONE]
    assert commit(shard, "m", 1, 0) is UNKNOWN


def test_epochs_are_those_of_the_log_after_a_load_kip_1251(shard: ConsumerGroups, one: ConsumerClient) -> None:
    kept, taken = kept_and_taken(one)
    before = shard.group.members["one"]
    shard.compact(keeps_tombstones=False)
    shard.load()
    assert shard.group.members["one"] == before
    assert commit(shard, "one", 2, kept) == [NONE]
    assert commit(shard, "one", 2, taken) is STALE


@pytest.mark.parametrize("epochs", [None, [], [1]], ids=["null", "none", "too few"])
def test_partitions_of_records_without_epochs_are_assigned_at_the_members_epoch_kip_1251(
    shard: ConsumerGroups, one: ConsumerClient, epochs: list[int] | None
) -> None:
    """Records of Kafka before 4.3, and of earlier versions of this project."""
    kept, taken = kept_and_taken(one)
    topics = [AssignedTopicPartitions(topic_id=shard.topic_id("a"), partitions=[0, 1, 2, 3], assignment_epochs=epochs)]
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="one")
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=3, previous_member_epoch=2, assigned_partitions=topics
    )
    shard.append(CoordinatorRecord(encode_key(key), encode_value(value)))
    assert commit(shard, "one", 2, kept) is STALE
    assert commit(shard, "one", 3, kept, taken) == [NONE, NONE]
    two = ConsumerClient(shard, "two", ["a"])
    settle([one, two])
    (still, *_) = one.names()["a"]
    assert commit(shard, "one", 3, still) == [NONE]
    assert commit(shard, "one", 2, still) is STALE


def test_partitions_of_a_member_that_is_away_have_no_negative_epoch_kip_1251() -> None:
    topic = AssignedTopicPartitions(topic_id=b"t" * 16, partitions=[4])
    value = ConsumerGroupCurrentMemberAssignmentValue(member_epoch=-2, assigned_partitions=[topic])
    assert ConsumerMember(member_id="m").with_assignment(value).assignment_epoch(b"t" * 16, 4) == 0
