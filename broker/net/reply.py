"""Replies to requests: buffers, ranges of files, or a pending reply that will hold them."""

from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

_RESPONSE_HEADER_V0: Final = Struct(">ii")
_RESPONSE_HEADER_V1: Final = Struct(">iiB")


class SendableFile(Protocol):
    """A file whose bytes can be read, or handed to a socket inside the kernel."""

    def read(self, offset: int, count: int) -> bytes: ...

    def send_to(self, sock: "SocketLike", offset: int, count: int) -> int: ...


class SocketLike(Protocol):
    def fileno(self) -> int: ...


class FileRange:
    """`size` bytes of a file from `position`, sent without passing through the encoder."""

    __slots__ = ("file", "position", "size")

    def __init__(self, file: SendableFile, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size


Part: TypeAlias = Buffer | FileRange
Reply: TypeAlias = "bytes | list[Part] | PendingReply | None"


def frame_response(correlation_id: int, flexible_header: bool, body: list[Part]) -> bytes | list[Part]:
    """A whole response frame around an encoded body; one bytes object when nothing in it is large or in a file.

    `flexible_header` selects response header v1, which ends in (no) tagged fields.
    """
    size = sum(map(len, body))
    if flexible_header:
        header = _RESPONSE_HEADER_V1.pack(size + 5, correlation_id, 0)
    else:
        header = _RESPONSE_HEADER_V0.pack(size + 4, correlation_id)
    if size <= _JOIN_MAX and FileRange not in map(type, body):
        return b"".join([header, *body])  # type: ignore[list-item]  # no FileRange is left in it
    return _joined([header, *body])


def _joined(parts: list[Part]) -> list[Part]:
    """Join the small parts that the encoder emits between file ranges, so that there are fewer parts."""
    joined: list[Part] = []
    small: list[Buffer] = []
    size = 0
    for part in parts:
        if isinstance(part, FileRange) or len(part) > _JOIN_MAX:
            if small:
                joined.append(b"".join(small))
                small, size = [], 0
            joined.append(part)
        else:
            small.append(part)
            size += len(part)
            if size > _JOINED_MAX:
                joined.append(b"".join(small))
                small, size = [], 0
    if small:
        joined.append(b"".join(small))
    return joined


# Joining a response up to this size costs less than another entry in the gather list of sendmsg.
_JOIN_MAX: Final = 16 * 1024
# Small parts are joined up to about this size, so that megabytes are not copied to be sent as one part.
_JOINED_MAX: Final = 128 * 1024


class RepliesInOrder(Protocol):
    """A connection, which sends its replies in the order of the requests."""

    def reply_completed(self) -> None:
        """Called when one of its pending replies is completed."""
        ...


class PendingReply:
    """A reply that takes its place in a connection's order before it is complete.

    Its `outcome`, which is set once it is `done`, is a frame, or None.

    `on_abandon` is called if the connection closes first, to end the work that the reply waits for. `on_completed` is
    called when the reply, or another that takes its place, is completed: `TurnTimer` takes the time then.

    The connection serves no further request while a reply `is_exclusive`, for slow APIs whose effects later requests of
    the same client must see: Kafka promises that the requests of one connection are processed in order.
    """

    __slots__ = ("_connection", "done", "is_exclusive", "on_abandon", "on_completed", "outcome")

    outcome: bytes | list[Part] | None

    def __init__(self, connection: RepliesInOrder, *, is_exclusive: bool = False) -> None:
        self.done = False
        self._connection = connection
        self.is_exclusive = is_exclusive
        self.on_abandon: Callable[[], None] | None = None
        self.on_completed: Callable[[], None] | None = None

    def complete(self, outcome: bytes | list[Part] | None) -> None:
        """Set the frame of the reply."""
        if not self.done:
            self.done = True
            self.outcome = outcome
            self.on_abandon = None
            if self.on_completed is not None:
                self.on_completed()
            self._connection.reply_completed()

    def replace_by(self, reply: Reply) -> None:
        """Another reply takes the place of this one, which is not completed."""
        on_completed, self.on_completed = self.on_completed, None
        if on_completed is None:
            return
        if isinstance(reply, PendingReply) and not reply.done:
            reply.on_completed = on_completed
        else:
            on_completed()

    def abandon(self) -> None:
        """Drop the reply, as the connection is closed."""
        if not self.done:
            self.done = True
            on_abandon, self.on_abandon = self.on_abandon, None
            if on_abandon is not None:
                on_abandon()
