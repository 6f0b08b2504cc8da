"""Collects what simulated processes print and log."""

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from jepsen.simulation.applications.machine import MACHINE


class _Printed(io.TextIOBase):
    """A standard output. Complete lines of simulated processes are passed to their machines."""

    def __init__(self, original: Any) -> None:
        self._original = original
        self._begun: dict[str, str] = {}  # the incomplete line of each process

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        machine = MACHINE.get()
        if machine is None:
            self._original.write(text)
            return len(text)
        *lines, rest = (self._begun.pop(machine.name, "") + text).split("\n")
        for line in lines:
            machine.log(line)
        if rest:
            self._begun[machine.name] = rest
        return len(text)

    def flush(self) -> None:
        self._original.flush()


class _Logged(logging.Handler):
    """Passes records of simulated processes to their machines, and all others to the handlers that it replaces."""

    def __init__(self, replaced: list[logging.Handler]) -> None:
        super().__init__(logging.NOTSET)
        self._replaced = replaced

    def emit(self, record: logging.LogRecord) -> None:
        machine = MACHINE.get()
        if machine is not None:
            text = f"{record.levelname.lower()}: {record.getMessage()}"
            if record.exc_info is not None:
                text += "\n" + logging.Formatter().formatException(record.exc_info)
            machine.log(text)
            return
        for handler in self._replaced:
            if record.levelno >= handler.level:
                handler.handle(record)


@contextmanager
def collected_output() -> Iterator[None]:
    """Collect what simulated processes print, and log from level INFO on, within the block."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = [_Logged(handlers)]
    root.setLevel(min(level or logging.INFO, logging.INFO))
    try:
        with redirect_stdout(_Printed(sys.stdout)):
            yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
