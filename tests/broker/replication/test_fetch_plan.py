"""A follower's fetch requests, and how it interprets the responses."""

from collections.abc import Iterable
from math import inf
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker.replication.cached_partition import CachedPartition, FetchedPartition
from broker.replication.fetch_plan import (
    BACKOFF_MIN_MS,
    Diverging,
    FetchPlan,
    FetchSettings,
    OutOfRange,
    Position,
    Records,
    Refused,
)
from broker.replication.fetch_sessions import FetchSessions
from broker.wire.api.fetch import EpochEndOffset, FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from broker.wire.errors import ErrorCode, KafkaError

T, U = b"t" * 16, b"u" * 16
SETTINGS = FetchSettings(replica_id=2, backoff_ms=100)
BROKER_EPOCH = 77


def at(offset: int, leader_epoch: int = 3, last_epoch: int = 3) -> Position:
    return Position(leader_epoch, offset, last_epoch, 0)


def plan_of(*keys: tuple[bytes, int]) -> FetchPlan:
    plan = FetchPlan(SETTINGS)
    for key in keys:
        plan.follow(key, at(10))
    return plan


def request_of(plan: FetchPlan, now: float = 0) -> FetchRequest:
    request = plan.request(BROKER_EPOCH, now)
    assert request is not None
    return request


def named(request: FetchRequest) -> dict[tuple[bytes, int], int]:
    return {
        (topic.topic_id, each.partition): each.fetch_offset for topic in request.topics for each in topic.partitions
    }


def forgotten(request: FetchRequest) -> list[tuple[bytes, int]]:
    return [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]


def answer(*data: PartitionData, topic_id: bytes = T, session_id: int = 5, error: int = 0) -> FetchResponse:
    topics = [FetchableTopicResponse(topic_id=topic_id, partitions=list(data))] if data else []
    return FetchResponse(error_code=error, session_id=session_id, responses=topics)


def test_first_request_names_every_partition() -> None:
    plan = FetchPlan(SETTINGS)
    plan.follow((T, 1), Position(3, 10, 2, 4))
    request = request_of(plan)
    assert request.replica_state is not None
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, BROKER_EPOCH)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (0, 1, 10 << 20)
    (partition,) = request.topics[0].partitions
    assert (partition.partition, partition.fetch_offset, partition.last_fetched_epoch) == (1, 10, 2)
    assert (partition.current_leader_epoch, partition.log_start_offset) == (3, 4)
    assert partition.partition_max_bytes == 1 << 20


def test_within_a_session_only_changes_are_named() -> None:
    plan = plan_of((T, 0), (T, 1), (U, 0))
    assert named(request_of(plan)) == {(T, 0): 10, (T, 1): 10, (U, 0): 10}
    plan.handle_response(answer(), 0)
    plan.set_position((T, 0), at(11))
    plan.forget((T, 1))
    plan.follow((U, 1), at(0))
    request = request_of(plan)
    assert (request.session_id, request.session_epoch) == (5, 1)
    assert named(request) == {(T, 0): 11, (U, 1): 0}
    assert forgotten(request) == [(T, 1)]
    plan.handle_response(answer(), 0)
    request = request_of(plan)
    assert (request.session_epoch, named(request), forgotten(request)) == (2, {}, [])
    assert request.max_wait_ms == 500


def test_without_a_session_all_partitions_are_named_and_served_ones_come_last() -> None:
    plan = plan_of((T, 0), (T, 1))
    request_of(plan)
    plan.handle_response(answer(session_id=0), 0)
    plan.set_position((T, 0), at(11))
    request = request_of(plan)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert list(named(request).items()) == [((T, 1), 10), ((T, 0), 11)]
    assert request.max_wait_ms == 500, "nothing would come of asking sooner"


@pytest.mark.parametrize(
    ("code", "session_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 5),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 5),
    ],
)
def test_broken_session_is_opened_again(code: ErrorCode, session_id: int) -> None:
    plan = plan_of((T, 0))
    request_of(plan)
    plan.handle_response(answer(), 0)
    request_of(plan)
    assert plan.handle_response(answer(error=code), 0) == []
    request = request_of(plan)
    assert (request.session_id, request.session_epoch, named(request)) == (session_id, 0, {(T, 0): 10})


def test_request_after_a_lost_response_names_every_partition() -> None:
    plan = plan_of((T, 0))
    request_of(plan)
    plan.handle_response(answer(), 0)
    request_of(plan)
    plan.request_lost()
    request = request_of(plan)
    assert (request.session_id, request.session_epoch, named(request)) == (5, 0, {(T, 0): 10})


def test_response_with_an_error_is_followed_by_a_pause() -> None:
    plan = plan_of((T, 0))
    request_of(plan)
    plan.handle_response(answer(error=ErrorCode.UNKNOWN_SERVER_ERROR), 0)
    assert plan.request(BROKER_EPOCH, BACKOFF_MIN_MS / 1000 - 0.001) is None
    assert named(request_of(plan, BACKOFF_MIN_MS / 1000)) == {(T, 0): 10}


def test_responses_become_outcomes() -> None:
    plan = plan_of(*[(T, index) for index in range(5)])
    request_of(plan)
    records = PartitionData(partition_index=0, records=memoryview(b"x"))
    diverging = PartitionData(partition_index=1, diverging_epoch=EpochEndOffset(epoch=2, end_offset=7))
    out_of_range = PartitionData(partition_index=2, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    moved_away = PartitionData(partition_index=3, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    unheard_of = PartitionData(partition_index=4, error_code=12_345)
    assert plan.handle_response(answer(records, diverging, out_of_range, moved_away, unheard_of), 0) == [
        Records((T, 0), 3, records),
        Diverging((T, 1), 3, 2, 7),
        OutOfRange((T, 2), 3),
        Refused((T, 3), 3, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        Refused((T, 4), 3, ErrorCode.UNKNOWN_SERVER_ERROR),
    ]


@pytest.mark.parametrize("change", ["forgotten", "another epoch", "another offset", "paused"])
def test_response_for_a_former_position_is_ignored(change: str) -> None:
    plan = plan_of((T, 0))
    request_of(plan)
    if change == "forgotten":
        plan.forget((T, 0))
    elif change == "paused":
        plan.back_off((T, 0), 0)
    else:
        plan.follow((T, 0), at(10, leader_epoch=4) if change == "another epoch" else at(9))
    assert plan.handle_response(answer(PartitionData(partition_index=0, records=memoryview(b"x"))), 0) == []
    assert plan.handle_response(answer(PartitionData(partition_index=9)), 0) == []


def test_pauses_grow_and_end_with_success() -> None:
    plan = plan_of((T, 0), (T, 1))
    now = 0.0
    for pause in (0.01, 0.02, 0.04, 0.08, 0.1, 0.1):
        plan.back_off((T, 0), now)
        assert plan.ready_at() == -inf
        assert (T, 0) not in named_all(plan, now + pause - 0.001)
        assert (T, 0) in named_all(plan, now + pause)
        now += pause
    plan.set_position((T, 0), at(11))
    plan.back_off((T, 0), now)
    plan.back_off((T, 1), now)
    assert plan.ready_at() == now + 0.01
    plan.follow((T, 0), at(11))
    assert plan.ready_at() == -inf


def test_request_does_not_wait_at_the_leader_beyond_the_pause_of_another_partition() -> None:
    plan = plan_of((T, 0), (T, 1))
    request_of(plan)
    refused = PartitionData(partition_index=0, error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)
    plan.handle_response(answer(refused, PartitionData(partition_index=1)), 0)
    waiting = request_of(plan, 0.002)
    assert forgotten(waiting) == [(T, 0)]
    assert waiting.max_wait_ms == BACKOFF_MIN_MS - 2
    plan.handle_response(answer(), 0.01)
    again = request_of(plan, 0.01)
    assert (named(again), again.max_wait_ms) == ({(T, 0): 10}, 500)


def named_all(plan: FetchPlan, now: float) -> Iterable[tuple[bytes, int]]:
    plan.request_lost()
    return named(request_of(plan, now))


def test_partition_with_a_fenced_epoch_waits_for_the_metadata() -> None:
    plan = plan_of((T, 0))
    request_of(plan)
    fenced = PartitionData(partition_index=0, error_code=ErrorCode.FENCED_LEADER_EPOCH)
    assert plan.handle_response(answer(fenced), 0) == [Refused((T, 0), 3, ErrorCode.FENCED_LEADER_EPOCH)]
    assert plan.ready_at() == inf
    assert plan.request(BROKER_EPOCH, 1e12) is None
    plan.follow((T, 0), at(10, leader_epoch=4))
    request = request_of(plan)
    assert named(request) == {(T, 0): 10}
    assert request.topics[0].partitions[0].current_leader_epoch == 4


def test_lagging_partitions_are_found_from_responses_and_may_be_delayed() -> None:
    plan = plan_of((T, 0), (T, 1), (T, 2))
    assert not plan.lagging
    request_of(plan)
    plan.handle_response(
        answer(*[PartitionData(partition_index=index, high_watermark=11 + index) for index in range(3)]), 0
    )
    for index in range(3):
        plan.set_position((T, index), at(12))
    assert list(plan.lagging) == [(T, 2)]
    plan.delay((T, 2), 5)
    plan.delay((T, 2), 3)  # it stays unchanged
    request = request_of(plan, 4)
    assert (named(request), forgotten(request)) == ({(T, 0): 12, (T, 1): 12}, [(T, 2)])
    plan.handle_response(answer(), 4)
    assert named(request_of(plan, 5)) == {(T, 2): 12}
    plan.handle_response(answer(PartitionData(partition_index=2, high_watermark=13)), 5)
    plan.set_position((T, 2), at(13))
    assert not plan.lagging


def test_waiting_request_is_ended_for_a_new_partition() -> None:
    plan = plan_of((T, 0))
    request_of(plan)
    assert not plan.is_urgent
    plan.handle_response(answer(), 0)
    plan.follow((T, 1), at(0))
    assert not plan.is_urgent, "the next request names it"
    request_of(plan)
    plan.set_position((T, 0), at(11))
    plan.forget((T, 1))
    assert not plan.is_urgent
    plan.follow((T, 2), at(0))
    assert plan.is_urgent

    ending = plan.session_end(BROKER_EPOCH)
    assert (ending.session_id, ending.session_epoch, ending.topics) == (5, -1, [])
    assert not plan.is_urgent, "once is enough"
    plan.handle_response(answer(), 0)
    request = request_of(plan)
    assert (request.session_id, request.session_epoch, request.max_wait_ms) == (0, 0, 0)
    assert named(request) == {(T, 0): 11, (T, 2): 0}


@pytest.mark.parametrize("what", ["opens a session", "belongs to none"])
def test_request_without_a_session_or_wait_is_not_ended(what: str) -> None:
    plan = plan_of((T, 0))
    request_of(plan)
    if what == "belongs to none":
        plan.handle_response(answer(session_id=0), 0)
        request_of(plan)
    plan.follow((T, 1), at(0))
    assert not plan.is_urgent


def test_plan_without_partitions_makes_no_request() -> None:
    plan = plan_of((T, 0))
    plan.forget((T, 0))
    assert not plan
    assert plan.request(BROKER_EPOCH, 0) is None
    assert plan.ready_at() == inf


KEYS = st.sampled_from([(T, 0), (T, 1), (T, 2), (U, 0)])


class SessionMachine(RuleBasedStateMachine):
    """A plan and a leader's sessions under random events: the leader always reads the partitions that are followed."""

    def __init__(self) -> None:
        super().__init__()
        self.plan = FetchPlan(SETTINGS)
        self.sessions = FetchSessions(2, Random(1))
        self.followed: dict[tuple[bytes, int], Position] = {}
        self.paused: dict[tuple[bytes, int], float] = {}
        self.now = 0.0

    @rule(key=KEYS, offset=st.integers(0, 3))
    def follow(self, key: tuple[bytes, int], offset: int) -> None:
        self.plan.follow(key, at(offset))
        self.followed[key] = at(offset)
        self.paused.pop(key, None)

    @rule(key=KEYS)
    def forget(self, key: tuple[bytes, int]) -> None:
        self.plan.forget(key)
        self.followed.pop(key, None)
        self.paused.pop(key, None)

    @precondition(lambda self: self.followed)
    @rule(data=st.data())
    def pause(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(list(self.followed)))
        self.plan.back_off(key, self.now)
        self.paused[key] = self.plan._paused[key]

    @precondition(lambda self: self.followed)
    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(list(self.followed)))
        self.followed[key] = at(self.followed[key].offset + 1)
        self.plan.set_position(key, self.followed[key])

    @rule(ms=st.integers(1, 60))
    def wait(self, ms: int) -> None:
        self.now += ms / 1000

    @rule()
    def evict(self) -> None:
        self.sessions = FetchSessions(2, Random(2))

    @rule()
    def lose(self) -> None:
        self.plan.request_lost()

    @rule(fate=st.sampled_from(["answered", "answer lost", "request lost"]))
    def ask(self, fate: str) -> None:
        self.paused = {key: until for key, until in self.paused.items() if until > self.now}
        active = {key: position for key, position in self.followed.items() if key not in self.paused}
        request = self.plan.request(BROKER_EPOCH, self.now)
        assert (request is None) == (not active)
        if request is None:
            return
        if fate == "request lost":
            self.plan.request_lost()
            return
        response = self._serve(request, active)
        if fate == "answer lost":
            self.plan.request_lost()
        else:
            outcomes = self.plan.handle_response(response, self.now)
            assert bool(outcomes) == bool(response.responses)

    def _serve(self, request: FetchRequest, active: dict[tuple[bytes, int], Position]) -> FetchResponse:
        cached_partitions = [
            CachedPartition(topic.topic_id, each.partition, each.fetch_offset, 1, 3, 3, 0)
            for topic in request.topics
            for each in topic.partitions
        ]
        try:
            fetch = self.sessions.begin(
                request.session_id,
                request.session_epoch,
                cached_partitions,
                forgotten(request),
                by_topic_id=True,
                now_ms=0,
            )
        except KafkaError as error:
            return FetchResponse(error_code=error.code)
        read = {(cached.topic, cached.index): cached.fetch_offset for cached in fetch.cached_partitions}
        assert read == {key: position.offset for key, position in active.items()}
        selected = fetch.select([FetchedPartition(cached, high_watermark=1) for cached in fetch.cached_partitions])
        return FetchResponse(
            session_id=fetch.session_id,
            responses=[
                FetchableTopicResponse(
                    topic_id=each.cached.topic, partitions=[PartitionData(partition_index=each.cached.index)]
                )
                for each in selected
                if isinstance(each.cached.topic, bytes)
            ],
        )

    @invariant()
    def counts_agree(self) -> None:
        assert len(self.plan) == len(self.followed)


SessionMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
test_the_leader_reads_for_those_that_are_followed = SessionMachine.TestCase
