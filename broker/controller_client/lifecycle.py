"""Keeps this broker registered with the active controller: the driver of `lifecycle_protocol`."""

from collections.abc import Callable, Sequence

import trio

from broker.controller_client.channel import ControllerChannel
from broker.controller_client.lifecycle_protocol import (
    BrokerState,
    Heartbeat,
    LifecycleProtocol,
    LifecycleRequest,
    Register,
)
from broker.controller_client.registrations import to_wire
from broker.wire.api.broker_heartbeat import BrokerHeartbeatRequest
from broker.wire.api.broker_registration import BrokerRegistrationRequest
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs
from kraft.env import Env
from metadata.configuration import BrokerConfigs
from metadata.configuration.settings import from_key
from metadata.controller import BrokerRegistration
from metadata.image import MetadataDelta, MetadataImage, MetadataLoader

_REGISTRATION_VERSION = 4
_HEARTBEAT_VERSION = 2
# Timers fire later by this much: rounding to seconds must not let them fire before their time in milliseconds.
_TIMER_SLACK_S = 1e-6
# Where broker.heartbeat.interval.ms is less: a controller is not flooded, and has the time for a response.
_HEARTBEAT_INTERVAL_MIN_MS = 10
_REQUEST_TIMEOUT_MIN_MS = 500


@lazy_attrs.frozen(kw_only=True)
class LifecycleConfig:
    """The configs of a broker's registration and heartbeats."""

    heartbeat_interval_ms: int = from_key(BrokerConfigs.broker_heartbeat_interval_ms)
    registration_timeout_ms: int = from_key(BrokerConfigs.initial_broker_registration_timeout_ms)
    log_dir_failure_timeout_ms: int = from_key(BrokerConfigs.log_dir_failure_timeout_ms)


class BrokerLifecycle:
    """Registers the broker, and sends heartbeats until `shut_down` is complete.

    `registration` does not change while the process runs. `online_log_dirs` returns the ids of the log directories that
    work now (KIP-858), and `cordoned_log_dirs` of those that get no new replicas (KIP-1066). Create the lifecycle
    before `loader` reads the metadata log.
    """

    def __init__(
        self,
        env: Env,
        config: LifecycleConfig,
        registration: BrokerRegistration,
        channel: ControllerChannel,
        loader: MetadataLoader,
        online_log_dirs: Callable[[], Sequence[bytes]],
        cordoned_log_dirs: Callable[[], Sequence[bytes]] = tuple,
    ) -> None:
        self._env = env
        self._config = config
        self._registration = registration
        self._channel = channel
        self._loader = loader
        self._online_log_dirs = online_log_dirs
        self._cordoned_log_dirs = cordoned_log_dirs
        self._protocol = LifecycleProtocol(
            heartbeat_interval_ms=max(config.heartbeat_interval_ms, _HEARTBEAT_INTERVAL_MIN_MS),
            registration_timeout_ms=config.registration_timeout_ms,
            log_dir_failure_timeout_ms=config.log_dir_failure_timeout_ms,
            chance=env.rng.random,
            now_ms=_now_ms(),
        )
        self._notified = (self.state, self.broker_epoch)
        self._timer, self._request = trio.CancelScope(), trio.CancelScope()
        self._changed = trio.Event()
        channel.add_reached_listener(self._send_soon)
        channel.add_lost_listener(self._expect_no_controller)
        loader.add_publisher(self._follow)

    @property
    def state(self) -> BrokerState:
        return self._protocol.state

    @property
    def broker_epoch(self) -> int:
        """The epoch of the latest registration of this broker; -1 before the first one."""
        return self._protocol.broker_epoch

    async def wait_caught_up(self) -> None:
        """Wait until this broker has applied the metadata log up to its own registration, or shuts down."""
        while self.state < BrokerState.RECOVERY:
            await self._changed.wait()

    async def unfence(self) -> None:
        """Ask the controller to unfence this broker, and wait until it does or the broker shuts down.

        The broker must be ready to serve clients.
        """
        self._protocol.unfence(_now_ms())
        self._reschedule()
        while self.state < BrokerState.RUNNING:
            await self._changed.wait()

    async def shut_down(self) -> None:
        """Hand over the partitions that this broker leads (controlled shutdown); `run` then ends.

        Returns when the controller allows the shutdown, or could not be reached for too long. The wait is shorter if
        the majority of the quorum is down, as when a whole cluster is stopped.
        """
        self._protocol.begin_shutdown(_now_ms())
        if self._channel.is_majority_absent:
            self._protocol.expect_no_controller(_now_ms())
        self._request.cancel()  # its content is out of date
        self._reschedule()
        self._notify_state()
        while self.state is not BrokerState.SHUTTING_DOWN:
            await self._changed.wait()

    def log_dir_failed(self) -> None:
        """Report a failed log directory to the controller soon."""
        self._protocol.log_dir_failed(_now_ms())
        self._reschedule()

    def log_dirs_cordoned(self) -> None:
        """Report other cordoned log directories to the controller soon."""
        self._send_soon()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Register and send heartbeats.

        Raises RegistrationFailed if this broker cannot join the cluster, and LogDirFailureNotReported if it cannot
        report a failed log directory in time.
        """
        task_status.started()
        protocol = self._protocol
        while self.state is not BrokerState.SHUTTING_DOWN:
            with trio.CancelScope() as self._timer:
                self._reschedule()
                await trio.sleep_forever()
            protocol.check_log_dirs(_now_ms())
            if protocol.give_up_ms <= _now_ms():
                protocol.give_up()
            elif protocol.due_ms <= _now_ms():
                with trio.CancelScope() as self._request:
                    await self._send_request()
            self._notify_state()

    async def _send_request(self) -> None:
        """Send the request that is due, and process its response."""
        protocol = self._protocol
        request = protocol.next_request()
        try:
            if isinstance(request, Register):
                await self._register()
            else:
                await self._heartbeat(request)
        except KafkaError as error:
            if error.code is ErrorCode.REQUEST_TIMED_OUT:
                protocol.timed_out(_now_ms())
            else:
                self._refused(request, error.code)

    async def _register(self) -> None:
        request = _registration_request(self._registration)
        response = await self._channel.call(request, _REGISTRATION_VERSION, timeout_ms=self._request_timeout_ms)
        if response.error_code:
            self._refused(Register(), _code(response.error_code))
        else:
            self._protocol.registered(response.broker_epoch, _now_ms())

    async def _heartbeat(self, heartbeat: Heartbeat) -> None:
        offline_log_dirs = self._offline_log_dirs()
        request = BrokerHeartbeatRequest(
            broker_id=self._registration.broker_id,
            broker_epoch=heartbeat.broker_epoch,
            current_metadata_offset=self._loader.image.offset,
            want_fence=heartbeat.want_fence,
            want_shut_down=heartbeat.want_shut_down,
            offline_log_dirs=offline_log_dirs,
            cordoned_log_dirs=list(self._cordoned_log_dirs()),
        )
        response = await self._channel.call(request, _HEARTBEAT_VERSION, timeout_ms=self._request_timeout_ms)
        if response.error_code:
            self._refused(heartbeat, _code(response.error_code))
            return
        self._protocol.heartbeat_accepted(
            is_caught_up=response.is_caught_up,
            is_fenced=response.is_fenced,
            should_shut_down=response.should_shut_down,
            now_ms=_now_ms(),
        )
        if offline_log_dirs == self._offline_log_dirs():
            self._protocol.log_dirs_reported()

    def _refused(self, request: LifecycleRequest, code: ErrorCode) -> None:
        kind = "registration" if isinstance(request, Register) else "heartbeat"
        self._env.trace("broker_request_refused", node=self._registration.broker_id, request=kind, error=code.name)
        if isinstance(request, Register):
            self._protocol.registration_refused(code, _now_ms())
        else:
            self._protocol.heartbeat_refused(code, _now_ms())

    @property
    def _request_timeout_ms(self) -> float:
        """The timeout of a request. When the next heartbeat is due, the content of the last one is out of date."""
        due_ms = max(self._config.heartbeat_interval_ms, _REQUEST_TIMEOUT_MIN_MS)
        return max(0, min(due_ms, self._protocol.give_up_ms - _now_ms()))

    def _offline_log_dirs(self) -> list[bytes]:
        online = self._online_log_dirs()
        return [log_dir for log_dir in self._registration.log_dirs if log_dir not in online]

    def _follow(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Send a heartbeat soon if the controller waits for this broker to apply the metadata.

        The controller waits after the registration of this broker, and when another broker shuts down: it lets that
        broker go only after all others know its shutdown.
        """
        changed = delta.cluster.changed
        if self._registration.broker_id in changed or any(
            broker is not None and broker.in_controlled_shutdown for broker in changed.values()
        ):
            self._send_soon()

    def _send_soon(self) -> None:
        self._protocol.send_soon(_now_ms())
        self._reschedule()

    def _expect_no_controller(self) -> None:
        self._protocol.expect_no_controller(_now_ms())
        self._request.deadline = min(self._request.deadline, self._protocol.give_up_ms / 1000)
        self._reschedule()

    def _reschedule(self) -> None:
        protocol = self._protocol
        next_ms = min(protocol.due_ms, protocol.give_up_ms, protocol.log_dirs_due_ms)
        self._timer.deadline = next_ms / 1000 + _TIMER_SLACK_S

    def _notify_state(self) -> None:
        current = (self.state, self.broker_epoch)
        if current != self._notified:
            self._notified = current
            self._env.trace(
                "broker_state_changed",
                node=self._registration.broker_id,
                state=self.state.name,
                epoch=self.broker_epoch,
            )
            changed, self._changed = self._changed, trio.Event()
            changed.set()


def _registration_request(registration: BrokerRegistration) -> BrokerRegistrationRequest:
    listeners, features = to_wire(registration.end_points, registration.features)
    return BrokerRegistrationRequest(
        broker_id=registration.broker_id,
        cluster_id=registration.cluster_id,
        incarnation_id=registration.incarnation_id,
        listeners=listeners,
        features=features,
        rack=registration.rack,
        log_dirs=list(registration.log_dirs),
        previous_broker_epoch=registration.previous_broker_epoch,
    )


def _code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:  # a newer controller may send errors that this broker does not know
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _now_ms() -> float:
    return trio.current_time() * 1000
