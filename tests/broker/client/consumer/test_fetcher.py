"""The fetch requests of a consumer, and its handling of responses; the brokers answer from scripts."""

import contextlib

import pytest
import trio

from broker.client import ConsumerRecord, CorruptRecords, KafkaError, TopicPartition
from broker.wire.api.fetch import (
    AbortedTransaction,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from broker.wire.errors import ErrorCode
from broker.wire.records import EndTransactionMarker, encode_end_transaction_marker
from tests.support.scripted_broker import (
    TOPIC_ID,
    ScriptedBroker,
    answer_from_log,
    batch,
    brokers,
    consumer_of,
    once,
    refusal,
)
from tests.support.topics_for_consumers import WITHIN_S, ZERO, fetch_exactly, values


async def test_requests_carry_the_settings_and_later_ones_only_changes_kip_227() -> None:
    limits = {"fetch_min_bytes": 3, "fetch_max_bytes": 5_000, "max_partition_fetch_bytes": 2_000, "client_rack": "r"}
    async with brokers(answer_from_log) as [broker], consumer_of(broker, **limits) as consumer:
        assert values(await fetch_exactly(consumer, 3)) == [0, 1, 2]
        with trio.fail_after(WITHIN_S):
            while broker.fetches[-1].topics:
                await consumer.fetch(timeout_s=0.05)
        first, second, *_, last = broker.fetches
        assert (first.min_bytes, first.max_bytes, first.max_wait_ms, first.rack_id) == (3, 5_000, 20, "r")
        asked = first.topics[0].partitions[0]
        assert (asked.partition_max_bytes, asked.current_leader_epoch) == (2_000, 0)
        assert (first.session_id, first.session_epoch) == (0, 0)
        assert (second.session_id, second.session_epoch) == (7, 1)
        assert [topic.topic_id for topic in second.topics] == [TOPIC_ID]
        assert not last.topics


async def test_the_session_is_closed_with_the_consumer_kip_227() -> None:
    async with brokers(answer_from_log) as [broker]:
        async with consumer_of(broker) as consumer:
            await fetch_exactly(consumer, 3)
        final = next(request for request in broker.fetches if request.session_epoch == -1)
        assert (final.session_id, final.topics) == (7, [])


async def test_topics_are_named_where_the_broker_knows_no_ids_kip_516() -> None:
    async with brokers(answer_from_log, fetch_versions=(4, 12)) as [broker], consumer_of(broker) as consumer:
        assert values(await fetch_exactly(consumer, 3)) == [0, 1, 2]
        assert [topic.topic for topic in broker.fetches[0].topics] == ["topic"]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
async def test_a_refused_session_is_followed_by_another_one(code: ErrorCode) -> None:
    answer = once(lambda broker, request: FetchResponse(error_code=code), at=1)
    async with brokers(answer) as [broker], consumer_of(broker) as consumer:
        assert values(await fetch_exactly(consumer, 3)) == [0, 1, 2]
        assert broker.fetches[2].session_epoch == 0


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
async def test_passing_failures_of_a_partition_are_retried(code: ErrorCode) -> None:
    async with brokers(once(refusal(code), at=1)) as [broker], consumer_of(broker) as consumer:
        assert values(await fetch_exactly(consumer, 3)) == [0, 1, 2]


async def test_a_refusal_that_names_the_new_leader_is_followed_kip_951() -> None:
    def moved(broker: ScriptedBroker, request: FetchRequest) -> FetchResponse:
        leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=5)
        part = PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=leader)
        endpoint = NodeEndpoint(node_id=2, host="127.0.0.1", port=broker.brokers[2])
        return broker.response(part, node_endpoints=[endpoint])

    async with brokers(moved, answer_from_log) as [first, second], consumer_of(first) as consumer:
        assert values(await fetch_exactly(consumer, 3)) == [0, 1, 2]
        assert len(first.fetches) == 1
        assert second.fetches[0].topics[0].partitions[0].current_leader_epoch == 5


async def test_a_lagging_follower_sends_the_consumer_back_to_the_leader_kip_392() -> None:
    def prefer(broker: ScriptedBroker, request: FetchRequest) -> FetchResponse:
        return broker.response(PartitionData(preferred_read_replica=2))

    behind = refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
    async with brokers(once(prefer), behind) as [leader, follower], consumer_of(leader) as consumer:
        assert values(await fetch_exactly(consumer, 3)) == [0, 1, 2]
        assert len(follower.fetches) == 1


async def test_the_leader_is_asked_again_when_a_preference_has_expired_kip_392() -> None:
    def prefer(broker: ScriptedBroker, request: FetchRequest) -> FetchResponse | None:
        offset = broker.offset
        return broker.response(PartitionData(preferred_read_replica=2)) if offset < 3 else None

    settings = {"metadata_max_age_ms": 30, "fetch_max_wait_ms": 5}
    async with brokers(prefer, answer_from_log) as [leader, follower], consumer_of(leader, **settings) as consumer:
        assert values(await fetch_exactly(consumer, 3)) == [0, 1, 2]
        with trio.fail_after(5):
            while len(leader.fetches) < 3:
                await consumer.fetch(timeout_s=0.01)
        assert len(follower.fetches) >= 3


async def test_a_missing_authorization_is_raised_and_tried_again() -> None:
    answer = once(refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    async with brokers(answer) as [broker], consumer_of(broker) as consumer:
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED: topic-0"), trio.fail_after(5):
            await consumer.fetch()
        assert values(await fetch_exactly(consumer, 3)) == [0, 1, 2]


async def test_a_damaged_batch_is_an_error_after_the_records_before_it() -> None:
    async with brokers(answer_from_log) as [broker], consumer_of(broker) as consumer:
        broker.log[1] = broker.log[1][:-1] + b"!"
        assert values(await fetch_exactly(consumer, 1)) == [0]
        for _ in range(2):
            with pytest.raises(CorruptRecords, match="offset 1 of topic-0"), trio.fail_after(5):
                await consumer.fetch()
        consumer.seek(ZERO, 2)
        assert values(await fetch_exactly(consumer, 1)) == [2]


async def test_bytes_that_are_no_batch_are_an_error() -> None:
    async with brokers(answer_from_log) as [broker], consumer_of(broker) as consumer:
        broker.log[0] = b"\0" * 100
        with pytest.raises(CorruptRecords, match="offset 0 of topic-0"), trio.fail_after(5):
            await consumer.fetch()


async def test_batches_before_the_offset_that_was_asked_for_are_an_error() -> None:
    async with brokers(answer_from_log) as [broker], consumer_of(broker) as consumer:
        broker.log[2] = batch(0, 2)
        assert values(await fetch_exactly(consumer, 2)) == [0, 1]
        with pytest.raises(CorruptRecords, match="offset 2 of topic-0"), trio.fail_after(5):
            await consumer.fetch()


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION])
async def test_a_topic_that_may_not_be_read_at_all_is_an_error(code: ErrorCode) -> None:
    async with brokers(answer_from_log) as [broker]:
        broker.topic_error = code
        async with consumer_of(broker) as consumer:
            with pytest.raises(KafkaError, match=f"{code.name}: topic"), trio.fail_after(5):
                await consumer.fetch()
            broker.topic_error = ErrorCode.NONE
            with trio.fail_after(5):
                found: list[ConsumerRecord] = []
                while not found:
                    with contextlib.suppress(KafkaError):
                        found = await consumer.fetch()


async def test_a_buffer_of_a_byte_still_takes_a_batch_at_a_time() -> None:
    limits = {"fetch_buffer_bytes": 1, "fetch_max_bytes": 0, "max_partition_fetch_bytes": 0}
    async with brokers(answer_from_log, answer_from_log) as [broker, _], consumer_of(broker, **limits) as consumer:
        assert values(await fetch_exactly(consumer, 3)) == [0, 1, 2]


async def test_aborted_transactions_are_not_returned_and_the_lag_ends_at_the_last_stable_offset() -> None:
    aborted = batch(0, 2, producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    marker = encode_end_transaction_marker(
        EndTransactionMarker(False, 0), timestamp=0, producer_id=9, producer_epoch=0, base_offset=2, leader_epoch=0
    )

    def transactions(broker: ScriptedBroker, request: FetchRequest) -> FetchResponse:
        assert request.isolation_level == 1
        return broker.response(
            PartitionData(
                records=aborted + marker + batch(3, 2),
                high_watermark=9,
                last_stable_offset=5,
                aborted_transactions=[AbortedTransaction(producer_id=9, first_offset=0)],
            )
        )

    committed = {"isolation_level": "read_committed"}
    async with brokers(once(transactions)) as [broker], consumer_of(broker, **committed) as consumer:
        assert values(await fetch_exactly(consumer, 2)) == [3, 4]
        assert consumer.current_lag(ZERO) == 0


async def test_a_response_that_comes_after_a_seek_is_dropped() -> None:
    asked, released = trio.Event(), trio.Event()

    async def late(broker: ScriptedBroker, request: FetchRequest) -> FetchResponse:
        asked.set()
        await released.wait()
        return await broker.from_log(request)

    async with brokers(once(late)) as [broker], consumer_of(broker) as consumer:
        await asked.wait()
        consumer.seek(ZERO, 2)
        released.set()
        assert values(await fetch_exactly(consumer, 1)) == [2]


async def test_offset_out_of_range_is_reset_after_prefetched_records_are_returned() -> None:
    """A reset drops what was fetched, and with `latest` these records would never be returned."""
    behind = once(refusal(ErrorCode.OFFSET_OUT_OF_RANGE), at=1)
    async with brokers(behind) as [broker], consumer_of(broker, auto_offset_reset="latest") as consumer:
        assigned = consumer._opened().subscription.assigned(ZERO)
        with trio.fail_after(WITHIN_S):
            while assigned.last_failure is None:
                await trio.sleep(0.001)
        assert values(await fetch_exactly(consumer, 3)) == [0, 1, 2]
        offsets = [request.topics[0].partitions[0].fetch_offset for request in broker.fetches if request.topics]
        assert offsets[:3] == [0, 1, 2], "not 0, as after a reset"


async def test_partition_whose_records_came_is_named_last_in_later_requests() -> None:
    """A response of limited size has records of the partitions that its request names first."""
    async with brokers(answer_from_log) as [broker], consumer_of(broker) as consumer:
        broker.partition_count = 2
        other = TopicPartition("topic", 1)
        consumer.assign([ZERO, other])
        assert [each.partition for each in consumer._opened().subscription.partitions] == [ZERO, other]
        assert values(await fetch_exactly(consumer, 1)) == [0]
        assert [each.partition for each in consumer._opened().subscription.partitions] == [other, ZERO]


async def test_partitions_that_are_not_assigned_anymore_leave_the_session() -> None:
    async with brokers(answer_from_log) as [broker], consumer_of(broker) as consumer:
        await fetch_exactly(consumer, 3)
        await consumer.fetch(timeout_s=0.05)
        consumer.assign([TopicPartition("topic", 7)])
        count = len(broker.fetches)
        with pytest.raises(KafkaError, match="topic topic has 1 partition, and no partition 7"):
            await consumer.fetch(timeout_s=0.1)
        assert len(broker.fetches) <= count + 1
