"""The requests of a broker to the controller, and their times (KIP-631): the pure part, told the time."""

from math import inf

import pytest

from broker.controller_client.lifecycle_protocol import (
    RETRY_MAX_MS,
    SHUTDOWN_MAX_MS,
    SHUTDOWN_REACH_MS,
    SOON_MAX_MS,
    SOON_MS,
    BrokerState,
    Heartbeat,
    LifecycleProtocol,
    LogDirFailureNotReported,
    Register,
    RegistrationFailed,
)
from broker.wire.errors import ErrorCode

INTERVAL_MS = 2_000
REGISTRATION_MS = 60_000
LOG_DIR_FAILURE_MS = 30_000


def protocol() -> LifecycleProtocol:
    return LifecycleProtocol(
        heartbeat_interval_ms=INTERVAL_MS,
        registration_timeout_ms=REGISTRATION_MS,
        log_dir_failure_timeout_ms=LOG_DIR_FAILURE_MS,
        chance=lambda: 1.0,
        now_ms=0,
    )


def answer(
    each: LifecycleProtocol,
    now_ms: float,
    *,
    caught_up: bool = True,
    fenced: bool = False,
    should_shut_down: bool = False,
) -> None:
    each.next_request()
    each.heartbeat_accepted(is_caught_up=caught_up, is_fenced=fenced, should_shut_down=should_shut_down, now_ms=now_ms)


def registered() -> LifecycleProtocol:
    each = protocol()
    each.registered(7, 0)
    return each


def running() -> LifecycleProtocol:
    each = registered()
    answer(each, 0, fenced=True)
    each.unfence(0)
    answer(each, 0)
    assert each.state is BrokerState.RUNNING
    return each


def test_from_start_to_end() -> None:
    each = protocol()
    assert (each.state, each.due_ms, each.next_request()) == (BrokerState.STARTING, 0, Register())
    each.registered(7, 100)
    assert (each.state, each.due_ms, each.broker_epoch) == (BrokerState.STARTING, 100, 7)
    assert each.next_request() == Heartbeat(7, want_fence=True, want_shut_down=False)
    answer(each, 110, caught_up=False, fenced=True)
    assert (each.state, each.due_ms) == (BrokerState.STARTING, 110 + SOON_MS)
    answer(each, 120, fenced=True)
    assert (each.state, each.due_ms) == (BrokerState.RECOVERY, 120 + INTERVAL_MS)
    each.unfence(500)
    assert each.due_ms == 500
    assert each.next_request() == Heartbeat(7, want_fence=False, want_shut_down=False)
    answer(each, 510)
    assert (each.state, each.due_ms) == (BrokerState.RUNNING, 510 + INTERVAL_MS)
    each.begin_shutdown(1_000)
    assert (each.state, each.due_ms) == (BrokerState.PENDING_CONTROLLED_SHUTDOWN, 1_000)
    assert each.next_request() == Heartbeat(7, want_fence=False, want_shut_down=True)
    answer(each, 1_010)
    assert (each.state, each.due_ms) == (BrokerState.PENDING_CONTROLLED_SHUTDOWN, 1_010 + SOON_MS)
    answer(each, 1_020, should_shut_down=True)
    assert each.state is BrokerState.SHUTTING_DOWN


# Registration


def test_a_refused_registration_is_tried_again_ever_later() -> None:
    each = protocol()
    delays = []
    for _ in range(8):
        each.registration_refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, 1_000)
        assert each.next_request() == Register()
        delays.append(each.due_ms - 1_000)
    assert delays == sorted(delays)
    assert delays[0] < 100
    assert delays[-1] == RETRY_MAX_MS


@pytest.mark.parametrize(
    "code", [ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.INVALID_REGISTRATION, ErrorCode.UNSUPPORTED_VERSION]
)
def test_what_trying_again_would_not_help_ends_the_start(code: ErrorCode) -> None:
    with pytest.raises(RegistrationFailed, match=code.name):
        protocol().registration_refused(code, 0)
    again = running()
    again.heartbeat_refused(ErrorCode.BROKER_ID_NOT_REGISTERED, 0)
    again.registration_refused(code, 0)
    assert again.next_request() == Register(), "who was in does not end for it"


def test_the_first_registration_has_its_time() -> None:
    each = protocol()
    assert each.give_up_ms == REGISTRATION_MS
    with pytest.raises(RegistrationFailed):
        each.give_up()
    assert registered().give_up_ms == inf


@pytest.mark.parametrize("code", [ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.STALE_BROKER_EPOCH])
def test_a_broker_that_is_not_known_any_more_registers_again(code: ErrorCode) -> None:
    each = running()
    each.heartbeat_refused(code, 1_000)
    assert each.next_request() == Register()
    assert each.broker_epoch == 7, "until there is another"
    each.registered(9, 2_000)
    assert each.due_ms == 2_000
    assert each.next_request() == Heartbeat(9, want_fence=False, want_shut_down=False), "it serves all the time"
    assert each.give_up_ms == inf


def test_two_brokers_of_one_id_do_not_drive_each_other_out_as_fast_as_they_can() -> None:
    each = running()
    delays = []
    for _ in range(6):
        each.next_request()
        each.heartbeat_refused(ErrorCode.STALE_BROKER_EPOCH, 0)
        delays.append(each.due_ms)
        each.registered(9, 0)
    assert delays[-1] == RETRY_MAX_MS


# Heartbeats


def test_heartbeats_come_soon_and_then_less_often_while_something_is_to_happen() -> None:
    each = registered()
    delays = []
    for _ in range(8):
        answer(each, 1_000, caught_up=False, fenced=True)
        delays.append(each.due_ms - 1_000)
    assert delays[:3] == [SOON_MS, 2 * SOON_MS, 4 * SOON_MS]
    assert delays[-1] == SOON_MAX_MS


def test_a_broker_that_was_fenced_while_it_serves_asks_soon_whether_it_still_is() -> None:
    each = running()
    answer(each, 5_000, fenced=True)
    assert each.due_ms == 5_000 + SOON_MS
    assert each.state is BrokerState.RUNNING
    answer(each, 5_010)
    assert each.due_ms == 5_010 + INTERVAL_MS


def test_a_broker_that_is_not_ready_waits_quietly() -> None:
    each = registered()
    answer(each, 0, fenced=True)
    answer(each, 100, fenced=True)
    assert (each.state, each.due_ms) == (BrokerState.RECOVERY, 100 + INTERVAL_MS)


def test_news_while_a_heartbeat_is_under_way_are_told_right_after_it() -> None:
    each = running()
    each.next_request()
    each.send_soon(1_000)
    each.heartbeat_accepted(is_caught_up=True, is_fenced=False, should_shut_down=False, now_ms=1_010)
    assert each.due_ms == 1_010
    answer(each, 1_020)
    assert each.due_ms == 1_020 + INTERVAL_MS


def test_after_an_error_nothing_is_hurried() -> None:
    each = running()
    each.next_request()
    each.send_soon(1_000)
    each.heartbeat_refused(ErrorCode.UNKNOWN_SERVER_ERROR, 1_010)
    assert each.due_ms > 1_010
    assert each.next_request() == Heartbeat(7, want_fence=False, want_shut_down=False)


def test_an_unanswered_heartbeat_is_said_anew() -> None:
    each = running()
    each.timed_out(3_000)
    assert each.due_ms == 3_000


# Shutdown


def test_only_who_was_let_in_has_to_ask_for_leave() -> None:
    for each in (protocol(), registered()):
        each.begin_shutdown(0)
        assert each.state is BrokerState.SHUTTING_DOWN
    unknown = running()
    unknown.heartbeat_refused(ErrorCode.BROKER_ID_NOT_REGISTERED, 0)
    unknown.begin_shutdown(0)
    assert unknown.state is BrokerState.SHUTTING_DOWN


def test_a_quorum_that_is_gone_is_not_waited_for_long_unless_it_answers() -> None:
    each = running()
    each.expect_no_controller(500)
    assert each.give_up_ms == inf
    each.begin_shutdown(1_000)
    each.expect_no_controller(1_100)
    each.expect_no_controller(1_200)
    assert each.give_up_ms == 1_350
    answer(each, 1_300)
    assert each.give_up_ms == 3_300


def test_shutting_down_twice_is_shutting_down_once() -> None:
    each = running()
    each.begin_shutdown(0)
    each.begin_shutdown(1_000)
    assert (each.state, each.give_up_ms) == (BrokerState.PENDING_CONTROLLED_SHUTDOWN, SHUTDOWN_REACH_MS)


@pytest.mark.parametrize("code", [ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.STALE_BROKER_EPOCH])
def test_who_is_not_known_any_more_may_go(code: ErrorCode) -> None:
    each = running()
    each.begin_shutdown(0)
    each.heartbeat_refused(code, 10)
    assert each.state is BrokerState.SHUTTING_DOWN


def test_a_controller_out_of_reach_is_not_waited_for() -> None:
    each = running()
    each.begin_shutdown(1_000)
    assert each.give_up_ms == 1_000 + SHUTDOWN_REACH_MS
    answer(each, 2_000)
    assert each.give_up_ms == 2_000 + SHUTDOWN_REACH_MS
    each.heartbeat_refused(ErrorCode.UNKNOWN_SERVER_ERROR, 3_000)
    each.timed_out(3_500)
    assert each.give_up_ms == 2_000 + SHUTDOWN_REACH_MS
    each.give_up()
    assert each.state is BrokerState.SHUTTING_DOWN


def test_nor_is_one_that_never_lets_go() -> None:
    each = running()
    each.begin_shutdown(0)
    answer(each, SHUTDOWN_MAX_MS - 10)
    assert each.give_up_ms == SHUTDOWN_MAX_MS


def test_a_directory_that_failed_is_told_of_at_once() -> None:
    each = running()
    each.log_dir_failed(100)
    assert each.due_ms <= 100
    each.log_dirs_reported()
    each.check_log_dirs(100 + LOG_DIR_FAILURE_MS)


def test_a_broker_that_cannot_tell_of_it_ends() -> None:
    each = running()
    each.log_dir_failed(100)
    each.log_dir_failed(200)  # another one does not put it off
    each.check_log_dirs(99 + LOG_DIR_FAILURE_MS)
    with pytest.raises(LogDirFailureNotReported):
        each.check_log_dirs(100 + LOG_DIR_FAILURE_MS)


def test_unless_it_ends_anyway() -> None:
    each = running()
    each.log_dir_failed(100)
    each.begin_shutdown(200)
    each.give_up()
    each.check_log_dirs(100 + LOG_DIR_FAILURE_MS)
