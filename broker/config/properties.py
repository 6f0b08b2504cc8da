"""Parses Java's properties syntax, the format of `server.properties` (java.util.Properties.load).

Comments begin with # or !, a key ends at =, : or a blank, a backslash at a line's end joins the next line, and other
backslashes escape. The bytes are Latin-1; anything else is written as \\uXXXX.
"""

from collections.abc import Iterator
from typing import Final

_BLANKS: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF")


def parse_properties(data: bytes) -> dict[str, str]:
    """The keys and values in the file's order. If a key is repeated, its last value counts.

    Raises ValueError for a malformed \\uXXXX, which is the only possible syntax error.
    """
    properties: dict[str, str] = {}
    for line in _logical_lines(data.decode("latin-1")):
        key, value = _split(line)
        properties[_unescape(key)] = _unescape(value)
    return properties


def escaped(value: str) -> str:
    """A value in the syntax of a properties file, in which a backslash begins an escape and only Latin-1 is literal."""
    units = value.encode("utf-16-be")
    codes = [units[index] << 8 | units[index + 1] for index in range(0, len(units), 2)]
    return "".join(chr(code) if 0x20 <= code < 0x7F and code != ord("\\") else f"\\u{code:04x}" for code in codes)


def _logical_lines(text: str) -> Iterator[str]:
    """Lines with content, joined with their continuation lines and without leading blanks."""
    joined = ""
    is_continued = False
    # Only these three end a line in Java; `str.splitlines` knows more.
    for natural in text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n"):
        line = natural.lstrip(_BLANKS)
        if not joined and (not line or line[0] in "#!"):
            is_continued = False
            continue
        trailing_backslashes = len(line) - len(line.rstrip("\\"))
        is_continued = trailing_backslashes % 2 == 1
        joined += line[:-1] if is_continued else line
        if not is_continued:
            yield joined
            joined = ""
    if is_continued:  # the file ends with a backslash
        yield joined


def _split(line: str) -> tuple[str, str]:
    end = _key_end(line)
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], rest


def _key_end(line: str) -> int:
    is_escaped = False
    for index, char in enumerate(line):
        if is_escaped:
            is_escaped = False
        elif char == "\\":
            is_escaped = True
        elif char in "=:" or char in _BLANKS:
            return index
    return len(line)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    pieces: list[str] = []
    index = 0
    while index < len(text):
        char = text[index]
        index += 1
        if char != "\\":
            pieces.append(char)
            continue
        escaped = text[index : index + 1]
        index += 1
        if escaped == "u":
            pieces.append(_code_unit(text[index : index + 4]))
            index += 4
        else:
            pieces.append(_ESCAPES.get(escaped, escaped))
    # \uXXXX is a UTF-16 code unit: a character may take two of them.
    return "".join(pieces).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _code_unit(digits: str) -> str:
    if len(digits) != 4 or not _HEX_DIGITS.issuperset(digits):
        raise ValueError("Malformed \\uxxxx encoding.")
    return chr(int(digits, 16))
