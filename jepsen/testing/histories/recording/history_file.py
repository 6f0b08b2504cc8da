"""The history file of a process. A directory has one for each process that records into it."""

import json
import os
import threading
import time
import weakref
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from jepsen.history import Outcome
from jepsen.store import RECORDED

# The time of the run's begin, in nanoseconds since 1970. The process that records first writes it.
BEGAN: Final = "began.json"

_text = json.encoder.encode_basestring_ascii


class HistoryFile:
    """Appends lines to the file of this process. Threads may share it, as each line is written by one system call.

    The lines of a process that is killed are in the file. A process that is forked gets a file of its own. Times are
    those of the wall clock when the file is opened, and go on by the monotonic clock.
    """

    def __init__(self, directory: Path) -> None:
        """Raises OSError."""
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.process = ""
        self._since_ns = _began(directory) + time.monotonic_ns() - time.time_ns()
        self._names: dict[str, int] = {}
        self._lock = threading.RLock()
        self._file: int | None = None
        self._open()
        this = weakref.WeakMethod(self._after_fork)
        os.register_at_fork(after_in_child=lambda: (reopen := this()) and reopen())

    def now_ns(self) -> int:
        """The time since the run's begin, in nanoseconds."""
        return max(time.monotonic_ns() - self._since_ns, 0)

    def unique_name(self, name: str) -> str:
        """`name`, with a number from the second client of that name on."""
        with self._lock:
            self._names[name] = self._names.get(name, 0) + 1
            return name if self._names[name] == 1 else f"{name}-{self._names[name]}"

    def append(self, lines: str) -> None:
        """Append whole lines; without effect once the file is closed. Raises OSError: the history lacks the rest."""
        content = lines.encode()
        with self._lock:  # the number of a closed file may already be that of another one
            if self._file is not None and os.write(self._file, content) != len(content):
                raise OSError(f"the history in {self.directory} is incomplete: the disk took a part of a line")

    def close(self) -> None:
        """Close the file. Operations that end later are not recorded."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        for number in count(1):
            self.process = str(os.getpid()) if number == 1 else f"{os.getpid()}-{number}"
            path = self.directory / RECORDED.replace("*", self.process)
            with suppress(FileExistsError):
                self._file = os.open(path, flags, 0o644)
                return

    def _after_fork(self) -> None:
        """Leave the file to the parent, whose other threads may have held the lock."""
        self._lock = threading.RLock()
        if self._file is not None:
            self.close()
            self._open()


class ClientLog:
    """The operations of one client, which are numbered."""

    def __init__(self, file: HistoryFile, name: str) -> None:
        self.file = file
        self._label = file.unique_name(name)
        self._serials = count()
        # The operations before this one were begun before this process was forked, and are those of its parent.
        self._first = 0
        self._of_process, self._process, self._name = "", "", ""

    @property
    def name(self) -> str:
        """The client's name in the history: unique among all processes."""
        self._process_text()
        return self._name

    def invoke(self, function: str, value: str, began_ns: int | None = None) -> int:
        """Record the begin of an operation, and return its number. `value` is JSON."""
        serial = self._next()
        at = self.file.now_ns() if began_ns is None else began_ns
        self.file.append(self._line(at, serial, "invoke", function, value))
        return serial

    def complete(self, serial: int, outcome: Outcome, function: str, result: str) -> None:
        """Record the outcome of an operation. `result` is JSON. The parent records those that it has begun."""
        self._process_text()
        if serial < self._first:
            return
        self.file.append(self._line(self.file.now_ns(), serial, outcome.value, function, result))

    def record(self, began_ns: int, function: str, value: str, result: str = "null") -> None:
        """Record an operation that has succeeded now."""
        serial = self._next()
        begun = self._line(began_ns, serial, "invoke", function, value)
        self.file.append(begun + self._line(self.file.now_ns(), serial, "ok", function, result))

    def _next(self) -> int:
        self._process_text()
        return next(self._serials)

    def _line(self, at: int, serial: int, kind: str, function: str, value: str) -> str:
        return (
            f'{{"time":{at},"process":{self._process_text()},"id":{serial},"type":"{kind}","f":"{function}",'
            f'"value":{value}}}\n'
        )

    def _process_text(self) -> str:
        if self._of_process != self.file.process:
            if self._of_process:
                self._first = next(self._serials)
            self._of_process = self.file.process
            self._name = f"{self._label}@{self._of_process}"
            self._process = _text(self._name)
        return self._process


def _began(directory: Path) -> int:
    """The time at which the first process began to record into the directory."""
    path, own = directory / BEGAN, directory / f"{BEGAN}.{os.getpid()}.{threading.get_ident()}"
    if not path.exists():
        own.write_text(json.dumps({"began_ns": time.time_ns()}))
        # Another process may have been first.
        with suppress(FileExistsError):
            os.link(own, path)
        own.unlink()
    return int(json.loads(path.read_text())["began_ns"])
