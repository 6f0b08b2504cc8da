"""Tells a process that its parent has ended, also if the parent was killed.

A pipe at standard input ends at once when the parent does. The id of the parent is compared as well: another process
may have inherited the other end of the pipe, and standard input may be a terminal or a file.
"""

import os
import stat
import sys
from typing import Final

_STDIN: Final = 0
_READ_AT_ONCE: Final = 4_096


class Lifeline:
    """`descriptor` becomes readable when the parent ends; None if standard input does not tell."""

    def __init__(self, parent: int | None) -> None:
        """`parent` is the parent's id as it was when the process began; it may have ended since. Without a parent, the
        process lives until something else ends it.
        """
        self._parent = parent
        self.has_parent = parent is not None
        self.descriptor: int | None = None
        if parent is not None and sys.stdin is not None:
            mode = os.fstat(_STDIN).st_mode
            if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
                self.descriptor = _STDIN

    def is_at_end(self) -> bool:
        """Read from the descriptor, which is readable, and discard it. True if the parent has closed its end."""
        assert self.descriptor is not None, "it is readable"
        return not os.read(self.descriptor, _READ_AT_ONCE)

    def has_lost_parent(self) -> bool:
        """True if the parent has ended, and this process belongs to another one now."""
        return self._parent is not None and os.getppid() != self._parent

    def leave(self) -> None:
        """In a forked child: give up standard input, which is the parent's."""
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, _STDIN)
        os.close(null)
