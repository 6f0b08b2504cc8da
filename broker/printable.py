"""Renders text from outside for terminals, logs and pages: names, ids, messages and records of other machines.

Such text may hold escape sequences that a terminal obeys, characters that reorder or hide what stands beside them, and
line ends that make one line of output look like two. Every character that Unicode does not count as printable is
written as Python's escape for it: controls (C0, C1, DEL), bidirectional and other format characters, line and paragraph
separators, blanks other than the space, surrogates, and code points without a meaning. A backslash stays as it is, so
that regular expressions and paths stay readable.
"""

from typing import Final

# Longer values are shortened in lines of a log: a client may have a name of 32,767 bytes, and cause many lines.
LOG_TEXT_MAX: Final = 2_000


def printable(text: str, *, keep: str = "") -> str:
    """`text` with an escape for each character that is not printable, apart from the characters in `keep`."""
    if text.isprintable():
        return text
    return "".join([char if char.isprintable() or char in keep else _escape(char) for char in text])


def printable_bytes(content: bytes) -> str:
    """Bytes as text: UTF-8, with an escape for each byte that is not, and for each character that is not printable."""
    return printable(content.decode("utf-8", "backslashreplace"))


def printable_json(document: str) -> str:
    """A JSON document in which only printable characters, and the line ends of its layout, stand for themselves.

    The result is the same document: characters that are not printable can only be within strings, where they are
    written as JSON's escapes.
    """
    if document.isprintable():
        return document
    return "".join([char if char.isprintable() or char == "\n" else _json_escape(char) for char in document])


def printable_block(text: str) -> str:
    """Text of several lines, such as a traceback. Lines after the first are indented, so that none looks like another
    entry of a log.
    """
    return "\n    ".join(printable(line) for line in text.rstrip("\n").split("\n"))


def shortened(text: str) -> str:
    """`text`, or its beginning and its length if it is too long for a line of a log."""
    return text if len(text) <= LOG_TEXT_MAX else f"{text[:LOG_TEXT_MAX]}... ({len(text)} characters)"


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
