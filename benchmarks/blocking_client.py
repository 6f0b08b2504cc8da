"""A client for threads: one request at a time over a blocking socket, with our own codec."""

import socket
from typing import Any

from broker.wire.api import APIS
from broker.wire.codec import decode, encode
from broker.wire.header import encode_request_header, parse_response_header, response_header_version

TIMEOUT_S = 15.0


class BlockingClient:
    """A connection that is open within the block."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)

    def __enter__(self) -> "BlockingClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def frame(self, request: Any, version: int) -> bytes:
        key = type(request).__message__.key
        body = b"".join(map(bytes, encode(request, version)))
        payload = encode_request_header(key, version, 1, "bench") + body
        return len(payload).to_bytes(4, "big") + payload

    def call(self, request: Any, version: int) -> Any:
        """Send a request and return its response. Raises EOFError if the node closes the connection."""
        key = type(request).__message__.key
        payload = self._exchange(self.frame(request, version))
        _, start = parse_response_header(payload, response_header_version(key, version) == 1)
        return decode(APIS[key].response, version, payload, start)[0]

    def exchange(self, frame: bytes) -> int:
        """Send a frame. Returns the size of its response, or 0 if the node closes the connection or sends nothing."""
        try:
            return len(self._exchange(frame))
        except (EOFError, ConnectionError, TimeoutError):
            return 0

    def _exchange(self, frame: bytes) -> bytes:
        self._socket.sendall(frame)
        return self._receive(int.from_bytes(self._receive(4), "big"))

    def _receive(self, count: int) -> bytes:
        data = bytearray(count)
        view, at = memoryview(data), 0
        while at < count:
            received = self._socket.recv_into(view[at:])
            if not received:
                raise EOFError("the node closed the connection")
            at += received
        return bytes(data)
