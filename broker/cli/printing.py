"""Writes text to standard output and standard error: the only way in which commands and tools print.

Whatever text holds, a terminal gets no control characters from it (`broker.printable`). Records go through
`broker.cli.output.record_format`, and colours and tables through `broker.cli.output.tables`.
"""

import sys
import traceback
from types import TracebackType
from typing import TextIO

from broker.printable import printable, printable_block

# The layout of several lines.
_LAYOUT = "\n\t"


def print_line(text: str, *, flush: bool = False) -> None:
    """Print one line on standard output. A line end within the text is escaped."""
    _write(printable(text) + "\n", sys.stdout, flush=flush)


def print_error(text: str) -> None:
    """Print one line on standard error. A line end within the text is escaped."""
    _write(printable(text) + "\n", sys.stderr, flush=True)


def print_text(text: str = "", *, end: str = "\n", file: TextIO | None = None, flush: bool = False) -> None:
    """Print text that has a layout of lines and tabs. Names in it have to be rendered before they are put into it."""
    _write(printable(text, keep=_LAYOUT) + end, sys.stdout if file is None else file, flush=flush)


def print_record(text: str) -> None:
    """Print one line with content of records on standard output: rendered on a terminal, as it is anywhere else."""
    _write((printable(text) if sys.stdout.isatty() else text) + "\n", sys.stdout, flush=False)


def encodable(text: str, stream: TextIO) -> str:
    """`text` with an escape for each character that the stream's encoding does not have."""
    if text.isascii():
        return text
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def print_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an exception that nothing handled, with its traceback: `sys.excepthook` of the commands."""
    _write(printable_block("".join(traceback.format_exception(kind, error, trace))) + "\n", sys.stderr, flush=True)


def _write(text: str, stream: TextIO, *, flush: bool) -> None:
    stream.write(encodable(text, stream))
    if flush:
        stream.flush()
