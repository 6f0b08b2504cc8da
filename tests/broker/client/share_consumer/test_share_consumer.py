"""The requests of a share consumer, and its handling of responses; the leaders answer from scripts (KIP-932)."""

from collections.abc import Sequence
from typing import Any

import pytest
import trio

from broker.client import (
    AcknowledgeType,
    ClientError,
    ConfigError,
    ConnectionLost,
    JsonDeserializer,
    KafkaError,
    ShareConsumer,
    ShareRecord,
    TimedOut,
    TopicPartition,
    UnreadableRecords,
    UnsupportedByBroker,
)
from broker.wire.api.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from broker.wire.api.share_fetch import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from broker.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from broker.wire.errors import ErrorCode
from tests.support.scripted_share_leaders import (
    acknowledged,
    fetched,
    first_of,
    share_consumer_of,
    share_leaders,
)

WITHIN_S = 10.0
ZERO = TopicPartition("topic", 0)
FETCH, ACKNOWLEDGE = "ShareFetchRequest", "ShareAcknowledgeRequest"
EXPLICIT = {"share_acknowledgement_mode": "explicit"}


async def fetch(consumer: ShareConsumer) -> list[ShareRecord]:
    with trio.fail_after(WITHIN_S):
        return await consumer.fetch()


def offsets(records: Sequence[ShareRecord]) -> list[int]:
    return [record.offset for record in records]


def refused(code: ErrorCode) -> Any:
    return lambda request: acknowledged(request, code)


# Requests


async def test_acknowledgements_go_with_the_next_fetch_alone_with_a_commit_and_at_the_end() -> None:
    told: list[tuple[TopicPartition, list[int], Exception | None]] = []
    async with share_leaders() as cluster:
        cluster.store(0, 0, 3, delivery_count=2)
        async with share_consumer_of(cluster, **EXPLICIT, on_acknowledged=lambda *each: told.append(each)) as consumer:
            records = await fetch(consumer)
            assert [(each.offset, each.value, each.delivery_count) for each in records] == [
                (0, b"0", 2),
                (1, b"1", 2),
                (2, b"2", 2),
            ]
            assert consumer.acquisition_lock_timeout_ms() == 30_000
            for record, outcome in zip(records, (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE), strict=False):
                consumer.acknowledge(record, outcome)
            consumer.acknowledge(records[2], AcknowledgeType.REJECT)
            cluster.store(0, 3, 2)
            first, second = await fetch(consumer)
            consumer.acknowledge(first)
            assert (await consumer.commit()).raise_first() == {ZERO: None}
            consumer.acknowledge(second)
        assert cluster.outcomes() == [(FETCH, 0, 2, [1, 2, 3]), (ACKNOWLEDGE, 3, 3, [1]), (ACKNOWLEDGE, 4, 4, [1])]
        epochs = [request.share_session_epoch for request in cluster.fetches() + cluster.acknowledgements()]
        assert epochs == [*range(len(epochs) - 1), -1]
        assert [request.member_epoch for _, request in cluster.requests[-1:]] == [-1]
    assert told == [(ZERO, [0, 1, 2], None), (ZERO, [3], None), (ZERO, [4], None)]


async def test_implicit_acknowledgement_accepts_earlier_records_and_none_at_the_end() -> None:
    async with share_leaders() as cluster:
        cluster.store(0, 0, 3)
        async with share_consumer_of(cluster) as consumer:
            with trio.fail_after(WITHIN_S):
                assert (await anext(consumer)).offset == 0
                assert (await anext(consumer)).offset == 1
            with pytest.raises(ClientError, match=r"needs share\.acknowledgement\.mode"):
                consumer.acknowledge_offset(ZERO, 1)
        assert cluster.outcomes() == [(ACKNOWLEDGE, 0, 0, [1])]


async def test_nothing_is_fetched_unless_the_application_waits_for_records() -> None:
    async with share_leaders() as cluster, share_consumer_of(cluster, fetch_max_wait_ms=2_000) as consumer:
        cluster.store(0, 0, 1)
        assert offsets(await fetch(consumer)) == [0]
        cluster.store(0, 1, 1)
        assert (await consumer.commit()).raise_first() == {ZERO: None}
        assert len(cluster.fetches()) == 1


async def test_a_cancelled_fetch_takes_no_record_and_those_that_it_asked_for_come_next() -> None:
    async with share_leaders() as cluster, share_consumer_of(cluster, fetch_max_wait_ms=2_000) as consumer:
        with trio.move_on_after(WITHIN_S) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(consumer.fetch)
                while not cluster.fetches():
                    await trio.sleep(0.001)
                scope.cancel()
        cluster.store(0, 0, 2)
        assert offsets(await fetch(consumer)) == [0, 1]
        assert len(cluster.fetches()) == 1


async def test_records_that_did_not_reach_the_caller_of_a_face_come_next() -> None:
    async with share_leaders() as cluster, share_consumer_of(cluster) as consumer:
        cluster.store(0, 0, 2)
        records = await fetch(consumer)
        consumer._take_back(records)
        assert await fetch(consumer) == records
        assert len(cluster.fetches()) == 1
        assert cluster.outcomes() == []


async def test_fetched_records_are_dropped_once_their_lock_has_ended() -> None:
    async with share_leaders() as cluster:
        cluster.lock_ms = 400  # the first record has to come within it
        cluster.store(0, 0, 2)
        async with share_consumer_of(cluster) as consumer:
            with trio.fail_after(WITHIN_S):
                assert (await anext(consumer)).offset == 0
                await trio.sleep(0.45)
                cluster.store(0, 7, 1)
                assert (await anext(consumer)).offset == 7


async def test_record_limit_asks_one_leader_at_a_time_and_all_in_turn_kip_1206() -> None:
    running, most = 0, 0

    async def slowly(request: ShareFetchRequest) -> ShareFetchResponse:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(0.01)
        running -= 1
        return fetched()

    answers = first_of(ShareFetchRequest, slowly, times=6)
    settings = {"share_acquire_mode": "record_limit", "max_poll_records": 7}
    async with share_leaders((1, 2, 1), answers=answers) as cluster, share_consumer_of(cluster, **settings) as consumer:
        cluster.store(1, 0, 1)
        assert offsets(await fetch(consumer)) == [0]
        assert most == 1
        assert len(cluster.fetches(1)) in range(3, 6)
        assert len(cluster.fetches(2)) in range(2, 4)
        asked = cluster.fetches(1)[0]
        assert (asked.share_acquire_mode, asked.max_records, asked.batch_size) == (1, 7, 7)


async def test_a_renewed_lock_keeps_the_record_kip_1222() -> None:
    async with share_leaders() as cluster, share_consumer_of(cluster, **EXPLICIT) as consumer:
        cluster.store(0, 0, 2)
        first, second = await fetch(consumer)
        cluster.lock_ms = 40_000
        for record in (first, second):
            consumer.acknowledge(record, AcknowledgeType.RENEW)
        (await consumer.commit()).raise_first()
        assert [request.is_renew_ack for request in cluster.acknowledgements()] == [True]
        assert consumer.acquisition_lock_timeout_ms() == 40_000
        consumer.acknowledge(first)
        assert await fetch(consumer) == [second]
        consumer.acknowledge(second)
        assert cluster.outcomes()[0] == (ACKNOWLEDGE, 0, 1, [4])


async def test_a_broker_without_renewals_is_not_asked_for_one_kip_1222() -> None:
    async with share_leaders(versions=(1, 1)) as cluster, share_consumer_of(cluster, **EXPLICIT) as consumer:
        cluster.store(0, 0, 1)
        (record,) = await fetch(consumer)
        consumer.acknowledge(record, AcknowledgeType.RENEW)
        assert isinstance((await consumer.commit())[ZERO], UnsupportedByBroker)


async def test_every_record_has_to_be_acknowledged_before_the_next_fetch_if_that_is_explicit() -> None:
    async with share_leaders() as cluster, share_consumer_of(cluster, **EXPLICIT) as consumer:
        cluster.store(0, 0, 2)
        first, second = await fetch(consumer)
        consumer.acknowledge(first)
        with pytest.raises(ClientError, match="offset 1 of topic-0 has not been acknowledged"):
            await consumer.fetch()
        consumer.acknowledge(second)
        assert await consumer.fetch(timeout_s=0.05) == []


async def test_a_record_that_cannot_be_deserialized_is_released_or_as_the_application_says() -> None:
    async with share_leaders() as cluster:
        settings = {**EXPLICIT, "value_deserializer": Odd()}
        async with share_consumer_of(cluster, **settings) as consumer:
            cluster.store(0, 0, 4)
            records = await fetch(consumer)
            assert [each.value for each in records] == [0, 2]
            for record in records:
                consumer.acknowledge(record)
            with pytest.raises(UnreadableRecords) as raised:
                await fetch(consumer)
            assert (raised.value.partition, raised.value.offsets) == (ZERO, (1, 3))
            assert isinstance(raised.value.__cause__, ValueError)
            consumer.acknowledge_offset(ZERO, 3, AcknowledgeType.REJECT)
        said = {
            offset: types[index % len(types)]
            for _, first, last, types in cluster.outcomes()
            for index, offset in enumerate(range(first, last + 1))
        }
        assert said == {0: 1, 1: 2, 2: 1, 3: 3}


class Odd(JsonDeserializer):
    def deserialize(self, topic: str, data: bytes, /) -> Any:
        if int(data) % 2:
            raise ValueError("it is odd")
        return int(data)


# Errors


@pytest.mark.parametrize(
    ("code", "is_retried"),
    [
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, True),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, True),
        (ErrorCode.INVALID_RECORD_STATE, False),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, False),
        (ErrorCode.UNKNOWN_TOPIC_ID, False),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, False),
    ],
)
async def test_an_acknowledgement_is_repeated_after_errors_that_leave_the_lock(
    code: ErrorCode, is_retried: bool
) -> None:
    answers = first_of(ShareAcknowledgeRequest, refused(code), times=2)
    async with share_leaders(answers=answers) as cluster, share_consumer_of(cluster) as consumer:
        cluster.store(0, 0, 1)
        await fetch(consumer)
        result = (await consumer.commit())[ZERO]
        assert len(cluster.acknowledgements()) == (3 if is_retried else 1)
        assert result is None if is_retried else isinstance(result, KafkaError) and result.code == code


async def test_an_acknowledgement_that_does_not_succeed_in_time_has_timed_out() -> None:
    answers = first_of(ShareAcknowledgeRequest, refused(ErrorCode.COORDINATOR_NOT_AVAILABLE), times=10_000)
    async with share_leaders(answers=answers) as cluster, share_consumer_of(cluster) as consumer:
        cluster.store(0, 0, 1)
        await fetch(consumer)
        result = (await consumer.commit(timeout_s=0.1))[ZERO]
        assert isinstance(result, TimedOut)
        cluster.answers = lambda request: None


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    ],
)
async def test_a_session_that_the_leader_has_dropped_is_followed_by_another_one(code: ErrorCode) -> None:
    answers = first_of(ShareFetchRequest, lambda request: ShareFetchResponse(error_code=code), at=1)
    told: list[Exception | None] = []
    async with share_leaders(answers=answers) as cluster:
        cluster.store(0, 0, 1)
        async with share_consumer_of(cluster, on_acknowledged=lambda *each: told.append(each[2])) as consumer:
            await fetch(consumer)
            cluster.store(0, 1, 1)
            assert offsets(await fetch(consumer)) == [1]
        assert [request.share_session_epoch for request in cluster.fetches()][:3] == [0, 1, 0]
    (error,) = told
    assert isinstance(error, KafkaError)
    assert error.code == code


async def test_a_second_session_that_is_refused_at_once_is_followed_by_a_pause() -> None:
    code = ErrorCode.SHARE_SESSION_LIMIT_REACHED
    answers = first_of(ShareFetchRequest, lambda request: ShareFetchResponse(error_code=code), times=10_000)
    backoff = {"retry_backoff_ms": 60_000, "retry_backoff_max_ms": 60_000}
    async with share_leaders(answers=answers) as cluster, share_consumer_of(cluster, **backoff) as consumer:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consumer.fetch)
            with trio.fail_after(WITHIN_S):
                while len(cluster.fetches()) < 2:
                    await trio.sleep(0.01)
                await trio.testing.wait_all_tasks_blocked(0.05)
            assert len(cluster.fetches()) == 2
            nursery.cancel_scope.cancel()
        cluster.answers = lambda request: None


async def test_records_of_a_lost_connection_cannot_be_acknowledged_and_fetching_goes_on() -> None:
    async with share_leaders() as cluster, share_consumer_of(cluster) as consumer:
        cluster.store(0, 0, 1)
        await fetch(consumer)

        def drop(request: Any) -> None:
            if isinstance(request, ShareAcknowledgeRequest):
                cluster.answers = lambda request: None
                cluster.nodes[1].drop_connections()

        cluster.answers = drop
        assert isinstance((await consumer.commit())[ZERO], ConnectionLost)
        cluster.store(0, 1, 1)
        assert offsets(await fetch(consumer)) == [1]
        assert cluster.fetches()[-1].share_session_epoch == 0


async def test_a_new_leader_that_a_response_names_is_asked_at_once_kip_951() -> None:
    async with share_leaders((1, 2)) as cluster, share_consumer_of(cluster, metadata_max_age_ms=10**6) as consumer:
        moved = PartitionData(
            partition_index=0,
            error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=5),
        )
        endpoint = NodeEndpoint(node_id=2, host="127.0.0.1", port=cluster.nodes[2].port)
        is_of_zero = first_of(ShareFetchRequest, lambda request: fetched(moved, node_endpoints=[endpoint]))
        cluster.answers = lambda request: is_of_zero(request) if names_zero(request) else None
        cluster.store(0, 4, 1)
        assert offsets(await fetch(consumer)) == [4]
        assert cluster.outcomes(1) == []
        (await consumer.commit()).raise_first()
        assert cluster.outcomes(2) == [(ACKNOWLEDGE, 4, 4, [1])]


def names_zero(request: Any) -> bool:
    """True for a ShareFetch that has partition 0."""
    topics = request.topics if isinstance(request, ShareFetchRequest) else []
    return any(partition.partition_index == 0 for topic in topics for partition in topic.partitions)


@pytest.mark.parametrize("code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.GROUP_ID_NOT_FOUND])
async def test_a_member_that_the_coordinator_refuses_raises_at_every_fetch(code: ErrorCode) -> None:
    refusal = ShareGroupHeartbeatResponse(error_code=code, error_message="it says why")
    answers = first_of(ShareGroupHeartbeatRequest, lambda request: refusal)
    async with share_leaders(answers=answers) as cluster, share_consumer_of(cluster) as consumer:
        for _ in range(2):
            with pytest.raises(KafkaError, match="it says why") as raised:
                await fetch(consumer)
            assert raised.value.code == code
        consumer.subscribe(["topic"])
        cluster.store(0, 0, 1)
        assert offsets(await fetch(consumer)) == [0]


async def test_a_cluster_without_share_groups_is_told_in_so_many_words() -> None:
    refusal = ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    answers = first_of(ShareGroupHeartbeatRequest, lambda request: refusal)
    async with share_leaders(answers=answers) as cluster, share_consumer_of(cluster) as consumer:
        with pytest.raises(UnsupportedByBroker, match=r"no share groups: the feature share\.version"):
            await fetch(consumer)


@pytest.mark.parametrize(
    "part",
    [
        {"partition_index": 0, "error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED},
        {"partition_index": 0, "error_code": ErrorCode.CORRUPT_MESSAGE},
    ],
)
async def test_an_error_of_a_partition_is_raised_and_the_next_fetch_tries_again(part: dict[str, Any]) -> None:
    answers = first_of(ShareFetchRequest, lambda request: fetched(PartitionData(**part)))
    async with share_leaders(answers=answers) as cluster, share_consumer_of(cluster) as consumer:
        cluster.store(0, 0, 1)
        with pytest.raises(KafkaError) as raised:
            await fetch(consumer)
        assert raised.value.code == part["error_code"]
        assert offsets(await fetch(consumer)) == [0]


async def test_one_task_at_a_time_fetches() -> None:
    async with share_leaders() as cluster, share_consumer_of(cluster) as consumer, trio.open_nursery() as nursery:
        nursery.start_soon(consumer.fetch, 5.0)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ClientError, match="one task at a time"):
            await consumer.fetch()
        nursery.cancel_scope.cancel()


async def test_a_response_that_leaves_out_a_partition_is_an_error_of_its_acknowledgement() -> None:
    answers = first_of(ShareAcknowledgeRequest, lambda request: ShareAcknowledgeResponse())
    async with share_leaders(answers=answers) as cluster, share_consumer_of(cluster) as consumer:
        cluster.store(0, 0, 1)
        await fetch(consumer)
        result = (await consumer.commit())[ZERO]
        assert isinstance(result, KafkaError)
        assert result.code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "needs a group.id"),
        ({"group_id": "g", "auto_offset_reset": "earliest"}, "share.auto.offset.reset"),
        ({"group_id": "g", "share_auto_offset_reset": "earliest"}, "kraft configs set group"),
        ({"group_id": "g", "config": {"isolation.level": "read_committed"}}, "share.isolation.level"),
        ({"group_id": "g", "enable_auto_commit": True}, "share.acknowledgement.mode"),
        ({"group_id": "g", "share_acquire_mode": "all"}, "batch_optimized, record_limit"),
    ],
)
def test_keys_that_share_consumers_do_not_have_are_refused_with_the_reason(settings: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        ShareConsumer("localhost:9092", **settings)
