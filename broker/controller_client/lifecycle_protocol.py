"""What a broker says to the controller over its life, and what the answers mean: pure, told the time (KIP-631).

    STARTING -> RECOVERY -> RUNNING -> PENDING_CONTROLLED_SHUTDOWN -> SHUTTING_DOWN

A broker registers, and heartbeats from then on. It is STARTING until it has caught up with its own registration in the
metadata log, in RECOVERY until it has asked to be unfenced and was. When it wants to stop it says so until the
controller lets it go, or is out of reach for too long. One that the controller no longer knows registers again, as the
same incarnation: whatever of this runs twice is the same as once.

What its driver owes it: it sends what `next_request` says when that is due, one request at a time, and tells what
became of it with exactly one of the methods for that, or with none where `begin_shutdown` cut it short.
"""

from collections.abc import Callable
from enum import IntEnum
from math import inf
from typing import Final, TypeAlias

import attrs

from broker.wire.errors import ErrorCode

NO_EPOCH: Final = -1
# While something is about to happen at the controller: the next heartbeat comes this soon, then ever later.
SOON_MS: Final = 10
SOON_MAX_MS: Final = 200
# After an error: the next attempt's delay, half of it by chance, at first and at most. A registration is refused as a
# duplicate until the controller has noticed the end of the process before, which should not cost much more than that.
RETRY_MS: Final = 50
RETRY_MAX_MS: Final = 500
# Out of reach for this long, the controller is not waited for to shut down; nor is it longer than this altogether.
SHUTDOWN_REACH_MS: Final = 2_000
SHUTDOWN_MAX_MS: Final = 300_000
# As long as the quorum's majority seems to be gone: time enough for voters that run to connect again.
SHUTDOWN_HOPELESS_MS: Final = 250

# Trying again would not help.
_FINAL_REFUSALS: Final = (
    ErrorCode.INCONSISTENT_CLUSTER_ID,
    ErrorCode.INVALID_REGISTRATION,
    ErrorCode.UNSUPPORTED_VERSION,
)
_NOT_REGISTERED: Final = (ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.STALE_BROKER_EPOCH)


class RegistrationFailed(Exception):
    """The controllers did not let this broker in, or none of them could be reached in time."""


class LogDirFailureUntold(Exception):
    """A log directory has failed, and no controller could be told of it in time: this broker may seem to lead still."""


class BrokerState(IntEnum):
    """Kafka's names and numbers."""

    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


@attrs.frozen
class Register:
    """Say who this broker is."""


@attrs.frozen
class Heartbeat:
    """Say that it lives, and what it wants."""

    broker_epoch: int
    want_fence: bool
    want_shut_down: bool


Saying: TypeAlias = Register | Heartbeat


class LifecycleProtocol:
    """See the module's docstring. All times are milliseconds of one monotonic clock.

    `broker_epoch` is NO_EPOCH before the first registration, and the last one known from then on. `due_ms` is when to
    send `next_request`, `give_up_ms` when to call `give_up` instead of waiting any longer for an answer, and
    `log_dirs_due_ms` is by when the controller has to have been told of log directories that failed.
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
        self._hurried = False
        self._waits = 0
        self._failures = 0
        self._last_shutdown_ms = inf

    def next_request(self) -> Saying:
        self._hurried = False
        if not self._is_registered:
            return Register()
        return Heartbeat(
            self.broker_epoch, not self._may_unfence, self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        )

    # What this broker wants

    def hurry(self, now_ms: float) -> None:
        """There is news, of this broker or of the controller: do not wait for the next heartbeat's time."""
        self._hurried = True
        self.due_ms = min(self.due_ms, now_ms)

    def unfence(self, now_ms: float) -> None:
        """From now on this broker may lead partitions, and be told to clients."""
        self._may_unfence = True
        self.hurry(now_ms)

    def begin_shutdown(self, now_ms: float) -> None:
        """Leave in good order; only who was let in has something to hand over."""
        if self.state is BrokerState.RUNNING and self._is_registered:
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            self._last_shutdown_ms = now_ms + SHUTDOWN_MAX_MS
            self._reached_in_shutdown(now_ms)
            self._waits = 0
            self.due_ms = now_ms
        elif self.state is not BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self.state = BrokerState.SHUTTING_DOWN

    def despair(self, now_ms: float) -> None:
        """The quorum's majority seems to be gone: unless the controller answers soon, do not wait to be let go."""
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self.give_up_ms = min(self.give_up_ms, now_ms + SHUTDOWN_HOPELESS_MS)

    def log_dir_failed(self, now_ms: float) -> None:
        """The next heartbeat tells of it."""
        self.log_dirs_due_ms = min(self.log_dirs_due_ms, now_ms + self._log_dir_failure_timeout_ms)
        self.hurry(now_ms)

    def log_dirs_told(self) -> None:
        """The controller has heard of all that failed."""
        self.log_dirs_due_ms = inf

    def check_log_dirs(self, now_ms: float) -> None:
        """Raises LogDirFailureUntold where it had to be told by now."""
        if self.log_dirs_due_ms <= now_ms and self.state is not BrokerState.SHUTTING_DOWN:
            raise LogDirFailureUntold("a directory has failed, and no controller could be told in time")

    # What became of a request

    def registered(self, broker_epoch: int, now_ms: float) -> None:
        if self.broker_epoch == NO_EPOCH:
            self.give_up_ms = inf
        self.broker_epoch = broker_epoch
        self._is_registered = True
        self._waits = 0
        self.due_ms = now_ms

    def registration_refused(self, code: ErrorCode, now_ms: float) -> None:
        """Raises RegistrationFailed where the first registration is refused for good."""
        if self.broker_epoch == NO_EPOCH and code in _FINAL_REFUSALS:
            raise RegistrationFailed(f"the controller refuses this broker: {code.name}")
        self._retry(now_ms)

    def answered(self, *, is_caught_up: bool, is_fenced: bool, should_shut_down: bool, now_ms: float) -> None:
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

    def unanswered(self, now_ms: float) -> None:
        """Whoever carries requests was patient enough: say it anew, as things are now."""
        self.due_ms = now_ms

    def give_up(self) -> None:
        """`give_up_ms` has come. Raises RegistrationFailed."""
        if self.broker_epoch == NO_EPOCH:
            raise RegistrationFailed("no controller let this broker in before initial.broker.registration.timeout.ms")
        self.state = BrokerState.SHUTTING_DOWN

    def _reached_in_shutdown(self, now_ms: float) -> None:
        self.give_up_ms = min(now_ms + SHUTDOWN_REACH_MS, self._last_shutdown_ms)

    @property
    def _awaits_news(self) -> bool:
        if self.state is BrokerState.RECOVERY:
            return self._may_unfence
        return self.state is not BrokerState.RUNNING or self.is_fenced

    def _wait_for_next(self, now_ms: float) -> None:
        delay_ms = self._heartbeat_interval_ms
        if self._hurried:
            delay_ms = 0
        elif self._awaits_news:
            delay_ms = min(delay_ms, SOON_MAX_MS, SOON_MS * 2 ** min(self._waits, 10))
            self._waits += 1
        else:
            self._waits = 0
        self.due_ms = now_ms + delay_ms

    def _retry(self, now_ms: float) -> None:
        longest_ms = min(RETRY_MAX_MS, RETRY_MS * 2 ** min(self._failures, 10))
        self._failures += 1
        self.due_ms = now_ms + longest_ms * (0.5 + self._chance() / 2)
