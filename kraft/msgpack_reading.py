"""Reading msgpack that others have written, piece by piece, with every count checked before its elements are built."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgpack

from kraft.bounds import BATCHES_MAX, RECORDS_MAX, Bound

T = TypeVar("T")

# All elements of all arrays of a message together.
ELEMENTS_MAX: Final = RECORDS_MAX + 16 * BATCHES_MAX
_NIL: Final = 0xC0


class MalformedMessage(ValueError):
    """These bytes are no message."""


class Reading:
    """The bytes of one message, read from the start. What is built of them is asked for piece by piece."""

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
        """What `read` makes of all bytes. Raises MalformedMessage."""
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
        """How many elements the array that begins here has. Each takes at least a byte."""
        count: int = self._unpacker.read_array_header()
        self._elements += count
        if count > count_max or count > self._size - self._unpacker.tell() or self._elements > ELEMENTS_MAX:
            raise MalformedMessage(f"an array of {count}")
        return count

    def array_of(self, count: int) -> None:
        if self.array(count) != count:
            raise MalformedMessage(f"not an array of {count}")

    def nil(self) -> bool:
        """True if nil comes next, which is then read."""
        position = self._unpacker.tell()
        if position < self._size and self._data[position] == _NIL:
            self.scalar()
            return True
        return False


def scalar_reader(bound: Bound, name: str) -> Callable[[Reading], Any]:
    """What reads one value, which has to lie within `bound`."""
    allows = bound.allows

    def read(reading: Reading) -> Any:
        value = reading.scalar()
        if not allows(value):
            raise MalformedMessage(f"{value!r:.50} as {name}")
        return value

    return read
