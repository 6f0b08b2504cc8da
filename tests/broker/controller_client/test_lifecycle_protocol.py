"""The requests of a broker to the controller, and their times (KIP-631), as a pure protocol."""

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


def test_broker_registers_runs_and_shuts_down() -> None:
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


def test_refused_registration_is_retried_with_growing_pauses() -> None:
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
def test_final_registration_error_ends_the_start(code: ErrorCode) -> None:
    with pytest.raises(RegistrationFailed, match=code.name):
        protocol().registration_refused(code, 0)
    again = running()
    again.heartbeat_refused(ErrorCode.BROKER_ID_NOT_REGISTERED, 0)
    again.registration_refused(code, 0)
    assert again.next_request() == Register(), "who was in does not end for it"


def test_first_registration_times_out() -> None:
    each = protocol()
    assert each.give_up_ms == REGISTRATION_MS
    with pytest.raises(RegistrationFailed):
        each.give_up()
    assert registered().give_up_ms == inf


@pytest.mark.parametrize("code", [ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.STALE_BROKER_EPOCH])
def test_broker_unknown_to_the_controller_registers_again(code: ErrorCode) -> None:
    each = running()
    each.heartbeat_refused(code, 1_000)
    assert each.next_request() == Register()
    assert each.broker_epoch == 7, "until there is another"
    each.registered(9, 2_000)
    assert each.due_ms == 2_000
    assert each.next_request() == Heartbeat(9, want_fence=False, want_shut_down=False), "it serves all the time"
    assert each.give_up_ms == inf


def test_two_brokers_with_one_id_register_again_with_pauses() -> None:
    each = running()
    delays = []
    for _ in range(6):
        each.next_request()
        each.heartbeat_refused(ErrorCode.STALE_BROKER_EPOCH, 0)
        delays.append(each.due_ms)
        each.registered(9, 0)
    assert delays[-1] == RETRY_MAX_MS


# Heartbeats


def test_heartbeats_are_frequent_at_first_while_a_decision_is_awaited() -> None:
    each = registered()
    delays = []
    for _ in range(8):
        answer(each, 1_000, caught_up=False, fenced=True)
        delays.append(each.due_ms - 1_000)
    assert delays[:3] == [SOON_MS, 2 * SOON_MS, 4 * SOON_MS]
    assert delays[-1] == SOON_MAX_MS


def test_broker_fenced_while_serving_sends_a_heartbeat_soon() -> None:
    each = running()
    answer(each, 5_000, fenced=True)
    assert each.due_ms == 5_000 + SOON_MS
    assert each.state is BrokerState.RUNNING
    answer(each, 5_010)
    assert each.due_ms == 5_010 + INTERVAL_MS


def test_broker_that_is_not_ready_sends_heartbeats_at_the_usual_interval() -> None:
    each = registered()
    answer(each, 0, fenced=True)
    answer(each, 100, fenced=True)
    assert (each.state, each.due_ms) == (BrokerState.RECOVERY, 100 + INTERVAL_MS)


def test_change_during_a_heartbeat_is_sent_right_after_it() -> None:
    each = running()
    each.next_request()
    each.send_soon(1_000)
    each.heartbeat_accepted(is_caught_up=True, is_fenced=False, should_shut_down=False, now_ms=1_010)
    assert each.due_ms == 1_010
    answer(each, 1_020)
    assert each.due_ms == 1_020 + INTERVAL_MS


def test_error_is_followed_by_a_pause() -> None:
    each = running()
    each.next_request()
    each.send_soon(1_000)
    each.heartbeat_refused(ErrorCode.UNKNOWN_SERVER_ERROR, 1_010)
    assert each.due_ms > 1_010
    assert each.next_request() == Heartbeat(7, want_fence=False, want_shut_down=False)


def test_unanswered_heartbeat_is_sent_again() -> None:
    each = running()
    each.timed_out(3_000)
    assert each.due_ms == 3_000


# Shutdown


def test_only_an_unfenced_broker_asks_for_a_controlled_shutdown() -> None:
    for each in (protocol(), registered()):
        each.begin_shutdown(0)
        assert each.state is BrokerState.SHUTTING_DOWN
    unknown = running()
    unknown.heartbeat_refused(ErrorCode.BROKER_ID_NOT_REGISTERED, 0)
    unknown.begin_shutdown(0)
    assert unknown.state is BrokerState.SHUTTING_DOWN


def test_shutdown_waits_briefly_for_a_quorum_that_is_down() -> None:
    each = running()
    each.expect_no_controller(500)
    assert each.give_up_ms == inf
    each.begin_shutdown(1_000)
    each.expect_no_controller(1_100)
    each.expect_no_controller(1_200)
    assert each.give_up_ms == 1_350
    answer(each, 1_300)
    assert each.give_up_ms == 3_300


def test_second_shutdown_changes_nothing() -> None:
    each = running()
    each.begin_shutdown(0)
    each.begin_shutdown(1_000)
    assert (each.state, each.give_up_ms) == (BrokerState.PENDING_CONTROLLED_SHUTDOWN, SHUTDOWN_REACH_MS)


@pytest.mark.parametrize("code", [ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.STALE_BROKER_EPOCH])
def test_broker_unknown_to_the_controller_stops_at_once(code: ErrorCode) -> None:
    each = running()
    each.begin_shutdown(0)
    each.heartbeat_refused(code, 10)
    assert each.state is BrokerState.SHUTTING_DOWN


def test_shutdown_does_not_wait_for_an_unreachable_controller() -> None:
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


def test_shutdown_does_not_wait_for_ever_for_permission() -> None:
    each = running()
    each.begin_shutdown(0)
    answer(each, SHUTDOWN_MAX_MS - 10)
    assert each.give_up_ms == SHUTDOWN_MAX_MS


def test_failed_directory_is_reported_at_once() -> None:
    each = running()
    each.log_dir_failed(100)
    assert each.due_ms <= 100
    each.log_dirs_reported()
    each.check_log_dirs(100 + LOG_DIR_FAILURE_MS)


def test_broker_that_cannot_report_a_failed_directory_ends() -> None:
    each = running()
    each.log_dir_failed(100)
    each.log_dir_failed(200)  # another failure does not extend the deadline
    each.check_log_dirs(99 + LOG_DIR_FAILURE_MS)
    with pytest.raises(LogDirFailureNotReported):
        each.check_log_dirs(100 + LOG_DIR_FAILURE_MS)


def test_unreported_directory_does_not_fail_a_shutdown() -> None:
    each = running()
    each.log_dir_failed(100)
    each.begin_shutdown(200)
    each.give_up()
    each.check_log_dirs(100 + LOG_DIR_FAILURE_MS)
