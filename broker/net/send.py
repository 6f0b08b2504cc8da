"""Sending a queue of buffers and file ranges through a non-blocking kernel socket."""

import socket
from typing import Final

from broker.net.reply import FileRange, Part

# sendfile saves a copy, but costs more to set up: below this size pread and sendmsg take half the time.
SENDFILE_MIN: Final = 256 * 1024
# IOV_MAX of Linux and macOS is 1,024; half of it leaves one call enough work.
GATHER_MAX: Final = 512
# A queue of buffers up to this size is joined and sent with the simplest call there is.
JOIN_ALL_MAX: Final = 16 * 1024
# Buffers smaller than this are cheaper joined than gathered.
JOIN_BELOW: Final = 4 * 1024


# Says that more follows at once. Other systems than Linux have no such flag, and may send an incomplete segment.
_MORE: Final = getattr(socket, "MSG_MORE", 0)


class ShortFile(OSError):
    """A file ended before the range that was promised to the peer: it was cut meanwhile, and the frame is lost."""


def send_queue(sock: socket.socket, queue: list[Part], size: int) -> int:
    """Send as much of the queue, `size` bytes, as the socket takes, and remove it; the number of bytes sent.

    Stops at the first refusal (the socket's buffer is full), leaving the rest in the queue. Raises OSError when the
    connection is broken.
    """
    try:
        if len(queue) == 1 and type(queue[0]) is bytes:  # by far the most frequent case
            sent = sock.send(queue[0])
            if sent == size:
                queue.clear()
            else:
                queue[0] = memoryview(queue[0])[sent:]
            return sent
        if size <= JOIN_ALL_MAX and FileRange not in map(type, queue):
            data = b"".join(queue)  # type: ignore[arg-type]  # there is no FileRange in it
            sent = sock.send(data)
            queue[:] = [memoryview(data)[sent:]] if sent < size else ()
            return sent
    except BlockingIOError:
        return 0
    return _send_mixed(sock, queue)


def _send_mixed(sock: socket.socket, queue: list[Part]) -> int:
    """`send_queue` for ranges of files and large buffers."""
    sent = 0
    is_corked = False
    try:
        while queue:
            head = queue[0]
            if isinstance(head, FileRange) and head.size >= SENDFILE_MIN:
                sent += _send_range(sock, head)
                is_corked = True
                if head.size:
                    continue
                del queue[0]
            else:
                batch, more = _gather(queue)
                count = sock.sendmsg(batch, [], _MORE if more else 0)
                is_corked = more
                sent += count
                drop_sent(queue, count)
    except BlockingIOError:
        if is_corked:
            _uncork(sock)
    return sent


def _uncork(sock: socket.socket) -> None:
    """Have the kernel send the last bytes it took with more announced.

    sendfile of Linux says "more to come" with each page. Where it stops because the socket is full, the last segment
    may be incomplete and would be held back for 200 ms, unless something pushes it: setting TCP_NODELAY (again) does.
    """
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _send_range(sock: socket.socket, part: FileRange) -> int:
    count = part.file.send_to(sock, part.position, part.size)
    if count == 0:
        raise ShortFile(f"the file ends before {part.size} bytes at {part.position}")
    part.position += count
    part.size -= count
    return count


def _gather(queue: list[Part]) -> tuple[list[bytes | bytearray | memoryview], bool]:
    """Buffers from the head of the queue up to the next sendfile range, and whether that range follows.

    Small file ranges are read here, in place, one at a time: nothing is read ahead of a full socket.
    """
    batch: list[bytes | bytearray | memoryview] = []
    small: list[bytes | bytearray | memoryview] = []
    more = False
    read = 0
    for index, part in enumerate(queue[:GATHER_MAX]):
        if isinstance(part, FileRange):
            if part.size >= SENDFILE_MIN or read + part.size > SENDFILE_MIN:
                more = True
                break
            data = part.file.read(part.position, part.size)
            if len(data) < part.size:
                raise ShortFile(f"the file ends before {part.size} bytes at {part.position}")
            read += part.size
            queue[index] = part = data
        if len(part) < JOIN_BELOW:
            small.append(part)
        else:
            if small:
                batch.append(small[0] if len(small) == 1 else b"".join(small))
                small = []
            batch.append(part)
    if small:
        batch.append(small[0] if len(small) == 1 else b"".join(small))
    return batch, more


def drop_sent(queue: list[Part], count: int) -> None:
    """Remove `count` sent bytes from the head of the queue."""
    index = 0
    while index < len(queue):
        part = queue[index]
        size = len(part)
        if count < size:
            break
        count -= size
        index += 1
    del queue[:index]
    if count:
        head = queue[0]
        if isinstance(head, FileRange):
            head.position += count
            head.size -= count
        else:
            queue[0] = memoryview(head)[count:]
