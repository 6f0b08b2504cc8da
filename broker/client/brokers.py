"""One broker's connection: opening, negotiating versions (KIP-511), reconnecting after a back-off, throttling
(KIP-219).
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import metadata as distributions
from typing import Any, Final

import attrs
import trio

from broker.client.backoff import Backoff
from broker.client.config import ClientConfig
from broker.client.connection import NO_ANSWER, Connection
from broker.client.connection_security import PLAINTEXT, ConnectionSecurity
from broker.client.environment import Environment
from broker.client.errors import (
    AuthenticationFailed,
    ClosedError,
    ConnectionLost,
    KafkaError,
    MismatchedEndpointType,
    UnsupportedByBroker,
    check,
)
from broker.client.payloads import decode_response, encode_request
from broker.client.reachability import Destination, Reachability, is_bootstrap
from broker.client.types import Node
from broker.wire.api import APIS
from broker.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker.wire.errors import ErrorCode, WireError

API_VERSIONS: Final = 18
_METADATA: Final = 3  # brokers serve it, controllers do not
SOFTWARE_NAME: Final = "kraft"
_ERROR_CODE: Final = slice(4, 6)  # of an ApiVersions response in every version: it comes after the correlation id


class Broker:
    """A connection to one broker, with the API versions that both sides have."""

    def __init__(
        self,
        node: Node,
        connection: Connection,
        versions: Mapping[int, tuple[int, int]],
        features: Mapping[str, int],
        scope: trio.CancelScope,
    ) -> None:
        self.node = node
        self.versions = versions
        self.features = features
        self._connection = connection
        self._scope = scope
        self.throttled_until = 0.0  # by Trio's clock (KIP-219)

    @property
    def _name(self) -> str:
        return (
            f"the broker at {self.node.host}:{self.node.port}" if is_bootstrap(self.node) else f"broker {self.node.id}"
        )

    @property
    def is_lost(self) -> bool:
        return self._connection.is_lost

    @property
    def in_flight(self) -> int:
        return self._connection.in_flight

    @property
    def used_at(self) -> float:
        """The time of the last request by Trio's clock."""
        return self._connection.used_at

    def version_of(self, request_class: type[Any], *, highest: int | None = None, lowest: int = 0) -> int:
        """The highest version of an API that both sides have, within the given bounds. Raises UnsupportedByBroker."""
        key = request_class.__message__.key
        name = APIS[key].name
        if key not in self.versions:
            raise UnsupportedByBroker(f"{self._name} does not serve {name}")
        first, last = self.versions[key]
        version = last if highest is None else min(last, highest)
        if version < max(first, lowest):
            raise UnsupportedByBroker(f"{self._name} serves {name} in versions {first} to {last} only")
        return version

    async def call(
        self,
        request: Any,
        *,
        version: int | None = None,
        highest: int | None = None,
        lowest: int = 0,
        timeout_ms: float | None = None,
    ) -> Any:
        """Sends a request in the highest common version and returns the response.

        `timeout_ms` replaces `request.timeout.ms`, for requests that the broker answers late on purpose. Raises
        ConnectionLost; UnsupportedByBroker, also where the version has no field for something that the request sets.
        """
        if version is None:
            version = self.version_of(type(request), highest=highest, lowest=lowest)
        if self.throttled_until > trio.current_time():
            await trio.sleep_until(self.throttled_until)
        try:
            response = await self._connection.call(request, version, timeout_ms=timeout_ms)
        except WireError as error:
            name = APIS[request.__message__.key].name
            raise UnsupportedByBroker(f"{self._name}: {name} in version {version}: {error}") from error
        self._note_throttle(response)
        return response

    def post(
        self,
        request: Any,
        version: int,
        on_response: Callable[[Any | ConnectionLost], None],
        *,
        is_answered: bool = True,
    ) -> None:
        """Sends a request after those posted before it, without waiting; the caller heeds `throttled_until`.

        `on_response` is called with the response, with None for a request that is not answered, or with the
        ConnectionLost. It must not block. Raises ConnectionLost, and WireError for a request that the version cannot
        express.
        """

        def on_payload(payload: bytes | None) -> None:
            if payload is None:
                on_response(ConnectionLost("the connection was lost before the response"))
            elif not is_answered:
                on_response(None)
            else:
                try:
                    response = decode_response(request, version, payload)
                except WireError as error:
                    on_response(ConnectionLost(f"a response that cannot be read: {error}"))
                else:
                    self._note_throttle(response)
                    on_response(response)

        self._connection.post(
            encode_request(request, version, self._connection.client_id), on_payload, is_answered=is_answered
        )

    def _note_throttle(self, response: Any) -> None:
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self.throttled_until = trio.current_time() + throttle_ms / 1000

    def close(self) -> None:
        """Closes the connection; requests in flight fail with ConnectionLost."""
        self._scope.cancel()


@attrs.define(eq=False)
class _Attempt:
    """An attempt to connect; all callers that need the connection wait for the same one."""

    ended: trio.Event = attrs.field(factory=trio.Event)
    waiters: int = 0
    broker: Broker | None = None
    failure: Exception | None = None


class BrokerLink:
    """Keeps one connection to a node and makes it again when a caller needs it; `nursery` carries it."""

    def __init__(
        self,
        node: Node,
        config: ClientConfig,
        environment: Environment,
        nursery: trio.Nursery,
        reachability: Reachability,
        security: ConnectionSecurity,
        is_of_controllers: bool,
        destination: Destination,
    ) -> None:
        self.node = node
        self._destination = destination
        self._security = security
        self._is_of_controllers = is_of_controllers
        self._config = config
        self._reachability = reachability
        self._nursery = nursery
        self._reconnect = Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, environment.rng)
        self._setup_timeout = Backoff(
            config.socket_connection_setup_timeout_ms,
            config.socket_connection_setup_timeout_max_ms,
            environment.rng,
        )
        self._failures = 0
        self._not_before = 0.0
        self._attempt: _Attempt | None = None
        self._broker: Broker | None = None
        self._is_closed = False

    @property
    def broker(self) -> Broker | None:
        """The live connection, if there is one."""
        return None if self._broker is None or self._broker.is_lost else self._broker

    @property
    def is_backing_off(self) -> bool:
        """True if the last attempt failed and the pause after it is not over."""
        return self._failures > 0 and trio.current_time() < self._not_before

    @property
    def is_in_use(self) -> bool:
        """True if requests wait for responses."""
        return self.broker is not None and self.broker.in_flight > 0

    async def connected(self) -> Broker:
        """The live connection, made after the back-off if there is none.

        Raises ConnectionLost, UnsupportedByBroker, KafkaError.
        """
        if (broker := self.broker) is not None:
            return broker
        self._is_closed = False
        if self._attempt is None:
            self._attempt = _Attempt()
            self._nursery.start_soon(self._connect, self._attempt)
        attempt = self._attempt
        attempt.waiters += 1
        try:
            await attempt.ended.wait()
        finally:
            attempt.waiters -= 1
        if attempt.broker is not None:
            return attempt.broker
        failure = attempt.failure or ClosedError("the client is closed")
        raise type(failure)(*failure.args) from failure

    def become(self, node: Node) -> None:
        """Takes the identity of the broker that turned out to be at this address."""
        self.node = node
        if self._broker is not None:
            self._broker.node = node

    def close(self) -> None:
        """Closes the connection, also one that is being made, unless a caller waits for it."""
        self._is_closed = True
        if self._broker is not None:
            self._broker.close()

    async def _connect(self, attempt: _Attempt) -> None:
        try:
            await trio.sleep_until(self._not_before)
            attempt.broker = self._broker = await self._open()
            self._failures = 0
            self._reachability.reached(self.node)
            if self._is_closed and not attempt.waiters:
                self._broker.close()
        except (ConnectionLost, UnsupportedByBroker, KafkaError) as failure:
            self._failures += 1
            attempt.failure = failure
            if isinstance(failure, ConnectionLost):
                attempt.failure = self._reachability.failed(self.node, failure)
                attempt.failure.__cause__ = failure
            self._pause(self._failures)
        finally:
            self._attempt = None
            attempt.ended.set()

    async def _open(self) -> Broker:
        setup_timeout_ms = self._setup_timeout.pause_s(self._failures + 1) * 1000
        connection = await Connection.open(
            self.node.host,
            self.node.port,
            self._config.client_id,
            connect_timeout_ms=setup_timeout_ms,
            request_timeout_ms=self._config.request_timeout_ms,
            security=self._security,
        )
        connection.set_buffer_sizes(self._config.send_buffer_bytes, self._config.receive_buffer_bytes)
        scope = trio.CancelScope()
        self._nursery.start_soon(self._carry, connection, scope)
        try:
            timeout_ms = min(setup_timeout_ms, self._config.request_timeout_ms)
            response = await _negotiate(connection, timeout_ms, *self._destination.expected(self.node))
            self._check_answer(response)
        except ConnectionLost as lost:
            scope.cancel()
            raise self._unusable(lost) from lost
        except BaseException:
            scope.cancel()
            raise
        versions = {
            api.api_key: (max(api.min_version, ours.min_version), min(api.max_version, ours.max_version))
            for api in response.api_keys
            if (ours := APIS.get(api.api_key)) is not None
        }
        features = {feature.name: feature.max_version_level for feature in response.finalized_features}
        return Broker(self.node, connection, versions, features, scope)

    def _unusable(self, lost: ConnectionLost) -> ConnectionLost:
        """Why a connection that was opened cannot be used."""
        if isinstance(lost, AuthenticationFailed) and self._security is not PLAINTEXT:
            return type(lost)(*lost.args)
        is_silent = str(lost) == NO_ANSWER
        what = "does not answer, as a frozen process does" if is_silent else "is no broker for clients"
        return type(lost)(f"it takes connections, but {what}: {lost}")

    def _check_answer(self, response: ApiVersionsResponse) -> None:
        """Raises KafkaError, and ConnectionLost if another node than the one that the client needs has answered.

        At an address that the cluster gives, which may be out of date, a later attempt can lead to a broker.
        """
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._destination.on_misrouted()
            raise ConnectionLost(f"another node than broker {self.node.id} of the cluster answers")
        check(response.error_code)
        if self._is_of_controllers or any(api.api_key == _METADATA for api in response.api_keys):
            return
        kind = MismatchedEndpointType if is_bootstrap(self.node) else ConnectionLost
        raise kind("a controller answers; use the port of a broker, or bootstrap_controllers of an Admin (KIP-919)")

    async def _carry(self, connection: Connection, scope: trio.CancelScope) -> None:
        with scope:
            try:
                await connection.run()
            except ConnectionLost:  # every caller that waits for a response is told
                self._pause(self._failures + 1)

    def _pause(self, failures: int) -> None:
        self._not_before = trio.current_time() + self._reconnect.pause_s(failures)


def security_of(config: ClientConfig, environment: Environment) -> ConnectionSecurity:
    """How a client's connections are secured. Raises ConfigError.

    A client without TLS or SASL does not import their packages: it starts faster.
    """
    protocol, security = config.security_protocol, PLAINTEXT
    if protocol.endswith("SSL"):
        from broker.client.tls_config import connection_security

        security = connection_security(config)
    if protocol.startswith("SASL"):
        from broker.client.sasl_config import sasl_login

        security = attrs.evolve(security, login=sasl_login(config, environment))
    return security


async def _negotiate(
    connection: Connection, timeout_ms: float, cluster_id: str | None, node_id: int
) -> ApiVersionsResponse:
    """Asks for the broker's API versions, again in a version that it has where it does not have ours (KIP-511).

    `cluster_id` and `node_id` are for brokers that check them, since Kafka 4.4; earlier versions leave them out.

    A broker that accepts the connection and does not answer counts as unreachable after the time for that, not after
    the time of a request, which may be a long one.
    """
    request = ApiVersionsRequest(
        client_software_name=SOFTWARE_NAME,
        client_software_version=software_version(),
        cluster_id=cluster_id,
        node_id=node_id,
    )
    version, client_id = APIS[API_VERSIONS].max_version, connection.client_id
    try:
        payload = await connection.exchange(encode_request(request, version, client_id), timeout_ms=timeout_ms)
        if int.from_bytes(payload[_ERROR_CODE]) == ErrorCode.UNSUPPORTED_VERSION:
            told: ApiVersionsResponse = decode_response(request, 0, payload)
            known = [api.max_version for api in told.api_keys if api.api_key == API_VERSIONS]
            version = min([version, *known]) if known else 0
            payload = await connection.exchange(encode_request(request, version, client_id), timeout_ms=timeout_ms)
        response: ApiVersionsResponse = decode_response(request, version, payload)
    except WireError as error:
        raise ConnectionLost(f"the other side does not speak Kafka's protocol: {error}") from error
    return response


@cache
def software_version() -> str:
    """The version of this distribution, which clients tell brokers (KIP-511).

    It is looked up once, because Python parses the distribution's whole metadata to find it.
    """
    try:
        return distributions.version("kraft")
    except distributions.PackageNotFoundError:
        return "unknown"
