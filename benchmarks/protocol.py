"""The few Kafka requests that a raw load needs, encoded and decoded by hand.

The broker's own codec is deliberately not used, because it is part of the code under measurement. All requests name
topics by name, in versions that Apache Kafka 4.x and this project both serve: Produce 9, Fetch 12, Metadata 1.
"""

import random
import socket
import struct
import time
from collections.abc import Sequence

import attrs

from kraft.checksums import crc32c

PRODUCE_VERSION, FETCH_VERSION, METADATA_VERSION = 9, 12, 1
CORRELATION_ID = 7
BATCH_OVERHEAD = 61
_CLIENT_ID = b"bench"


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _zigzag(n: int) -> bytes:
    return _varint(n << 1 if n >= 0 else (-n << 1) - 1)


def _compact(data: bytes) -> bytes:
    return _varint(len(data) + 1) + data


def _frame(api_key: int, version: int, flexible: bool, body: bytes) -> bytes:
    header = struct.pack(">hhih", api_key, version, CORRELATION_ID, len(_CLIENT_ID)) + _CLIENT_ID
    request = header + (b"\0" if flexible else b"") + body
    return struct.pack(">i", len(request)) + request


def batch(records: int, value_size_bytes: int) -> bytes:
    """A v2 record batch without compression, keys or producer id: the same incompressible value `records` times.

    Its timestamp is the present time: records older than retention.ms could be deleted during a load.
    """
    value = random.Random(value_size_bytes).randbytes(value_size_bytes)
    now_ms = time.time_ns() // 1_000_000
    body = bytearray(struct.pack(">hiqqqhii", 0, records - 1, now_ms, now_ms, -1, -1, -1, records))
    for i in range(records):
        record = b"\0" + _zigzag(0) + _zigzag(i) + _zigzag(-1) + _zigzag(len(value)) + value + _zigzag(0)
        body += _zigzag(len(record)) + record
    return struct.pack(">qiibI", 0, len(body) + 9, -1, 2, crc32c(bytes(body))) + body


def produce(topic: str, partition: int, records: bytes, *, acks: int = -1) -> bytes:
    """A Produce request of one batch to one partition, as a frame."""
    body = b"\0" + struct.pack(">hi", acks, 30_000) + b"\x02" + _compact(topic.encode())
    body += b"\x02" + struct.pack(">i", partition) + _compact(records) + b"\0\0\0"
    return _frame(0, PRODUCE_VERSION, True, body)


def fetch(topic: str, partition: int, offset: int, *, max_bytes: int, max_wait_ms: int = 500) -> bytes:
    """A Fetch request for one partition outside of any session, as a frame. `max_bytes` bounds its records."""
    body = struct.pack(">iiiibii", -1, max_wait_ms, 1, 50 << 20, 0, 0, -1) + b"\x02" + _compact(topic.encode())
    body += b"\x02" + struct.pack(">iiqiqi", partition, -1, offset, -1, -1, max_bytes)
    return _frame(1, FETCH_VERSION, True, body + b"\0\0" + b"\x01" + b"\x01" + b"\0")


def produce_error_offset(topic: str) -> int:
    """The position of the partition's error code in the response to `produce`, after the frame's length."""
    return 4 + 1 + 1 + len(_compact(topic.encode())) + 1 + 4


def fetch_error_offset(topic: str) -> int:
    """The position of the partition's error code in the response to `fetch`, after the frame's length."""
    return 4 + 1 + 4 + 2 + 4 + 1 + len(_compact(topic.encode())) + 1 + 4


def error_code(reply: bytes, offset: int) -> int:
    return int(struct.unpack_from(">h", reply, offset)[0])


@attrs.frozen
class Brokers:
    """The brokers and the controller in a Metadata response; the controller is -1 while there is none."""

    count: int
    controller_id: int


class Connection:
    """A blocking connection with one request at a time. Raises OSError if the server is down or too slow."""

    def __init__(self, port: int, timeout_s: float = 10) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout_s)

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def ask(self, request: bytes) -> bytes:
        """Send a frame and return the response's frame without its length."""
        self.send(request)
        return self.receive()

    def send(self, request: bytes) -> None:
        """Send a frame, without waiting for its response."""
        self._socket.sendall(request)

    def receive(self) -> bytes:
        """The next response's frame without its length."""
        return self._receive(struct.unpack(">i", self._receive(4))[0])

    def _receive(self, size: int) -> bytes:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            n = self._socket.recv_into(view)
            if not n:
                raise ConnectionResetError("closed within a reply")
            view = view[n:]
        return bytes(data)

    def brokers(self) -> Brokers:
        """Send a Metadata request without topics."""
        reply = self.ask(_frame(3, METADATA_VERSION, False, struct.pack(">i", 0)))
        count = struct.unpack_from(">i", reply, 4)[0]
        at = 8
        for _ in range(count):
            at += 4
            at += 2 + max(0, struct.unpack_from(">h", reply, at)[0])
            at += 4
            at += 2 + max(0, struct.unpack_from(">h", reply, at)[0])
        return Brokers(count, struct.unpack_from(">i", reply, at)[0])


def join(requests: Sequence[bytes]) -> bytes:
    """A request file for the load generator."""
    return b"".join(requests)
