"""Records from lines of text, as the console producer reads them (LineMessageReader.java).

parse.key, parse.headers               the line has a key, and headers before it; both "false"
key.separator, headers.delimiter       what ends the key, and the headers; a tab
headers.separator                      a regular expression between headers; a comma
headers.key.separator                  what ends a header's key; a colon
ignore.error                           take a line as a value if a separator is missing; "false"
null.marker                            a key, value or header that is equal to it is null
"""

import re
from collections.abc import Mapping
from itertools import combinations
from typing import Final, NamedTuple

from broker.client.types import Header

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


class LineError(Exception):
    """A line lacks a part that the properties require, or the properties are wrong."""


class LineRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[Header]


class LineReader:
    """Reads one line after the other. Raises LineError for properties that contradict each other."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._has_key = _is_true(properties, "parse.key")
        self._has_headers = _is_true(properties, "parse.headers")
        self._ignores_errors = _is_true(properties, "ignore.error")
        separators = {
            "headers.delimiter": properties.get("headers.delimiter", "\t"),
            "headers.separator": properties.get("headers.separator", ","),
            "headers.key.separator": properties.get("headers.key.separator", ":"),
        }
        _check_different(separators)
        key_separator = properties.get("key.separator", "\t")
        marker = properties.get("null.marker")
        for name, separator in {"key.separator": key_separator, **separators}.items():
            if separator == marker:
                raise LineError(f"null.marker and {name} may not be equal")
        self._key_separator = key_separator.encode()
        self._headers_delimiter = separators["headers.delimiter"].encode()
        self._header_key_separator = separators["headers.key.separator"].encode()
        try:
            self._headers_separator = re.compile(separators["headers.separator"].encode())
        except re.error as error:
            raise LineError(f"headers.separator is an invalid regex: {error}") from error
        self._null = None if marker is None else marker.encode()
        self._lines = 0

    def read(self, line: bytes) -> LineRecord:
        """The record of a line without its end. Raises LineError."""
        self._lines += 1
        rest = line
        headers = key = None
        if self._has_headers:
            headers, rest = self._split(line, rest, self._headers_delimiter, "headers delimiter")
        if self._has_key:
            key, rest = self._split(line, rest, self._key_separator, "key separator")
        has_headers = headers is not None and headers != self._null
        return LineRecord(
            self._nullable(key), self._nullable(rest), self._headers(headers) if has_headers and headers else []
        )

    def _split(self, line: bytes, rest: bytes, separator: bytes, name: str) -> tuple[bytes | None, bytes]:
        """The parts before and after the separator."""
        found, is_there, after = rest.partition(separator)
        if is_there:
            return found, after
        if self._ignores_errors:
            return None, rest
        raise LineError(f"No {name} found on line number {self._lines}: '{line.decode(errors='replace')}'")

    def _headers(self, text: bytes) -> list[Header]:
        headers: list[Header] = []
        for pair in self._headers_separator.split(text):
            key, is_there, value = pair.partition(self._header_key_separator)
            name = key.decode(errors="replace")
            if not is_there:
                if not self._ignores_errors:
                    raise LineError(f"No header key separator found in pair '{name}' on line number {self._lines}")
                headers.append((name, None))
                continue
            if key == self._null:
                raise LineError(f"Header keys should not be equal to the null marker '{name}' as they can't be null")
            headers.append((name, self._nullable(value)))
        return headers

    def _nullable(self, part: bytes | None) -> bytes | None:
        return None if part == self._null else part


class LineSplitter:
    """Splits chunks of bytes into lines. A line ends with a newline, a carriage return, or both."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that the chunk completes."""
        text = self._rest + chunk
        # A carriage return at the end may be half of a line's end.
        held = text[-1:] if text.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(text[: len(text) - len(held)])
        self._rest = rest + held
        return lines

    def finish(self) -> list[bytes]:
        """The last line, if it has no end; `feed` is not called again."""
        *lines, rest = _LINE_END.split(self._rest)
        return [*lines, rest] if rest else lines


def _is_true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() == "true"


def _check_different(separators: Mapping[str, str]) -> None:
    for first, second in combinations(separators, 2):
        if separators[first] == separators[second]:
            raise LineError(f"{first} and {second} may not be equal")
