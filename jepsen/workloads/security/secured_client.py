"""A client that authenticates by SCRAM, and again before its session ends (KIP-152, KIP-368)."""

from math import inf
from typing import Any, Final

import attrs
import trio

from broker.client import ConnectionLost
from broker.security.sasl.exchange import SaslFailure
from broker.security.sasl.scram import ScramClient
from broker.wire.api.sasl_authenticate import SaslAuthenticateRequest
from broker.wire.api.sasl_handshake import SaslHandshakeRequest
from broker.wire.errors import ErrorCode
from jepsen.history import History
from jepsen.values import Access, LoggedIn, LogIn
from jepsen.workloads.client import Client
from jepsen.workloads.connection import Connection
from jepsen.workloads.security.users import Secret, Users
from metadata.protocol import ScramMechanism

_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 2
_NONCE_BYTES: Final = 20
# A client authenticates again after a part of its session between these.
_PASSED_MIN: Final = 0.7
_PASSED_MAX: Final = 0.95
# Brokers accept no more frequent ones.
_SECONDS_BETWEEN_LOG_INS: Final = 1.0


class LogInRefused(Exception):
    """The broker has refused the credentials, or has not proved that it knows the password."""


@attrs.define(eq=False)
class SecuredClient:
    """Sends requests as `user` from a machine with the address `address`, over one connection at a time.

    A careless client does not authenticate again, and uses its connection until the broker closes it.
    """

    client: Client
    address: str
    user: str
    users: Users
    is_careless: bool = False

    # The user that the connection has authenticated as.
    authenticated_as: str = attrs.field(default="", init=False)
    _mechanism: ScramMechanism = attrs.field(default=ScramMechanism.UNKNOWN, init=False)
    _again_at: float = attrs.field(default=inf, init=False)
    _logged_in_at: float = attrs.field(default=-inf, init=False)
    _connections: int = attrs.field(default=0, init=False)

    @property
    def name(self) -> str:
        return self.client.name

    @property
    def history(self) -> History:
        return self.client.history

    @property
    def may_log_in_again(self) -> bool:
        return not self.is_careless and trio.current_time() >= self._logged_in_at + _SECONDS_BETWEEN_LOG_INS

    async def connect(self, mechanism: ScramMechanism, secret: Secret) -> None:
        """Open a new connection to any broker, and authenticate. Raises ConnectionLost, LogInRefused."""
        await self.connect_without_log_in()
        await self.log_in(self.user, mechanism, secret)

    async def connect_without_log_in(self) -> None:
        """Open a new connection. Raises ConnectionLost."""
        await self.client.aclose()
        self.authenticated_as, self._again_at, self._logged_in_at = "", inf, -inf
        async with self.client.connected():
            self._connections += 1

    async def refresh(self) -> None:
        """Authenticate again, if it is time to. Raises ConnectionLost, LogInRefused."""
        if trio.current_time() >= self._again_at and not self.is_careless:
            user = self.authenticated_as
            await self.log_in(user, self._mechanism, self.users.secret(user, self._mechanism, self.client.rng))

    async def become(self, user: str) -> None:
        """Authenticate again, over the same connection, as another user. Raises ConnectionLost, LogInRefused."""
        await self.log_in(user, self._mechanism, self.users.secret(user, self._mechanism, self.client.rng))

    async def call(self, request: Any, version: int) -> Any:
        """The response to a request. Raises ConnectionLost."""
        async with self.client.connected() as connection:
            return await connection.call(request, version)

    def access(self, *rights: Any, is_forwarded: bool = False, effect: str = "") -> Access:
        """A request of this client over its present connection."""
        return Access(
            self._connection_name, self._broker, self.authenticated_as, self.address, rights, is_forwarded, effect
        )

    async def log_in(self, user: str, mechanism: ScramMechanism, secret: Secret) -> None:
        """Authenticate over the present connection. Raises ConnectionLost, LogInRefused."""
        value = LogIn(
            self._connection_name,
            self._broker,
            user,
            mechanism,
            secret.password,
            self.users.lifetime_ms_max(mechanism),
            self.authenticated_as,
            secret.token_id,
        )
        operation = self.history.invoke(self.client.name, "log-in", value)
        self._logged_in_at = trio.current_time()
        try:
            async with self.client.connected() as connection:
                result = await self._authenticate(connection, value)
        except ConnectionLost as error:
            self.history.info(operation, str(error))
            raise
        except LogInRefused as refused:
            self.history.fail(operation, str(refused))
            raise
        self.history.ok(operation, result)
        self.authenticated_as, self._mechanism = user, mechanism
        passed = self.client.rng.uniform(_PASSED_MIN, _PASSED_MAX)
        self._again_at = self._logged_in_at + result.lifetime_ms / 1000 * passed if result.lifetime_ms else inf

    async def _authenticate(self, connection: Connection, value: LogIn) -> LoggedIn:
        nonce, name = self.client.rng.randbytes(_NONCE_BYTES).hex(), value.token_id or value.user
        exchange = ScramClient(value.mechanism, name, value.password, nonce, by_token=bool(value.token_id))
        handshake = await connection.call(SaslHandshakeRequest(mechanism=exchange.mechanism), _HANDSHAKE_VERSION)
        if handshake.error_code:
            raise ConnectionLost(ErrorCode(handshake.error_code).name)
        try:
            challenge, _ = await _send(connection, exchange.first())
            proof = exchange.answer(challenge)
            assert proof is not None, "the exchange has two messages"
            signature, lifetime_ms = await _send(connection, proof)
            exchange.answer(signature)
        except SaslFailure as failure:
            raise LogInRefused(str(failure)) from failure
        iterations = next(part for part in challenge.decode().split(",") if part.startswith("i="))
        return LoggedIn(int(iterations.removeprefix("i=")), lifetime_ms)

    @property
    def _connection_name(self) -> str:
        return f"{self.client.name}.{self._connections}"

    @property
    def _broker(self) -> str:
        address = self.client.address
        assert address is not None, "the client has connected"
        return address[0]


async def _send(connection: Connection, message: bytes) -> tuple[bytes, int]:
    """Send a message of the mechanism. Returns the server's message, and the lifetime of the session in ms."""
    response = await connection.call(SaslAuthenticateRequest(auth_bytes=message), _AUTHENTICATE_VERSION)
    if response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED:
        raise LogInRefused(response.error_message or "")
    if response.error_code:
        raise ConnectionLost(ErrorCode(response.error_code).name)
    return bytes(response.auth_bytes), response.session_lifetime_ms
