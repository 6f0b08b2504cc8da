"""A client of the control port: blocking, with the standard library alone.

Each request has a connection of its own, so that threads and forks of a process can share a client. `Lease` keeps one
open: the kernel closes it if this process is killed, and the supervisor then ends the clusters of the lease.
"""

import json
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


class ControlClient:
    """`address` is the "host:port" of a control port."""

    def __init__(self, address: str) -> None:
        self.address = address

    def request(self, method: str, path: str, body: object = None) -> Any:
        """The parsed response. Raises ControlError, OSError."""
        connection = self._connect()
        try:
            return json.loads(_respond(connection, method, path, body).read())
        finally:
            connection.close()

    def take_lease(self) -> "Lease":
        """Raises OSError if the server has ended."""
        connection = self._connect()
        try:
            response = _respond(connection, "POST", "/leases", None)
            return Lease(json.loads(response.readline())["lease"], connection)
        except BaseException:
            connection.close()
            raise

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
