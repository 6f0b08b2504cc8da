"""Share sessions: epochs, partitions, the limit, and the end with a connection (KIP-932)."""

import pytest

from broker.share_partitions.share_sessions import SessionKey, ShareSessions
from broker.wire.errors import ErrorCode, KafkaError

ANNA = SessionKey("group", "anna")
BEN = SessionKey("group", "ben")
TOPIC = b"t" * 16


class Waiting:
    expired = False

    def expire(self) -> None:
        self.expired = True


@pytest.mark.parametrize(
    ("key", "epoch", "code"),
    [
        (BEN, 1, ErrorCode.SHARE_SESSION_NOT_FOUND),
        (BEN, -1, ErrorCode.SHARE_SESSION_NOT_FOUND),
        (ANNA, 1, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (ANNA, 3, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
    ],
)
def test_request_of_another_epoch_or_session_is_refused(key: SessionKey, epoch: int, code: ErrorCode) -> None:
    sessions = ShareSessions()
    session = sessions.open(ANNA, "connection", 10)
    sessions.begin_request(ANNA, 1)
    with pytest.raises(KafkaError) as refused:
        sessions.begin_request(key, epoch)
    assert refused.value.code is code
    assert sessions.begin_request(ANNA, 2) is session


def test_epoch_after_the_last_one_is_the_first_after_the_opening() -> None:
    sessions = ShareSessions()
    session = sessions.open(ANNA, "connection", 10)
    session.epoch = 2**31 - 1
    sessions.begin_request(ANNA, 2**31 - 1)
    assert session.epoch == 1


def test_sessions_are_limited_but_a_member_may_replace_its_own() -> None:
    sessions = ShareSessions()
    first = sessions.open(ANNA, "connection", 1)
    with pytest.raises(KafkaError) as refused:
        sessions.open(BEN, "connection", 1)
    assert refused.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert sessions.open(ANNA, "other", 1) is not first
    assert sessions.remove_of_connection("connection") == []
    assert len(sessions) == 1


def test_sessions_end_with_their_connection_and_a_waiting_fetch_with_its_session() -> None:
    sessions = ShareSessions()
    anna, ben = sessions.open(ANNA, "connection", 10), sessions.open(BEN, "other", 10)
    waiting = anna.waiting = Waiting()
    assert sessions.remove_of_connection("connection") == [anna]
    assert waiting.expired
    assert sessions.evicted == 1
    assert sessions.has_members("group")
    assert sessions.remove(ben)
    assert not sessions.remove(ben)
    assert not sessions.has_members("group")


def test_partitions_take_turns_in_being_first() -> None:
    session = ShareSessions().open(ANNA, "connection", 10)
    session.update([(TOPIC, index) for index in range(4)], [(TOPIC, 1)])
    orders = [[index for _, index in session.rotated(epoch)] for epoch in range(4)]
    assert orders == [[0, 2, 3], [2, 3, 0], [3, 0, 2], [0, 2, 3]]
