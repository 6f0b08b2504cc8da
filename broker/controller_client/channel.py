"""A broker's channel to the active controller, which is in this process or reached over one connection.

Requests wait while no leader is known. They are retried when the connection breaks or the controller is deposed, within
tens of milliseconds after a new leader is known. **A request may run twice**, if it was carried out and its response
was lost. The broker's own requests allow for that. A client may get TOPIC_ALREADY_EXISTS for a topic that its first
attempt created, as with Kafka.

The connections ensure that an abandoned request does not run *after* its retry. This side resets a connection that it
abandons with open requests. A deposed controller executes no further requests from the connections of its brokers, and
closes them once it has sent the responses that were already decided.

A connection is used only after a response has arrived over it, as in Kafka. Assume that only the path back from the
controller is cut, and that a proxy accepts connections for the controller. Heartbeats on one new connection after
another would then keep the broker unfenced. It would lead its partitions without ever receiving metadata, and could not
commit.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from ipaddress import ip_address
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import trio

from broker.client import Connection, ConnectionLost, decode_response, encode_request
from broker.client.connection_security import PLAINTEXT, ConnectionSecurity
from broker.wire.api.api_versions import ApiVersionsRequest
from broker.wire.api.envelope import EnvelopeRequest
from broker.wire.errors import ErrorCode, KafkaError
from kraft.env import Env
from kraft.replicated_log import Batch, Leadership

T = TypeVar("T")

CONNECT_TIMEOUT_MS: Final = 1_000
# The pause between two failed attempts: the first, and the longest. News of a leader ends a pause.
RETRY_BACKOFF_MS: Final = 10
RETRY_BACKOFF_MAX_MS: Final = 200
_API_VERSIONS_VERSION: Final = 0
_ENVELOPE_VERSION: Final = 0
# The principal of the broker's own requests: the one of every client on a listener without authentication.
_OWN_PRINCIPAL: Final = "User:ANONYMOUS"
_OWN_HOST: Final = "127.0.0.1"


class LocalController(Protocol):
    """The controller in this process, which serves requests as its listener does."""

    @property
    def is_active(self) -> bool: ...

    async def execute(self, payload: bytes, *, principal: str, client_host: str, is_own: bool = False) -> bytes:
        """Execute the request in `payload` and return the payload of the response. This node's own is not authorized.

        Raises KafkaError: NOT_CONTROLLER if this node does not lead, or stopped leading before the response was
        certain; another code if the request has no response in its own API.
        """
        ...


class QuorumView(Protocol):
    """The state of the quorum, as far as the channel needs it; `kraft.raft_node.RaftNode` is one."""

    @property
    def node_id(self) -> int: ...

    @property
    def leadership(self) -> Leadership: ...

    @property
    def leader_address(self) -> str | None: ...

    @property
    def is_majority_absent(self) -> bool:
        """True if so many voters seem to be down that no controller can be active."""
        ...


_Controller: TypeAlias = LocalController | Connection


class ControllerChannel:
    """See the module's docstring. A listener of the quorum, to be registered after the controller.

    `request_timeout_ms` is how long a controller may leave a request unanswered before its connection counts as dead.
    It has to be well below the broker's session timeout, as heartbeats take the same way.
    """

    def __init__(
        self,
        env: Env,
        quorum: QuorumView,
        local: LocalController | None,
        *,
        client_id: str,
        request_timeout_ms: float,
        security: ConnectionSecurity = PLAINTEXT,
    ) -> None:
        self._env = env
        self._security = security
        self._quorum = quorum
        self._local = local
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._leader: Leadership | None = None
        self._connection: Connection | None = None
        self._connecting = trio.CancelScope()
        self._changed = trio.Event()
        self._reached: list[Callable[[], None]] = []
        self._lost: list[Callable[[], None]] = []

    def add_reached_listener(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever a controller becomes reachable: another one, or the same one again.

        It must not block.
        """
        self._reached.append(callback)

    def add_lost_listener(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever a peer is lost and `is_majority_absent` is true. It must not block."""
        self._lost.append(callback)

    @property
    def is_majority_absent(self) -> bool:
        """True if the majority of the voters seems to be down, so that no controller can be active. Only a hint."""
        return self._quorum.is_majority_absent

    async def call(self, request: Any, version: int, *, timeout_ms: float) -> Any:
        """Send a request of this broker and return the controller's response. Raises KafkaError REQUEST_TIMED_OUT."""

        async def attempt(controller: _Controller) -> Any:
            if isinstance(controller, Connection):
                response = await controller.call(request, version)
            else:
                payload = encode_request(request, version, self._client_id)
                answer = await controller.execute(payload, principal=_OWN_PRINCIPAL, client_host=_OWN_HOST, is_own=True)
                response = decode_response(request, version, answer)
            # Some responses have an error for each element only.
            if getattr(response, "error_code", None) == ErrorCode.NOT_CONTROLLER:
                raise KafkaError(ErrorCode.NOT_CONTROLLER)
            return response

        return await self._call_until_answered(attempt, timeout_ms)

    async def forward(self, payload: bytes, *, principal: str, client_host: str, timeout_ms: float) -> bytes:
        """Forward a client's request to the controller, on behalf of the client (KIP-590).

        `payload` and the returned response are frames without their lengths, with the request's correlation id.
        `principal` is "Type:name", `client_host` an IP address.

        Raises KafkaError: REQUEST_TIMED_OUT; UNSUPPORTED_VERSION if the controller does not know the request's version;
        UNKNOWN_SERVER_ERROR if it rejects the request.
        """

        async def attempt(controller: _Controller) -> bytes:
            if isinstance(controller, Connection):
                return await _in_envelope(controller, payload, principal, client_host)
            return await controller.execute(payload, principal=principal, client_host=client_host)

        return await self._call_until_answered(attempt, timeout_ms)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep a connection to the leader, if that is another node, until cancelled."""
        task_status.started()
        while True:
            with trio.CancelScope() as self._connecting:
                await self._follow()

    # Events of the quorum

    def handle_leader_change(self, leadership: Leadership) -> None:
        """Connects to the new leader. While none is known, the last connection stays open: that node may still lead."""
        if leadership.leader_id is not None and leadership != self._leader:
            self._leader = leadership
            self._connecting.cancel()
            if self._current() is self._local is not None:
                self._notify_reached()
        self._notify()

    def handle_connection_reset(self, node_id: int) -> None:
        if self.is_majority_absent:
            for callback in self._lost:
                callback()

    def handle_commit(self, batches: Sequence[Batch]) -> None:
        """The channel ignores committed records and snapshots."""

    async def handle_snapshot(self, end_offset: int, portions: Iterator[tuple[bytes, ...]]) -> None:
        """The channel ignores committed records and snapshots."""

    async def _call_until_answered(self, attempt: Callable[[_Controller], Awaitable[T]], timeout_ms: float) -> T:
        failures = 0
        with trio.move_on_after(max(timeout_ms, 0) / 1000):
            while True:
                controller = await self._wait_for_controller()
                try:
                    return await attempt(controller)
                except (ConnectionLost, KafkaError) as error:
                    if isinstance(error, KafkaError) and error.code is not ErrorCode.NOT_CONTROLLER:
                        raise
                    if controller is self._current():
                        await self._pause(failures)
                        failures += 1
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The request timed out.")

    async def _wait_for_controller(self) -> _Controller:
        while (controller := self._current()) is None:
            await self._changed.wait()
        return controller

    def _current(self) -> _Controller | None:
        return self._local if self._local is not None and self._local.is_active else self._connection

    async def _follow(self) -> None:
        """Stay connected to the current leader. Cancelled when another leader is known."""
        failures = 0
        while True:
            leader_id = self._quorum.leadership.leader_id
            if leader_id in (None, self._quorum.node_id):
                await self._changed.wait()
                continue
            since = trio.current_time()
            address = self._quorum.leader_address
            if address is not None:
                try:
                    await self._run_connection(address)
                except* ConnectionLost as lost:
                    reason = str(lost.exceptions[0])
                    self._env.trace("controller_connection_lost", controller=leader_id, reason=reason)
            if trio.current_time() - since > RETRY_BACKOFF_MAX_MS / 1000:
                failures = 0
            await self._pause(failures)
            failures += 1

    async def _run_connection(self, address: str) -> None:
        """Open a connection and serve it until it is lost. Raises ConnectionLost, alone or in a group."""
        host, _, port = address.rpartition(":")
        connection = await Connection.open(
            host.strip("[]"),
            int(port),
            self._client_id,
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            request_timeout_ms=self._request_timeout_ms,
            security=self._security,
        )
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.run)
                await connection.call(ApiVersionsRequest(), _API_VERSIONS_VERSION)
                self._connection = connection
                self._notify_reached()
                self._notify()
        finally:
            self._connection = None

    async def _pause(self, failures: int) -> None:
        longest_ms = min(RETRY_BACKOFF_MAX_MS, RETRY_BACKOFF_MS * 2 ** min(failures, 10))
        with trio.move_on_after(longest_ms / 1000 * (0.5 + self._env.rng.random() / 2)):
            await self._changed.wait()

    def _notify_reached(self) -> None:
        for callback in self._reached:
            callback()

    def _notify(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()


async def _in_envelope(connection: Connection, payload: bytes, principal: str, client_host: str) -> bytes:
    envelope = EnvelopeRequest(
        request_data=payload,
        request_principal=principal.encode(),
        client_host_address=ip_address(client_host).packed,
    )
    response = await connection.call(envelope, _ENVELOPE_VERSION)
    if response.error_code == ErrorCode.NOT_CONTROLLER:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The version of API is not supported.")
    if response.error_code != ErrorCode.NONE or response.response_data is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"The controller refused a forwarded request with error {response.error_code}.",
        )
    return bytes(response.response_data)
