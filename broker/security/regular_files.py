"""Reads small files that configs name: stores, keys and tokens."""

import os
import stat
from errno import EINVAL, EISDIR


def read_regular_file(path: str, bytes_max: int) -> bytes:
    """The first `bytes_max` bytes of a file. Raises OSError, or ValueError for a path that is none.

    Pipes and devices are refused: opening a pipe waits for its writer, and a device may never end. Nodes read these
    files on the event loop, and configs that name them may be changed while a node runs.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise OSError(EISDIR, os.strerror(EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(EINVAL, "it is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(bytes_max)
    finally:
        os.close(descriptor)
