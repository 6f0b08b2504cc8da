"""The client's side of share sessions (KIP-932)."""

import pytest

from broker.client.share_consumer.share_session import PartitionId, SessionChange, ShareSession
from broker.wire.errors import ErrorCode

A, B, C = (PartitionId(b"t" * 16, index) for index in range(3))


def opened() -> ShareSession:
    session = ShareSession()
    assert session.fetch([A, B]) == SessionChange(0, [A, B], [])
    session.accept()
    return session


def test_later_requests_have_only_changes_and_the_epoch_counts_them() -> None:
    session = opened()
    assert session.fetch([A, B]) == SessionChange(1, [], [])
    session.accept()
    assert session.fetch([B, C]) == SessionChange(2, [C], [A])


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    ],
)
def test_another_session_begins_with_all_partitions_where_the_leader_has_dropped_it(code: ErrorCode) -> None:
    session = opened()
    serial = session.serial
    session.refuse(code)
    assert (session.is_open, session.serial) == (False, serial + 1)
    assert session.fetch([A]) == SessionChange(0, [A], [])


def test_other_errors_of_a_request_leave_the_session_open() -> None:
    session = opened()
    session.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert session.fetch([A, B]) == SessionChange(2, [], [])


def test_the_epoch_wraps_to_1_because_0_opens_a_session() -> None:
    session = opened()
    session.epoch = 2**31 - 1
    session.accept()
    assert session.epoch == 1
