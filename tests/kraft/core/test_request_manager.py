"""Which request may be sent when: one of a type per destination, and none during a backoff."""

from math import inf

import pytest

from kraft.core import OffsetAndEpoch, ReplicaKey
from kraft.core.messages import FetchRequest, FetchSnapshotRequest, Request
from kraft.core.request_manager import RequestManager

LEADER, OTHER = 1, 2
ME = ReplicaKey(3, "")


def fetch() -> Request:
    return FetchRequest(1, ME, OffsetAndEpoch(0, 0), 0)


@pytest.fixture
def requests() -> RequestManager:
    return RequestManager()


def test_one_request_of_a_type_is_under_way_to_a_destination(requests: RequestManager) -> None:
    sent = fetch()
    requests.sent(LEADER, sent)
    assert not requests.may_send(LEADER, FetchRequest, 0)
    assert requests.may_send(OTHER, FetchRequest, 0)
    assert requests.may_send(LEADER, FetchSnapshotRequest, 0)
    assert requests.any_under_way
    assert requests.complete(LEADER, sent)
    assert requests.may_send(LEADER, FetchRequest, 0)
    assert not requests.any_under_way


def test_response_to_another_request_completes_nothing(requests: RequestManager) -> None:
    """An equal request of an earlier role is another one."""
    requests.sent(LEADER, fetch())
    assert not requests.complete(LEADER, fetch())
    assert not requests.complete(OTHER, fetch())
    assert requests.any_under_way


def test_nothing_is_sent_before_the_backoff_ends(requests: RequestManager) -> None:
    requests.back_off(LEADER, FetchRequest, 100.0)
    assert [requests.may_send(LEADER, FetchRequest, now_ms) for now_ms in (99.0, 100.0)] == [False, True]


def test_response_ends_the_backoff(requests: RequestManager) -> None:
    sent = fetch()
    requests.sent(LEADER, sent)
    requests.back_off(LEADER, FetchRequest, 100.0)
    assert requests.complete(LEADER, sent)
    assert requests.may_send(LEADER, FetchRequest, 0)


def test_next_retry_is_the_first_end_of_a_backoff_that_is_not_over(requests: RequestManager) -> None:
    assert requests.next_retry_ms(0) == inf
    for destination, until_ms in ((LEADER, 300.0), (OTHER, 200.0), (4, 100.0)):
        requests.back_off(destination, FetchRequest, until_ms)
    assert [requests.next_retry_ms(now_ms) for now_ms in (0.0, 99.0, 100.0, 200.0, 300.0)] == [100, 100, 200, 300, inf]
    requests.sent(4, fetch())
    assert requests.next_retry_ms(0) == 200, "the request under way is not waited for"
