"""What the stream driver writes for the parts of replies."""

import pytest

from broker.net.reply import FileRange, SocketLike
from broker.net.stream_driver import JOINED_MAX, PIECE_SIZE, joined_pieces


class MemoryFile:
    """A file that counts how often it is read."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.reads = 0

    def read(self, offset: int, count: int) -> bytes:
        self.reads += 1
        return self.content[offset : offset + count]

    def send_to(self, sock: SocketLike, offset: int, count: int) -> int:
        raise NotImplementedError


def test_small_buffers_and_file_ranges_are_written_together_in_order() -> None:
    file = MemoryFile(b"0123456789")
    assert list(joined_pieces([b"head", FileRange(file, 2, 3), memoryview(b"middle"), FileRange(file, 0, 2)])) == [
        b"head234middle01"
    ]


def test_single_buffer_is_written_without_a_copy() -> None:
    reply = b"reply"
    (piece,) = joined_pieces([reply])
    assert piece is reply


def test_large_buffer_is_written_alone_and_without_a_copy() -> None:
    large = bytes(JOINED_MAX + 1)
    pieces = list(joined_pieces([b"a", b"b", large, b"c"]))
    assert [bytes(piece[:2]) for piece in pieces] == [b"ab", bytes(2), b"c"]
    assert pieces[1] is large


def test_joined_pieces_stay_below_the_bound() -> None:
    parts = [bytes([index]) * (JOINED_MAX // 3) for index in range(10)]
    pieces = list(joined_pieces(parts))
    assert b"".join(pieces) == b"".join(parts)
    assert max(map(len, pieces)) <= JOINED_MAX
    assert len(pieces) == 4


def test_large_file_range_is_read_one_piece_at_a_time() -> None:
    file = MemoryFile(bytes(range(250)) * (PIECE_SIZE // 100))
    pieces = joined_pieces([FileRange(file, 1, 2 * PIECE_SIZE)])
    assert next(pieces) == file.content[1 : 1 + PIECE_SIZE]
    assert file.reads == 1
    assert b"".join(pieces) == file.content[1 + PIECE_SIZE : 1 + 2 * PIECE_SIZE]


def test_range_of_a_truncated_file_raises() -> None:
    with pytest.raises(OSError, match="truncated"):
        list(joined_pieces([b"head", FileRange(MemoryFile(b"short"), 0, 100)]))
