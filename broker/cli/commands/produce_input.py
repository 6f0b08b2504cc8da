"""The input of `kraft produce`: splits lines of standard input or files into keys, headers and values."""

import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import attrs
import trio

from broker.cli.grammar import CommandFailed
from broker.cli.output.record_json import RecordToProduce, read_record
from broker.client.types import Header

_CHUNK_BYTES: Final = 256 * 1024
# A line that does not end would otherwise take all memory. No broker takes a record that is larger by default.
_LINE_BYTES_MAX: Final = 64 * 1024 * 1024


@attrs.frozen(kw_only=True)
class LineForm:
    """How a line becomes a record.

    `header_separator` separates headers (`name=value,...`) from the rest, `key_separator` the key from the value; None
    where a line has none. Content that equals `null` is null.
    """

    delimiter: bytes
    key_separator: bytes | None
    header_separator: bytes | None
    null: bytes | None
    is_json: bool

    def read(self, line: bytes) -> RecordToProduce:
        """Turns a line into a record. Raises ValueError."""
        if self.is_json:
            return read_record(line)
        headers: Sequence[Header] = ()
        if self.header_separator is not None:
            text, separator, line = line.partition(self.header_separator)
            if not separator:
                raise ValueError("it has no separator after its headers")
            headers = [_header(part) for part in text.split(b",") if part]
        key: bytes | None = None
        if self.key_separator is not None:
            key, separator, line = line.partition(self.key_separator)
            if not separator:
                raise ValueError("it has no separator between key and value")
        return RecordToProduce(self._or_null(key), self._or_null(line), headers, None, None)

    def _or_null(self, content: bytes | None) -> bytes | None:
        return None if content == self.null else content


async def read_lines(paths: Sequence[str], delimiter: bytes) -> AsyncIterator[bytes]:
    """The lines of the files, of standard input where there are none. Raises OSError, CommandFailed."""
    for path in paths or ["-"]:
        with _opened(path) as file:
            rest = b""
            while chunk := await trio.to_thread.run_sync(_read, file, abandon_on_cancel=True):
                *lines, rest = (rest + chunk).split(delimiter)
                for line in lines:
                    yield line
                if len(rest) > _LINE_BYTES_MAX:
                    raise CommandFailed(f"{path} has a line of more than {_LINE_BYTES_MAX} bytes; see --delimiter")
            if rest:
                yield rest


def read_whole_files(paths: Sequence[str]) -> Iterator[bytes]:
    """The content of each file. Raises OSError."""
    for path in paths:
        yield Path(path).read_bytes()


def _opened(path: str) -> BinaryIO:
    return open(0 if path == "-" else path, "rb", buffering=0, closefd=path != "-")


def _read(file: BinaryIO) -> bytes:
    return file.read(_CHUNK_BYTES)


def parse_header(text: str) -> Header:
    """`name=value`. Raises ValueError."""
    return _header(text.encode())


def _header(part: bytes) -> Header:
    name, equals, value = part.partition(b"=")
    if not (equals and name):
        raise ValueError(f"{part.decode(errors='replace')!r} is not a header; write name=value")
    return name.decode(errors="replace"), value


def unescape(text: str) -> bytes:
    r"""A separator as it is typed: `\t`, `\n`, `\0` and `\xHH` are what they are in C. Raises ValueError."""
    try:
        return text.encode().decode("unicode_escape").encode("latin-1") if "\\" in text else text.encode()
    except UnicodeError as error:
        raise ValueError(f"{text!r} is not a separator; escapes are \\t, \\n, \\0 and \\xHH") from error


def is_interactive() -> bool:
    """True if a person types the records."""
    return sys.stdin.isatty()
