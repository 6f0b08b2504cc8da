"""A client of the control port: blocking, with the standard library alone.

Each request has a connection of its own, so that threads and forks of a process can share a client. `Lease` keeps one
open: the kernel closes it if this process is killed, and the supervisor then ends the clusters of the lease.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

# The supervisor bounds all waits itself. A request that takes longer than this is lost.
_TIMEOUT_S: Final = 300.0


class ControlError(Exception):
    """The test server refuses a request. `status` is that of the HTTP response."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ServerEnded(ConnectionError):
    """The test server does not run any more."""


class ControlClient:
    """`address` is the "host:port" of a control port."""

    def __init__(self, address: str) -> None:
        self.address = address

    def request(self, method: str, path: str, body: object = None) -> Any:
        """The parsed response. Raises ControlError, ServerEnded, TimeoutError, OSError."""
        connection = self._connect()
        try:
            with self._ended_told(f"{method} {path}"):
                return json.loads(_respond(connection, method, path, body).read())
        finally:
            connection.close()

    def take_lease(self) -> "Lease":
        """Raises ServerEnded, OSError."""
        connection = self._connect()
        try:
            with self._ended_told("POST /leases"):
                response = _respond(connection, "POST", "/leases", None)
                return Lease(json.loads(response.readline())["lease"], connection)
        except BaseException:
            connection.close()
            raise

    @contextmanager
    def _ended_told(self, request: str) -> Iterator[None]:
        """Raise errors of the connection as what they mean for a test."""
        from http.client import IncompleteRead

        try:
            yield
        except (ConnectionError, IncompleteRead) as error:
            # A server does not end by itself while a lease is held: it was killed, or has failed.
            raise ServerEnded(
                f"the test server at {self.address} has ended: it was killed, or its standard error says why. All its "
                f"clusters have ended with it ({request}: {str(error) or type(error).__name__})"
            ) from error
        except TimeoutError as error:
            raise TimeoutError(
                f"the test server at {self.address} has not answered {request} within {_TIMEOUT_S:g} s"
            ) from error

    def _connect(self) -> "HTTPConnection":
        from http.client import HTTPConnection  # takes longer to import than all else of a session without Kafka

        return HTTPConnection(self.address, timeout=_TIMEOUT_S)


class Lease:
    """Clusters that are created with `name` end with `release`, or with this process."""

    def __init__(self, name: str, connection: "HTTPConnection") -> None:
        self.name = name
        self._connection = connection

    def release(self) -> None:
        self._connection.close()


def _respond(connection: "HTTPConnection", method: str, path: str, body: object) -> "HTTPResponse":
    connection.request(method, path, None if body is None else json.dumps(body))
    response = connection.getresponse()
    if response.status != 200:
        raise ControlError(response.status, json.loads(response.read())["error"])
    return response
