"""The states of a broker towards the controller, its requests and their responses (KIP-631). Pure: time is an argument.

    STARTING -> RECOVERY -> RUNNING -> PENDING_CONTROLLED_SHUTDOWN -> SHUTTING_DOWN

A broker registers and then sends heartbeats. It is STARTING until it has read its own registration in the metadata log,
and in RECOVERY until it has asked to be unfenced and the controller has unfenced it. To stop, it asks for a controlled
shutdown until the controller allows it, or cannot be reached for too long. A broker that the controller does not know
any more registers again as the same incarnation. Every request may run twice without harm.

The driver sends the request from `next_request` when it is due, one request at a time. It reports the outcome of each
request by exactly one of the methods under "Outcomes of requests", or by none if `begin_shutdown` cancelled it.
"""

from collections.abc import Callable
from enum import IntEnum
from math import inf
from typing import Final, TypeAlias

from broker.wire.errors import ErrorCode
from kraft import lazy_attrs

NO_EPOCH: Final = -1
# The pause before a heartbeat while the broker waits for a decision of the controller: the first, and the longest.
SOON_MS: Final = 10
SOON_MAX_MS: Final = 200
# The pause after an error, half of it random: the first, and the longest. A registration is rejected as a duplicate
# until the controller has noticed that the broker's previous process ended. The pauses bound the further delay.
RETRY_MS: Final = 50
RETRY_MAX_MS: Final = 500
# How long a shutdown waits for a controller that cannot be reached, and how long it takes at most.
SHUTDOWN_REACH_MS: Final = 2_000
SHUTDOWN_MAX_MS: Final = 300_000
# The wait while the majority of the quorum seems to be down: long enough for running voters to reconnect.
SHUTDOWN_MAJORITY_ABSENT_MS: Final = 250

# Errors for which a retry cannot help.
_FINAL_REFUSALS: Final = (
    ErrorCode.INCONSISTENT_CLUSTER_ID,
    ErrorCode.INVALID_REGISTRATION,
    ErrorCode.UNSUPPORTED_VERSION,
)
_NOT_REGISTERED: Final = (ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.STALE_BROKER_EPOCH)


class RegistrationFailed(Exception):
    """The controller rejected this broker's registration, or no controller could be reached in time."""


class LogDirFailureNotReported(Exception):
    """A failed log directory could not be reported in time. The controller may still count this broker as leader."""


class BrokerState(IntEnum):
    """Kafka's names and numbers."""

    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


@lazy_attrs.frozen
class Register:
    """A registration of this broker."""


@lazy_attrs.frozen
class Heartbeat:
    """A heartbeat, with the wishes of the broker."""

    broker_epoch: int
    want_fence: bool
    want_shut_down: bool


LifecycleRequest: TypeAlias = Register | Heartbeat


class LifecycleProtocol:
    """See the module's docstring. All times are milliseconds of one monotonic clock.

    `broker_epoch` is NO_EPOCH before the first registration, and the latest known epoch after it. `due_ms` is the time
    to send `next_request`. `give_up_ms` is the time to call `give_up` instead of waiting for a response.
    `log_dirs_due_ms` is the deadline for reporting failed log directories to the controller.
    """

    def __init__(
        self,
        *,
        heartbeat_interval_ms: float,
        registration_timeout_ms: float,
        log_dir_failure_timeout_ms: float,
        chance: Callable[[], float],
        now_ms: float,
    ) -> None:
        self.state = BrokerState.STARTING
        self.broker_epoch = NO_EPOCH
        self.is_fenced = True
        self.due_ms = now_ms
        self.give_up_ms = now_ms + registration_timeout_ms
        self.log_dirs_due_ms = inf
        self._log_dir_failure_timeout_ms = log_dir_failure_timeout_ms
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._chance = chance
        self._is_registered = False
        self._may_unfence = False
        self._is_send_due = False
        self._waits = 0
        self._failures = 0
        self._last_shutdown_ms = inf

    def next_request(self) -> LifecycleRequest:
        self._is_send_due = False
        if not self._is_registered:
            return Register()
        return Heartbeat(
            self.broker_epoch, not self._may_unfence, self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        )

    # Events of the broker

    def send_soon(self, now_ms: float) -> None:
        """Send the next heartbeat now, because of a change in this broker or of the controller."""
        self._is_send_due = True
        self.due_ms = min(self.due_ms, now_ms)

    def unfence(self, now_ms: float) -> None:
        """Ask to be unfenced: this broker is ready to lead partitions and serve clients."""
        self._may_unfence = True
        self.send_soon(now_ms)

    def begin_shutdown(self, now_ms: float) -> None:
        """Ask for a controlled shutdown. A broker that is not running has nothing to hand over and stops at once."""
        if self.state is BrokerState.RUNNING and self._is_registered:
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            self._last_shutdown_ms = now_ms + SHUTDOWN_MAX_MS
            self._reached_in_shutdown(now_ms)
            self._waits = 0
            self.due_ms = now_ms
        elif self.state is not BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self.state = BrokerState.SHUTTING_DOWN

    def expect_no_controller(self, now_ms: float) -> None:
        """Shorten the wait of a shutdown, since the majority of the quorum seems to be down."""
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self.give_up_ms = min(self.give_up_ms, now_ms + SHUTDOWN_MAJORITY_ABSENT_MS)

    def log_dir_failed(self, now_ms: float) -> None:
        """Report a failed log directory with the next heartbeat."""
        self.log_dirs_due_ms = min(self.log_dirs_due_ms, now_ms + self._log_dir_failure_timeout_ms)
        self.send_soon(now_ms)

    def log_dirs_reported(self) -> None:
        """The controller has accepted a heartbeat with all failed log directories."""
        self.log_dirs_due_ms = inf

    def check_log_dirs(self, now_ms: float) -> None:
        """Raises LogDirFailureNotReported if the deadline for reporting a failed log directory has passed."""
        if self.log_dirs_due_ms <= now_ms and self.state is not BrokerState.SHUTTING_DOWN:
            raise LogDirFailureNotReported("a failed log directory could not be reported to a controller in time")

    # Outcomes of requests

    def registered(self, broker_epoch: int, now_ms: float) -> None:
        if self.broker_epoch == NO_EPOCH:
            self.give_up_ms = inf
        self.broker_epoch = broker_epoch
        self._is_registered = True
        self._waits = 0
        self.due_ms = now_ms

    def registration_refused(self, code: ErrorCode, now_ms: float) -> None:
        """Retry later. Raises RegistrationFailed if the first registration is rejected with a final error."""
        if self.broker_epoch == NO_EPOCH and code in _FINAL_REFUSALS:
            raise RegistrationFailed(f"the controller refuses this broker: {code.name}")
        self._retry(now_ms)

    def heartbeat_accepted(self, *, is_caught_up: bool, is_fenced: bool, should_shut_down: bool, now_ms: float) -> None:
        """A heartbeat was accepted."""
        self._failures = 0
        self.is_fenced = is_fenced
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self._reached_in_shutdown(now_ms)
            if should_shut_down:
                self.state = BrokerState.SHUTTING_DOWN
        elif self.state is BrokerState.STARTING and is_caught_up:
            self.state = BrokerState.RECOVERY
        elif self.state is BrokerState.RECOVERY and not is_fenced:
            self.state = BrokerState.RUNNING
        self._wait_for_next(now_ms)

    def heartbeat_refused(self, code: ErrorCode, now_ms: float) -> None:
        if code in _NOT_REGISTERED:
            self._is_registered = False
            if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
                self.state = BrokerState.SHUTTING_DOWN  # nothing is left to hand over
        self._retry(now_ms)

    def timed_out(self, now_ms: float) -> None:
        """The request timed out: send another one at once, with the current state."""
        self.due_ms = now_ms

    def give_up(self) -> None:
        """`give_up_ms` has passed. Raises RegistrationFailed before the first registration, else ends a shutdown."""
        if self.broker_epoch == NO_EPOCH:
            raise RegistrationFailed("no controller accepted this broker within initial.broker.registration.timeout.ms")
        self.state = BrokerState.SHUTTING_DOWN

    def _reached_in_shutdown(self, now_ms: float) -> None:
        self.give_up_ms = min(now_ms + SHUTDOWN_REACH_MS, self._last_shutdown_ms)

    @property
    def _is_waiting_for_controller(self) -> bool:
        if self.state is BrokerState.RECOVERY:
            return self._may_unfence
        return self.state is not BrokerState.RUNNING or self.is_fenced

    def _wait_for_next(self, now_ms: float) -> None:
        delay_ms = self._heartbeat_interval_ms
        if self._is_send_due:
            delay_ms = 0
        elif self._is_waiting_for_controller:
            delay_ms = min(delay_ms, SOON_MAX_MS, SOON_MS * 2 ** min(self._waits, 10))
            self._waits += 1
        else:
            self._waits = 0
        self.due_ms = now_ms + delay_ms

    def _retry(self, now_ms: float) -> None:
        longest_ms = min(RETRY_MAX_MS, RETRY_MS * 2 ** min(self._failures, 10))
        self._failures += 1
        self.due_ms = now_ms + longest_ms * (0.5 + self._chance() / 2)
