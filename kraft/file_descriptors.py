"""File descriptors of this process: how many it may have, and the kernel's table of them."""

import contextlib
import fcntl
import os
import resource
from typing import Final

# The limit that macOS allows although its hard limit is infinite (OPEN_MAX). Its default is 256.
_OPEN_MAX: Final = 10_240


def descriptor_limit() -> int:
    """Return how many files and sockets this process may have open (RLIMIT_NOFILE)."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def raise_descriptor_limit() -> None:
    """Raise the limit of file descriptors as far as the system allows.

    Every connection and every active partition needs a descriptor, and running out of them looks like a failing disk.
    Many systems allow 1,024 by default and far more on request.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (hard, max(soft, _OPEN_MAX)):  # some systems allow less than the hard limit
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            return


def enlarge_descriptor_table(count: int) -> None:
    """Have the kernel make room for `count` descriptors of this process now; call it before the process has threads.

    Linux enlarges the table whenever it is full. In a process with threads, the system call that needs a larger one
    waits until no processor uses the old one: accepting a connection held the event loop for 10 to 40 ms about four
    times while 2,000 were opened. The table does not become smaller. A descriptor takes eight bytes of it.
    """
    with contextlib.suppress(OSError), open(os.devnull, "rb") as file:
        os.close(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, min(count, descriptor_limit()) - 1))
