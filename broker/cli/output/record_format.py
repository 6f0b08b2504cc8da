"""The format in which `kraft consume` prints a record: `%` tokens as in kcat's -f, compiled once.

%t topic   %p partition   %o offset   %k key   %s value   %h headers as name=value,...
%K and %S the lengths of key and value in bytes, -1 for null   %T timestamp in milliseconds
%D timestamp as a date in UTC   %e leader epoch   %% a percent sign   \\n \\r \\t \\0 \\xHH as in C
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from broker.cli.grammar.units import format_time_ms
from broker.client.types import ConsumerRecord, Header
from broker.printable import printable_bytes

RecordFormat: TypeAlias = Callable[[ConsumerRecord], bytes]

_NULL: Final = b"NULL"
_TOKEN: Final = re.compile(r"%(.?)|\\(x[0-9a-fA-F]{2}|.?)", re.DOTALL)
_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}


def _length(content: bytes | None) -> bytes:
    return b"-1" if content is None else b"%d" % len(content)


def _headers(headers: Sequence[Header]) -> bytes:
    return b",".join(name.encode() + b"=" + (_NULL if value is None else value) for name, value in headers)


_FIELDS: Final[dict[str, RecordFormat]] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "k": lambda record: _NULL if record.key is None else record.key,
    "s": lambda record: _NULL if record.value is None else record.value,
    "h": lambda record: _headers(record.headers),
    "K": lambda record: _length(record.key),
    "S": lambda record: _length(record.value),
    "T": lambda record: b"%d" % record.timestamp_ms,
    "D": lambda record: format_time_ms(record.timestamp_ms).encode(),
    "e": lambda record: b"%d" % (-1 if record.leader_epoch is None else record.leader_epoch),
}


def check_format(text: str) -> str:
    """The text of a format. Raises ValueError for a token that does not exist."""
    compile_format(text)
    return text


def compile_format(text: str, *, is_rendered: bool = False) -> RecordFormat:
    """The function that formats records as `text` says. Raises ValueError for a token that does not exist.

    With `is_rendered`, what is not printable in a record is escaped, for a terminal; the text of the format is not.
    """
    parts: list[bytes | RecordFormat] = []
    end = 0
    for token in _TOKEN.finditer(text):
        parts.append(text[end : token.start()].encode())
        end = token.end()
        part = _part(token)
        parts.append(_rendered(part) if is_rendered and not isinstance(part, bytes) else part)
    parts.append(text[end:].encode())
    fixed = [part for part in parts if part]

    def format_record(record: ConsumerRecord) -> bytes:
        return b"".join([part if isinstance(part, bytes) else part(record) for part in fixed])

    return format_record


def _rendered(field: RecordFormat) -> RecordFormat:
    return lambda record: printable_bytes(field(record)).encode()


def _part(token: re.Match[str]) -> bytes | RecordFormat:
    letter, escape = token[1], token[2]
    if letter is not None:
        if letter == "%":
            return b"%"
        if letter not in _FIELDS:
            known = " ".join(f"%{each}" for each in _FIELDS)
            raise ValueError(f"{token[0]!r} is not a token of a format; the tokens are: {known} %%")
        return _FIELDS[letter]
    if escape.startswith("x") and len(escape) == 3:
        return bytes.fromhex(escape[1:])
    if escape not in _ESCAPES:
        raise ValueError(f"{token[0]!r} is not an escape of a format; the escapes are: \\n \\r \\t \\0 \\xHH \\\\")
    return _ESCAPES[escape]
