"""Fetches of one partition without the codec (`broker.replication.single_fetches`) are those that the codec makes."""

from random import Random
from typing import Any

import pytest

from broker.client.payloads import decode_response, encode_request
from broker.replication.fetch_plan import (
    FETCH_VERSION,
    FetchPlan,
    FetchSettings,
    Outcome,
    PartitionKey,
    Position,
    Records,
)
from broker.replication.single_fetches import SingleFetches, single_response
from broker.wire.api.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)
from broker.wire.codec import encode
from broker.wire.errors import WireError

KEYS = [(bytes([topic]) * 16, index) for topic in (1, 2) for index in (0, 3)]
SETTINGS = FetchSettings(replica_id=2)


def payload(response: Any) -> memoryview:
    return memoryview(b"\0\0\0\7\0" + b"".join(encode(response, FETCH_VERSION)))


def response(random: Random, key: PartitionKey, session_id: int = 5) -> FetchResponse:
    """Mostly data of one partition; with one of the fields that the codec has to read in every second one."""
    offset = random.randrange(1 << 40)
    data = PartitionData(partition_index=key[1], high_watermark=offset, last_stable_offset=offset, log_start_offset=3)
    data.aborted_transactions = random.choice([None, []])
    data.records = bytes(random.choice([0, 1, 126, 127, 128, 20_000]))
    topic = FetchableTopicResponse(topic_id=key[0], partitions=[data])
    made = FetchResponse(session_id=session_id, throttle_time_ms=random.choice([0, 7]), responses=[topic])
    match random.randrange(16):
        case 0:
            data.error_code = random.choice([1, 6, 74])
        case 1:
            data.diverging_epoch = EpochEndOffset(epoch=1, end_offset=2)
        case 2:
            data.aborted_transactions = [AbortedTransaction(producer_id=1, first_offset=2)]
        case 3:
            data.records = None
        case 4:
            topic.partitions.append(PartitionData(partition_index=9, records=b""))
        case 5:
            made.node_endpoints = [NodeEndpoint(node_id=1, host="h", port=1)]
        case 6:
            made.responses = []
        case 7:
            made.error_code, made.responses = random.choice([(70, []), (71, [topic])])
    return made


@pytest.mark.seeds(2)
def test_single_response_equals_the_decoded_response(seed: int) -> None:
    random = Random(seed)
    found = 0
    for _ in range(200):
        made = bytearray(payload(response(random, random.choice(KEYS))))
        if random.random() < 0.5:
            made[random.randrange(4, min(len(made), 90))] = random.randrange(256)
        if random.random() < 0.1:
            del made[random.randrange(4, len(made)) :]
        single = single_response(memoryview(made))
        if single is None:
            continue
        found += 1
        session_id, (topic_id, index), data = single
        topic = FetchableTopicResponse(topic_id=topic_id, partitions=[data])
        decoded = decode_response(FetchRequest, FETCH_VERSION, memoryview(made))
        throttle_time_ms = decoded.throttle_time_ms
        assert data.partition_index == index
        same = FetchResponse(session_id=session_id, throttle_time_ms=throttle_time_ms, responses=[topic])
        assert payload(decoded) == payload(same)
    assert found > 40


@pytest.mark.seeds(5)
def test_plan_with_single_fetches_sends_and_applies_the_same_as_without(seed: int) -> None:
    """Two plans get the same partitions and responses; only one of them makes single fetches."""
    random = Random(seed)
    short, full = FetchPlan(SETTINGS), FetchPlan(SETTINGS)
    fetches, singles = SingleFetches(SETTINGS, "follower"), 0
    broker_epoch = 7
    for key in KEYS[: random.randrange(1, 4)]:
        for plan in (short, full):
            plan.follow(key, Position(1, 0, 0, 0))
    for round_number in range(150):
        now, offset = float(round_number), round_number + 1
        request = full.request(broker_epoch, now)
        if single := short.single_request():
            singles += 1
            frame = fetches.frame(*single, broker_epoch=broker_epoch, correlation_id=round_number)
            assert request is not None
            expected = bytearray(encode_request(request, FETCH_VERSION, "follower"))
            expected[4:8] = round_number.to_bytes(4)
            assert frame == len(expected).to_bytes(4) + expected
        else:
            assert repr(short.request(broker_epoch, now)) == repr(request)
        key = random.choice(KEYS)
        answer = payload(response(random, key, session_id=5 if random.random() < 0.97 else 6))
        outcomes = full.handle_response(decode_response(FetchRequest, FETCH_VERSION, answer), now)
        assert [*map(shown, handled(short, answer, now))] == [*map(shown, outcomes)]
        broker_epoch += random.random() < 0.02
        act = random.randrange(12)
        for plan in (short, full):
            if act < 9:
                plan.set_position(key, Position(1, offset, 1, 0))
            elif act == 9:
                plan.follow(key, Position(2, offset, 1, 0))
            elif act == 10:
                plan.forget(key)
            else:
                plan.request_lost()
    assert singles > 10


def shown(outcome: Outcome) -> tuple[str, bytes]:
    records: Any = outcome.data.records if isinstance(outcome, Records) else None
    return repr(outcome), bytes(records or b"")


def handled(plan: FetchPlan, answer: memoryview, now: float) -> list[Outcome]:
    if single := single_response(answer):
        return plan.handle_single(*single, now)
    return plan.handle_response(decode_response(FetchRequest, FETCH_VERSION, answer), now)


def test_truncated_response_is_left_to_the_codec() -> None:
    whole = payload(response(Random(1), KEYS[0]))
    for size in range(4, len(whole)):
        assert single_response(whole[:size]) is None
        with pytest.raises(WireError):
            decode_response(FetchRequest, FETCH_VERSION, whole[:size])
