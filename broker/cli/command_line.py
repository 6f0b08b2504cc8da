"""Replaces the command line of this process, as `ps` and /proc show it (Linux).

A node that was forked would otherwise have the command line of the process that it was forked from. Operators look for
nodes by their command lines, and so does `kafka-server-stop`.

The kernel reads the command line from the memory of the process. It lies on the stack before the environment, where
there is no room for a longer one, so the kernel is told of another place. Any process may do that for itself
(PR_SET_MM_MAP of prctl(2)), if the kernel is built with CONFIG_CHECKPOINT_RESTORE, as those of distributions are.
"""

import ctypes
import os
from collections.abc import Sequence
from typing import Final

_PR_SET_MM: Final = 35
_PR_SET_MM_MAP: Final = 14
_UNCHANGED: Final = 0xFFFF_FFFF
# Numbers of fields of /proc/<pid>/stat, as proc_pid_stat(5) counts them, by the members of the kernel's structure.
_STAT_FIELDS: Final = {
    "start_code": 26,
    "end_code": 27,
    "start_stack": 28,
    "start_data": 45,
    "end_data": 46,
    "start_brk": 47,
    "env_start": 50,
    "env_end": 51,
}
# The first field after the name of the program, which is in parentheses and may have spaces.
_FIRST_FIELD: Final = 3


class _MemoryMap(ctypes.Structure):
    """`struct prctl_mm_map` of the kernel. All members are set at once. An `auxv_size` of 0 leaves `auxv` as it is."""

    _fields_ = (
        *(
            (name, ctypes.c_uint64)
            for name in ("start_code", "end_code", "start_data", "end_data", "start_brk", "brk", "start_stack")
        ),
        *((name, ctypes.c_uint64) for name in ("arg_start", "arg_end", "env_start", "env_end", "auxv")),
        ("auxv_size", ctypes.c_uint32),
        ("exe_fd", ctypes.c_uint32),
    )


def replace_command_line(words: Sequence[str]) -> bool:
    """Show `words` as the command line of this process. Returns False, with nothing changed, if the system cannot.

    The process must have one thread: the end of its heap must not move meanwhile.
    """
    content = b"".join(os.fsencode(word) + b"\0" for word in words)
    libc = ctypes.CDLL(None)
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        prctl, sbrk, malloc = libc.prctl, libc.sbrk, libc.malloc
    except (OSError, AttributeError):
        return False
    sbrk.restype = malloc.restype = ctypes.c_void_p
    place = malloc(ctypes.c_size_t(len(content)))  # never freed: the kernel reads it as long as the process runs
    if not place:
        return False
    ctypes.memmove(place, content, len(content))
    known = {name: int(fields[number - _FIRST_FIELD]) for name, number in _STAT_FIELDS.items()}
    memory = _MemoryMap(**known, arg_start=place, arg_end=place + len(content), exe_fd=_UNCHANGED)
    memory.brk = sbrk(ctypes.c_ssize_t(0))
    size = ctypes.c_ulong(ctypes.sizeof(memory))
    result: int = prctl(_PR_SET_MM, ctypes.c_ulong(_PR_SET_MM_MAP), ctypes.byref(memory), size, ctypes.c_ulong(0))
    return result == 0
