"""Fetch sessions (KIP-227): remembered partitions, incremental responses, and lost requests."""

import random

import pytest

from broker.replication.cached_partition import CachedPartition, FetchedPartition
from broker.replication.fetch_sessions import (
    EVICTION_MIN_MS,
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    Fetch,
    FetchSessions,
)
from broker.wire.errors import ErrorCode, KafkaError

DATA = b"records"


def cached(index: int, offset: int = 0, topic: str | bytes = "orders") -> CachedPartition:
    return CachedPartition(topic, index, offset, max_bytes=1000, current_leader_epoch=-1, last_fetched_epoch=-1)


def sessions(slots: int = 10) -> FetchSessions:
    return FetchSessions(slots, random.Random(1))


def open_session(cache: FetchSessions, *cached_partitions: CachedPartition, now_ms: int = 0) -> Fetch:
    return cache.begin(NO_SESSION, INITIAL_EPOCH, list(cached_partitions), [], by_topic_id=False, now_ms=now_ms)


def go_on(
    cache: FetchSessions,
    session_id: int,
    epoch: int,
    *named: CachedPartition,
    forgotten: tuple[int, ...] = (),
    now_ms: int = 0,
) -> Fetch:
    keys: list[tuple[str | bytes, int]] = [("orders", index) for index in forgotten]
    return cache.begin(session_id, epoch, list(named), keys, by_topic_id=False, now_ms=now_ms)


def answer(fetch: Fetch, high_watermark: int = 0, busy: tuple[int, ...] = ()) -> list[int]:
    """The partitions in the response if those in `busy` have data."""
    fetched = [
        FetchedPartition(each, ErrorCode.NONE, high_watermark, high_watermark, 0, DATA if each.index in busy else None)
        for each in fetch.cached_partitions
    ]
    return [partition.cached.index for partition in fetch.select(fetched)]


def test_request_without_a_session_gets_all_partitions_and_leaves_no_session() -> None:
    cache = sessions()
    fetch = cache.begin(NO_SESSION, FINAL_EPOCH, [cached(0), cached(1)], [], by_topic_id=False, now_ms=0)
    assert fetch.session_id == NO_SESSION
    assert answer(fetch) == [0, 1]
    assert len(cache) == 0


def test_incremental_response_only_has_partitions_with_news() -> None:
    cache = sessions()
    opened = open_session(cache, cached(0), cached(1), cached(2))
    assert opened.session_id != NO_SESSION
    assert answer(opened, high_watermark=5) == [0, 1, 2]
    following = go_on(cache, opened.session_id, 1)
    assert [each.index for each in following.cached_partitions] == [0, 1, 2]
    assert answer(following, high_watermark=5) == []
    assert answer(go_on(cache, opened.session_id, 2), high_watermark=5, busy=(1,)) == [1]
    assert answer(go_on(cache, opened.session_id, 3), high_watermark=6) == [0, 2, 1]


def test_partition_with_data_moves_to_the_end_of_the_order() -> None:
    cache = sessions()
    opened = open_session(cache, cached(0), cached(1), cached(2))
    answer(opened)
    answer(go_on(cache, opened.session_id, 1), busy=(0,))
    assert [each.index for each in go_on(cache, opened.session_id, 2).cached_partitions] == [1, 2, 0]


def test_served_partition_comes_after_an_idle_one_that_gets_news() -> None:
    """A session goes round all of its partitions: the idle one has waited longer."""
    cache = sessions()
    busy, idle = cached(0), cached(1)
    opened = open_session(cache, busy, idle)
    answer(opened)
    opened.session.mark_idle(idle)
    answer(go_on(cache, opened.session_id, 1), busy=(0,))
    opened.session.due[idle] = None
    assert [each.index for each in go_on(cache, opened.session_id, 2).cached_partitions] == [1, 0]


def test_session_can_be_opened_without_partitions() -> None:
    cache = sessions()
    opened = open_session(cache)
    assert opened.session_id != NO_SESSION
    assert answer(go_on(cache, opened.session_id, 1, cached(3)), high_watermark=1) == [3]


def test_offsets_are_updated_partitions_added_and_forgotten() -> None:
    cache = sessions()
    opened = open_session(cache, cached(0), cached(1))
    following = go_on(cache, opened.session_id, 1, cached(0, offset=42), cached(7), forgotten=(1,))
    assert [(each.index, each.fetch_offset) for each in following.cached_partitions] == [(0, 42), (7, 0)]


def test_error_is_sent_every_time_and_offsets_after_it_once() -> None:
    cache = sessions()
    opened = open_session(cache, cached(0))
    answer(opened, high_watermark=3)
    for epoch in (1, 2):
        fetch = go_on(cache, opened.session_id, epoch)
        failed = FetchedPartition(fetch.cached_partitions[0], ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert fetch.select([failed]) == [failed]
    assert answer(go_on(cache, opened.session_id, 3), high_watermark=3) == [0]


@pytest.mark.parametrize("epoch", [2, 5, 2**31 - 1])
def test_lost_or_repeated_request_is_rejected(epoch: int) -> None:
    cache = sessions()
    opened = open_session(cache, cached(0))
    with pytest.raises(KafkaError) as caught:
        go_on(cache, opened.session_id, epoch)
    assert caught.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert go_on(cache, opened.session_id, 1).session_id == opened.session_id


def test_overtaken_request_is_rejected() -> None:
    cache = sessions()
    opened = open_session(cache, cached(0))
    waiting = go_on(cache, opened.session_id, 1)
    go_on(cache, opened.session_id, 2)
    with pytest.raises(KafkaError) as caught:
        answer(waiting)
    assert caught.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_unknown_session_is_rejected() -> None:
    with pytest.raises(KafkaError) as caught:
        go_on(sessions(), 4711, 1)
    assert caught.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_switch_between_topic_names_and_ids_is_rejected() -> None:
    cache = sessions()
    opened = open_session(cache, cached(0))
    with pytest.raises(KafkaError) as caught:
        cache.begin(opened.session_id, 1, [cached(0, topic=bytes(16))], [], by_topic_id=True, now_ms=0)
    assert caught.value.code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_closing_a_session_frees_its_slot() -> None:
    cache = sessions()
    opened = open_session(cache, cached(0))
    assert len(cache) == 1
    go_on(cache, opened.session_id, FINAL_EPOCH)
    assert len(cache) == 0


def test_forgetting_the_last_partition_ends_the_session() -> None:
    cache = sessions()
    opened = open_session(cache, cached(0))
    fetch = go_on(cache, opened.session_id, 1, forgotten=(0,))
    assert fetch.session_id == NO_SESSION
    assert len(cache) == 0


def test_request_that_forgets_all_that_it_names_is_carried_out_without_a_session() -> None:
    cache = sessions()
    opened = open_session(cache, cached(0))
    fetch = go_on(cache, opened.session_id, 1, cached(0), cached(1), forgotten=(0, 1))
    assert fetch.session_id == NO_SESSION
    assert len(cache) == 0
    assert answer(fetch) == [0, 1]


def test_epochs_wrap_around_to_one() -> None:
    cache = sessions()
    opened = open_session(cache, cached(0))
    cache.by_id[opened.session_id].epoch = 2**31 - 1
    go_on(cache, opened.session_id, 2**31 - 1)
    assert go_on(cache, opened.session_id, 1).session_id == opened.session_id


def test_recent_session_is_not_evicted() -> None:
    cache = sessions(slots=1)
    first = open_session(cache, cached(0))
    second = open_session(cache, cached(0), now_ms=EVICTION_MIN_MS)
    assert second.session_id == NO_SESSION
    assert answer(second) == [0]
    assert go_on(cache, first.session_id, 1).session_id == first.session_id


def test_least_recently_used_session_is_evicted_first() -> None:
    cache = sessions(slots=2)
    first, second = open_session(cache, cached(0)), open_session(cache, cached(0))
    go_on(cache, first.session_id, 1, now_ms=EVICTION_MIN_MS)
    third = open_session(cache, cached(0), now_ms=EVICTION_MIN_MS + 1)
    assert third.session_id != NO_SESSION
    with pytest.raises(KafkaError):
        go_on(cache, second.session_id, 1)
    assert go_on(cache, first.session_id, 2).session_id == first.session_id


def test_established_smaller_session_is_evicted_for_a_larger_one() -> None:
    cache = sessions(slots=1)
    small = open_session(cache, cached(0))
    go_on(cache, small.session_id, 1, now_ms=EVICTION_MIN_MS)
    large = open_session(cache, cached(0), cached(1), now_ms=EVICTION_MIN_MS + 1)
    assert large.session_id != NO_SESSION
    assert len(cache) == 1
