"""Reads untrusted msgpack piece by piece, and checks every length before it builds the elements."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgpack

from kraft.bounds import BATCHES_MAX, RECORDS_MAX, Bound

T = TypeVar("T")

# Elements of all arrays of a message together.
ELEMENTS_MAX: Final = RECORDS_MAX + 16 * BATCHES_MAX
_NIL: Final = 0xC0


class MalformedMessage(ValueError):
    """The bytes are not a valid message."""


class Reading:
    """Reads the bytes of one message from the start, as the caller asks for arrays and scalars."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._size = len(data)
        self._elements = 0
        self._unpacker = msgpack.Unpacker(
            use_list=False, max_buffer_size=max(len(data), 1), max_array_len=0, max_map_len=0, max_ext_len=0
        )
        self._unpacker.feed(data)
        self.scalar: Callable[[], object] = self._unpacker.unpack

    def complete(self, read: "Callable[[Reading], T]") -> T:
        """Return the result of `read`, which has to consume all bytes. Raises MalformedMessage."""
        try:
            value = read(self)
            if self._unpacker.tell() != self._size:
                raise MalformedMessage("bytes after the message")
        except MalformedMessage:
            raise
        except (ValueError, msgpack.UnpackException) as error:
            raise MalformedMessage(str(error) or type(error).__name__) from error
        return value

    def array(self, count_max: int) -> int:
        """Read the header of an array, and return its length. An element takes at least one byte."""
        count: int = self._unpacker.read_array_header()
        self._elements += count
        if count > count_max or count > self._size - self._unpacker.tell() or self._elements > ELEMENTS_MAX:
            raise MalformedMessage(f"an array of {count}")
        return count

    def array_of(self, count: int) -> None:
        if self.array(count) != count:
            raise MalformedMessage(f"not an array of {count}")

    def nil(self) -> bool:
        """Read a nil if it is next, and return whether it was."""
        position = self._unpacker.tell()
        if position < self._size and self._data[position] == _NIL:
            self.scalar()
            return True
        return False


def scalar_reader(bound: Bound, name: str) -> Callable[[Reading], Any]:
    """Return the reader of one value within `bound`."""
    allows = bound.allows

    def read(reading: Reading) -> Any:
        value = reading.scalar()
        if not allows(value):
            raise MalformedMessage(f"{value!r:.50} is not a valid {name}")
        return value

    return read
