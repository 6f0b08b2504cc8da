"""Batches as a broker returns them, before a client decompresses them."""

import socket
import struct

from kafka.protocol.consumer import FetchResponse

from tests.support import valid_requests
from tests.support.driver import COMPRESSIONS

LENGTH = struct.Struct(">i")
FETCH_VERSION = 11
FETCH_MAX_BYTES = 1_000_000

# Base offset and length; the length is that of the bytes after it.
BATCH_START = struct.Struct(">qi")
ATTRIBUTES = struct.Struct(">h")
ATTRIBUTES_POSITION = 21
COMPRESSION_MASK = 0b111


def stored_compressions(bootstrap: str, topic: str) -> set[str]:
    """The names of the compressions of the first batches in partition 0, of up to about a megabyte."""
    records = _fetch(bootstrap, topic)
    found = set()
    position = 0
    while position + ATTRIBUTES_POSITION + ATTRIBUTES.size <= len(records):
        (attributes,) = ATTRIBUTES.unpack_from(records, position + ATTRIBUTES_POSITION)
        found.add(COMPRESSIONS[attributes & COMPRESSION_MASK])
        position += BATCH_START.size + BATCH_START.unpack_from(records, position)[1]
    return found


def _fetch(bootstrap: str, topic: str) -> bytes:
    host, port = bootstrap.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as sock:
        sock.sendall(valid_requests.frame(valid_requests.fetch(topic, max_bytes=FETCH_MAX_BYTES), FETCH_VERSION))
        (size,) = LENGTH.unpack(_receive(sock, LENGTH.size))
        response = FetchResponse.decode(_receive(sock, size), version=FETCH_VERSION, header=True)
    (answered,) = response.responses
    (partition,) = answered.partitions
    assert partition.error_code == 0
    return bytes(partition.records)


def _receive(sock: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        chunk = sock.recv(count - len(received))
        assert chunk, "the broker closed the connection"
        received += chunk
    return bytes(received)
