"""Broker sessions (KIP-631): expiration, suspects, and a new controller."""

from hypothesis import given
from hypothesis import strategies as st

from metadata.controller import NewTopic
from metadata.controller.sessions import NOT_KNOWN, BrokerSessions
from tests.support.metadata import Cluster

TIMEOUT_MS, GRACE_MS = 9_000, 300


def taken_over(brokers: int = 3, now_ms: float = 0) -> BrokerSessions:
    sessions = BrokerSessions(TIMEOUT_MS, GRACE_MS)
    image = Cluster(brokers).image
    sessions.reset(image.cluster, image.offset, now_ms)
    return sessions


def test_a_silent_broker_is_fenced_after_the_session_timeout() -> None:
    sessions = taken_over()
    sessions.record_contact(1, 5, now_ms=4_000)
    sessions.record_contact(2, 5, now_ms=8_000)
    assert sessions.next_end_ms() == 9_000
    assert sessions.expired(now_ms=8_999) == []
    assert sessions.expired(now_ms=9_000) == [3]
    assert sessions.expired(now_ms=17_000) == [3, 1, 2]


def test_broker_whose_connection_broke_expires_after_the_grace_time() -> None:
    sessions = taken_over()
    for broker in (1, 2):
        sessions.record_contact(broker, 5, now_ms=1_000)
        sessions.connection_lost(broker, now_ms=2_000)
    sessions.record_contact(1, 5, now_ms=2_050)
    assert sessions.next_end_ms() == 2_300
    assert sessions.expired(now_ms=2_300) == [2]


def test_further_broken_connections_do_not_extend_the_grace_time() -> None:
    sessions = taken_over()
    sessions.record_contact(1, 5, now_ms=0)
    for now_ms in (100, 200, 300):
        sessions.connection_lost(1, now_ms)
    assert sessions.expired(now_ms=400) == [1]


def test_suspect_that_is_confirmed_gone_expires_at_once() -> None:
    sessions = taken_over()
    sessions.record_contact(1, 5, now_ms=1_000)
    sessions.connection_lost(1, now_ms=2_000)
    assert sessions.is_suspect(1)
    sessions.expire_suspect(1, now_ms=2_010)
    assert sessions.expired(now_ms=2_010) == [1]


def test_confirm_gone_is_ignored_after_a_heartbeat() -> None:
    """The broker's listener may have refused a connection before its heartbeat."""
    sessions = taken_over()
    sessions.connection_lost(1, now_ms=2_000)
    sessions.record_contact(1, 5, now_ms=2_005)
    assert not sessions.is_suspect(1)
    sessions.expire_suspect(1, now_ms=2_010)
    assert sessions.expired(now_ms=3_000) == []


def test_reset_of_another_connection_is_ignored_for_a_broker_with_heartbeats() -> None:
    """Its connection for heartbeats is intact. Without a heartbeat yet, a refused connection is the only evidence."""
    sessions = taken_over()
    sessions.record_contact(1, 5, now_ms=0)
    sessions.connection_reset(1, now_ms=10)
    sessions.connection_reset(2, now_ms=10)
    assert sessions.expired(now_ms=310) == [2]


def test_presumed_session_keeps_its_broker_unfenced_but_is_no_proof() -> None:
    sessions = taken_over(now_ms=5_000)
    assert not sessions.is_certainly_alive(1, now_ms=5_001)
    assert sessions.expired(now_ms=13_999) == []
    sessions.record_contact(1, 5, now_ms=6_000)
    assert sessions.is_certainly_alive(1, now_ms=14_999)
    assert not sessions.is_certainly_alive(1, now_ms=15_000)
    sessions.connection_lost(1, now_ms=7_000)
    assert not sessions.is_certainly_alive(1, now_ms=7_000)


def test_expired_session_is_extended_when_the_controller_did_not_run() -> None:
    """After a suspension, the clock has advanced and the sockets have unread heartbeats."""
    for now_ms in (9_000, 30_000):
        sessions = taken_over()
        sessions.extend_expired(now_ms)
        assert sessions.expired(now_ms) == []
        sessions.record_contact(1, 5, now_ms + 10)
        assert sessions.expired(now_ms + 300) == [2, 3]


def test_fenced_brokers_have_no_session() -> None:
    cluster = Cluster(2)
    cluster.fence(1)
    cluster.sessions.connection_lost(1, now_ms=0)
    cluster.sessions.record_contact(1, 9, now_ms=0)
    assert cluster.sessions.expired(now_ms=1_000_000) == [2]
    assert cluster.sessions.metadata_offset(1) == NOT_KNOWN
    cluster.decide(cluster.brokers.unregister(cluster.image, 2))
    assert cluster.sessions.next_end_ms() is None


def test_controller_that_is_active_again_forgets_the_sessions_of_brokers_fenced_meanwhile() -> None:
    sessions = taken_over(brokers=2)
    cluster = Cluster(2)
    cluster.fence(1)
    sessions.reset(cluster.image.cluster, cluster.image.offset, now_ms=1_000)
    assert sessions.expired(now_ms=1_000_000) == [2]


def test_new_controller_requires_its_own_offset_for_a_controlled_shutdown() -> None:
    """KIP-841: the log has the controlled shutdown, but not which brokers have replayed it."""
    cluster = Cluster(2)
    cluster.decide(cluster.topics.create(cluster.image, [NewTopic("t", 2, 1)]))
    cluster.heartbeat(1, want_shut_down=True)
    assert cluster.sessions.shutdown_offset(1) == cluster.image.offset
    cluster.sessions.reset(cluster.image.cluster, 77, now_ms=0)
    assert cluster.sessions.shutdown_offset(1) == 77
    assert cluster.sessions.shutdown_offset(2) is None


@given(
    st.lists(
        st.tuples(st.sampled_from(["heard", "lost", "reset", "overslept"]), st.integers(1, 3), st.integers(0, 5_000)),
        max_size=30,
    )
)
def test_next_end_is_the_first_expiration_without_a_recent_heartbeat(steps: list[tuple[str, int, int]]) -> None:
    sessions, now_ms, heard_ms = taken_over(), 0, dict.fromkeys((1, 2, 3), 0)
    broken: set[int] = set()
    for what, broker, passed_ms in steps:
        now_ms += passed_ms
        match what:
            case "heard":
                sessions.record_contact(broker, 0, now_ms)
                heard_ms[broker] = now_ms
                broken.discard(broker)
            case "lost":
                sessions.connection_lost(broker, now_ms)
                broken.add(broker)
            case "reset":
                sessions.connection_reset(broker, now_ms)
                broken.add(broker)
            case "overslept":
                sessions.extend_expired(now_ms)
        end_ms = sessions.next_end_ms()
        assert end_ms is not None
        assert sessions.expired(end_ms)
        assert not sessions.expired(end_ms - 1)
        for each in sessions.expired(now_ms):
            assert each in broken or heard_ms[each] + TIMEOUT_MS <= now_ms
        assert end_ms <= max(heard_ms.values()) + TIMEOUT_MS or "overslept" in [step[0] for step in steps]
