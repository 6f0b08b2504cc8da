"""From a broker to the active controller, wherever that is: in this process, or over one connection to another node.

Requests wait while nobody leads, and are tried again when the connection breaks or the controller was deposed: within
tens of milliseconds after a new leader is known. **A request may thus run twice**, where it was done and its answer got
lost. What a broker asks for itself allows for that. A client may be told that its topic exists already, as Kafka tells
it in the same place.

That an abandoned request does not run *later* than its repetition is for the connections to ensure. This side resets
one that it gives up with requests open; the controller carries out nothing more over those of its brokers when it is
deposed, and closes them once it has answered what it has decided.

A connection is used once the other side has been heard over it, as Kafka's is. Where only the way back is cut, and
something between the two accepts connections for the controller, heartbeats on ever new ones would keep a broker
unfenced that hears of nothing, and leads on with nobody to commit.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from ipaddress import ip_address
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import trio

from broker.client import Connection, ConnectionLost, decode_response, encode_request
from broker.wire.api.api_versions import ApiVersionsRequest
from broker.wire.api.envelope import EnvelopeRequest
from broker.wire.errors import ErrorCode
from kraft.env import Env
from kraft.replicated_log import Batch, Leadership
from metadata.errors import ApiError, NotController, RequestTimedOut, UnsupportedVersion

T = TypeVar("T")

CONNECT_TIMEOUT_MS: Final = 1_000
# Between two attempts at what does not work: at first, and at most. Whatever is heard of a leader ends a pause.
RETRY_BACKOFF_MS: Final = 10
RETRY_BACKOFF_MAX_MS: Final = 200
_API_VERSIONS_VERSION: Final = 0
_ENVELOPE_VERSION: Final = 0
# As whom a broker asks for itself; all who come through a listener without authentication are called so.
_OWN_PRINCIPAL: Final = "User:ANONYMOUS"
_OWN_HOST: Final = "127.0.0.1"


class LocalController(Protocol):
    """This node's own controller, as its listener would serve it."""

    @property
    def is_active(self) -> bool: ...

    async def execute(self, payload: bytes, *, principal: str, client_host: str) -> bytes:
        """Run a request's payload and return that of its response.

        Raises NotController where this node does not lead, or ceased to before the answer was certain; other ApiErrors
        for what cannot be answered under the request's own API.
        """
        ...


class QuorumView(Protocol):
    """What is to be known of the quorum; `kraft.raft_node.RaftNode` is one."""

    @property
    def node_id(self) -> int: ...

    @property
    def leadership(self) -> Leadership: ...

    @property
    def leader_address(self) -> str | None: ...

    @property
    def is_majority_absent(self) -> bool:
        """Whether so many voters seem to be gone that no controller can do anything."""
        ...


_Controller: TypeAlias = LocalController | Connection


class ControllerChannel:
    """See the module's docstring. A listener of the quorum, to be registered after the controller.

    `request_timeout_ms` is how long a controller may leave a request unanswered before its connection counts as dead.
    It has to be well below the broker's session timeout, as heartbeats take the same way.
    """

    def __init__(
        self, env: Env, quorum: QuorumView, local: LocalController | None, *, client_id: str, request_timeout_ms: float
    ) -> None:
        self._env = env
        self._quorum = quorum
        self._local = local
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._leader: Leadership | None = None
        self._connection: Connection | None = None
        self._following = trio.CancelScope()
        self._changed = trio.Event()
        self._reached: list[Callable[[], None]] = []
        self._lost: list[Callable[[], None]] = []

    def when_reached(self, callback: Callable[[], None]) -> None:
        """Have `callback` called whenever another controller, or the same one anew, is in reach. It must not block."""
        self._reached.append(callback)

    def when_lost(self, callback: Callable[[], None]) -> None:
        """Have `callback` called whenever there is reason to believe that `is_hopeless`. It must not block."""
        self._lost.append(callback)

    @property
    def is_hopeless(self) -> bool:
        """Whether the quorum's majority seems to be gone, and with it every controller. Only a hint."""
        return self._quorum.is_majority_absent

    async def call(self, request: Any, version: int, *, timeout_ms: float) -> Any:
        """The controller's response to a request of this broker's own. Raises RequestTimedOut."""

        async def attempt(controller: _Controller) -> Any:
            if isinstance(controller, Connection):
                response = await controller.call(request, version)
            else:
                payload = encode_request(request, version, self._client_id)
                answer = await controller.execute(payload, principal=_OWN_PRINCIPAL, client_host=_OWN_HOST)
                response = decode_response(request, version, answer)
            if response.error_code == ErrorCode.NOT_CONTROLLER:
                raise NotController
            return response

        return await self._persist(attempt, timeout_ms)

    async def forward(self, payload: bytes, *, principal: str, client_host: str, timeout_ms: float) -> bytes:
        """Have a client's request answered by the controller, in the client's name (KIP-590).

        `payload` is the request's frame without its length, as is the response, with the request's correlation id.
        `principal` is "Type:name", `client_host` an IP address. Raises RequestTimedOut; UnsupportedVersion where the
        controller does not know the request's version; ApiError where it cannot do anything with the request.
        """

        async def attempt(controller: _Controller) -> bytes:
            if isinstance(controller, Connection):
                return await _in_envelope(controller, payload, principal, client_host)
            return await controller.execute(payload, principal=principal, client_host=client_host)

        return await self._persist(attempt, timeout_ms)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold a connection to whichever other node leads, until cancelled."""
        task_status.started()
        while True:
            with trio.CancelScope() as self._following:
                await self._follow()

    # What the quorum says

    def handle_leader_change(self, leadership: Leadership) -> None:
        """While nobody is known to lead, the last leader keeps its connection: it may well lead still."""
        if leadership.leader_id is not None and leadership != self._leader:
            self._leader = leadership
            self._following.cancel()
            if self._current() is self._local is not None:
                self._tell_reached()
        self._notify()

    def handle_connection_reset(self, node_id: int) -> None:
        if self.is_hopeless:
            for callback in self._lost:
                callback()

    def handle_commit(self, batches: Sequence[Batch]) -> None:
        """Of no interest here."""

    async def handle_snapshot(self, end_offset: int, portions: Iterator[tuple[bytes, ...]]) -> None:
        """Of no interest here."""

    async def _persist(self, attempt: Callable[[_Controller], Awaitable[T]], timeout_ms: float) -> T:
        failures = 0
        with trio.move_on_after(timeout_ms / 1000):
            while True:
                controller = await self._reach()
                try:
                    return await attempt(controller)
                except (ConnectionLost, NotController):
                    if controller is self._current():
                        await self._pause(failures)
                        failures += 1
        raise RequestTimedOut

    async def _reach(self) -> _Controller:
        while (controller := self._current()) is None:
            await self._changed.wait()
        return controller

    def _current(self) -> _Controller | None:
        return self._local if self._local is not None and self._local.is_active else self._connection

    async def _follow(self) -> None:
        """Be connected to the leader of now, for as long as it leads: another one cancels this."""
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
                    await self._hold(address)
                except* ConnectionLost as lost:
                    reason = str(lost.exceptions[0])
                    self._env.trace("controller_connection_lost", controller=leader_id, reason=reason)
            if trio.current_time() - since > RETRY_BACKOFF_MAX_MS / 1000:
                failures = 0
            await self._pause(failures)
            failures += 1

    async def _hold(self, address: str) -> None:
        """Be connected until the connection is lost: raises ConnectionLost, alone or in a group."""
        host, _, port = address.rpartition(":")
        connection = await Connection.open(
            host.strip("[]"),
            int(port),
            self._client_id,
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            request_timeout_ms=self._request_timeout_ms,
        )
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.run)
                await connection.call(ApiVersionsRequest(), _API_VERSIONS_VERSION)
                self._connection = connection
                self._tell_reached()
                self._notify()
        finally:
            self._connection = None

    async def _pause(self, failures: int) -> None:
        longest_ms = min(RETRY_BACKOFF_MAX_MS, RETRY_BACKOFF_MS * 2 ** min(failures, 10))
        with trio.move_on_after(longest_ms / 1000 * (0.5 + self._env.rng.random() / 2)):
            await self._changed.wait()

    def _tell_reached(self) -> None:
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
        raise NotController
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        raise UnsupportedVersion
    if response.error_code != ErrorCode.NONE or response.response_data is None:
        raise ApiError(f"The controller refused a forwarded request with error {response.error_code}.")
    return bytes(response.response_data)
