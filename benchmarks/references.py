"""Minimal reference servers in Python that only move bytes, as an upper bound for one Python process.

`echo` reads frames and answers each with a response of a fixed size. The other two know the size of a request in
advance, and so need not parse it: `sink` receives large requests into one buffer and discards them; `source` answers
every request with a large response from memory.

    python -m benchmarks.references echo|sink|source PORT REQUEST_SIZE REPLY_SIZE
"""

import contextlib
import gc
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from benchmarks.processes import free_port

_RECEIVE_SIZE = 64 << 10
_SINK_BUFFER_SIZE = 256 << 10
_REPLIES_AT_ONCE = 1024

Handler = Callable[[], bool]


def _reply(size: int) -> bytes:
    return struct.pack(">i", size - 4) + bytes(size - 4)


def echo(connection: socket.socket, _request_size: int, reply_size: int) -> Handler:
    """Reads frames by their lengths, and answers all complete frames of one receive with one send."""
    reply = _reply(reply_size)
    receive, send, length_at = connection.recv, connection.sendall, struct.Struct(">i").unpack_from
    rest = b""

    def on_readable() -> bool:
        nonlocal rest
        data = receive(_RECEIVE_SIZE)
        if not data:
            return False
        if rest:
            data = rest + data
        at, end = 0, len(data)
        replies = []
        while end - at >= 4:
            frame_end = at + 4 + length_at(data, at)[0]
            if frame_end > end:
                break
            replies.append(reply)
            at = frame_end
        rest = data[at:]
        if replies:
            send(b"".join(replies))
        return True

    return on_readable


def sink(connection: socket.socket, request_size: int, reply_size: int) -> Handler:
    """Receives into the same memory repeatedly; answers when a request is complete."""
    replies = memoryview(_reply(reply_size) * _REPLIES_AT_ONCE)
    buffer = bytearray(_SINK_BUFFER_SIZE)
    receive, send = connection.recv_into, connection.sendall
    rest = 0

    def on_readable() -> bool:
        nonlocal rest
        n = receive(buffer)
        if not n:
            return False
        whole, rest = divmod(rest + n, request_size)
        if whole:
            send(replies[: whole * reply_size])
        return True

    return on_readable


def source(connection: socket.socket, request_size: int, reply_size: int) -> Handler:
    """Sends the same bytes from memory for every request."""
    reply = _reply(reply_size)
    receive, send = connection.recv, connection.sendall
    rest = 0

    def on_readable() -> bool:
        nonlocal rest
        data = receive(_RECEIVE_SIZE)
        if not data:
            return False
        whole, rest = divmod(rest + len(data), request_size)
        for _ in range(whole):
            send(reply)
        return True

    return on_readable


KINDS = {"echo": echo, "sink": sink, "source": source}


def serve(kind: str, port: int, request_size: int, reply_size: int) -> None:
    """Serve until killed."""
    handlers: dict[int, Handler] = {}
    open_sockets: dict[int, socket.socket] = {}
    with socket.create_server(("127.0.0.1", port), backlog=128) as listener, select.epoll() as epoll:
        epoll.register(listener, select.EPOLLIN)
        gc.freeze()
        while True:
            for fd, _ in epoll.poll():
                if fd == listener.fileno():
                    connection, _ = listener.accept()
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    open_sockets[connection.fileno()] = connection
                    handlers[connection.fileno()] = KINDS[kind](connection, request_size, reply_size)
                    epoll.register(connection, select.EPOLLIN)
                    continue
                alive = False
                with contextlib.suppress(OSError):
                    alive = handlers[fd]()
                if not alive:
                    epoll.unregister(fd)
                    del handlers[fd]
                    open_sockets.pop(fd).close()


@contextlib.contextmanager
def running(kind: str, request_size: int, reply_size: int) -> Iterator[tuple[int, int]]:
    """Run a reference server in its own process within the block; yields its port and process id."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.references", kind, str(port), str(request_size), str(reply_size)]
    process = subprocess.Popen(command)
    try:
        for _ in range(500):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.01)
        yield port, process.pid
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    serve(sys.argv[1], *map(int, sys.argv[2:5]))
