"""Takes from each Python process what only Linux has, before anything else is imported: it is like macOS then.

Python imports this module at its start if PYTHONPATH names the directory, and child processes inherit that. Names that
do not exist on macOS, or not in all its versions, are missing from the standard library. `/proc` has no files, the
loopback interface has one address, and a local socket is a stream or a datagram. `select.kqueue` is a model over epoll
(`kqueue_model.py`), which Trio alone goes on to use. With KRAFT_TEST_POLLER=none there is no kqueue either.

Nothing here concerns the C code of other packages, nor programs that are not Python.
"""

import errno
import os
import select
import sys
import types
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

_TRIO_EPOLL = "trio._core._io_epoll"
# By module, the beginnings of names. The first one is `select`, which `socket` imports, in `_without_epoll`.
_LINUX_ONLY: Mapping[str, tuple[str, ...]] = {
    "os": (
        *("EFD_", "eventfd", "MFD_", "memfd_create", "pidfd_open", "P_PIDFD", "RWF_", "SPLICE_", "splice"),
        *("copy_file_range", "sched_get", "sched_set", "sched_rr", "getrandom", "GRND_", "pipe2", "timerfd", "TFD_"),
        *("fdatasync", "posix_fadvise", "POSIX_FADV_", "posix_fallocate", "sendfile", "pwritev", "preadv"),
        *("O_DIRECT\0", "O_NOATIME", "O_PATH", "O_TMPFILE", "O_RSYNC", "O_LARGEFILE", "getxattr", "setxattr"),
        *("listxattr", "removexattr", "XATTR_", "setresuid", "setresgid", "getresuid", "getresgid", "unshare", "setns"),
    ),
    "socket": (
        *("MSG_MORE", "MSG_CONFIRM", "MSG_ERRQUEUE", "MSG_CMSG_CLOEXEC", "SOCK_CLOEXEC", "SOCK_NONBLOCK"),
        *("SO_BINDTODEVICE", "SO_MARK", "SO_PASSCRED", "SO_PEERCRED", "SO_PEERSEC", "SO_PRIORITY", "SO_INCOMING_CPU"),
        *("TCP_CORK", "TCP_QUICKACK", "TCP_USER_TIMEOUT", "TCP_DEFER_ACCEPT", "TCP_INFO", "TCP_LINGER2", "TCP_SYNCNT"),
        *("TCP_WINDOW_CLAMP", "TCP_KEEPIDLE"),
    ),
    "fcntl": (
        "F_OFD_",
        "F_SETPIPE_SZ",
        "F_GETPIPE_SZ",
        "F_ADD_SEALS",
        "F_GET_SEALS",
        "F_SEAL_",
        "F_NOTIFY",
        "F_SETSIG",
    ),
    "resource": ("prlimit", "RUSAGE_THREAD"),
    "signal": ("pidfd_send_signal", "sigtimedwait", "sigwaitinfo", "SIGRTM", "SIGPOLL", "SIGPWR", "SIGSTKFLT"),
    "time": ("CLOCK_BOOTTIME", "CLOCK_TAI"),
}
_LINUX_ONLY_SYMBOLS = ("fallocate", "posix_fallocate", "prctl", "malloc_trim", "mallopt", "sched_setaffinity")
_F_FULLFSYNC = 51
_SEQUENTIAL_PACKETS = (1, 5)  # AF_UNIX, SOCK_SEQPACKET


class _TrioLoader:
    """Gives Trio the epoll of this system, which is the one that it knows here."""

    def __init__(self, inner: Any, real_select: types.ModuleType) -> None:
        self._inner = inner
        self._select = real_select

    def create_module(self, spec: ModuleSpec) -> types.ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        portable = sys.modules["select"]
        sys.modules["select"] = self._select
        try:
            self._inner.exec_module(module)
        finally:
            sys.modules["select"] = portable


class _TrioFinder:
    def __init__(self, real_select: types.ModuleType) -> None:
        self._select = real_select

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _TRIO_EPOLL:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _TrioLoader(spec.loader, self._select)
        return spec


def _without_epoll(real: types.ModuleType) -> types.ModuleType:
    portable = types.ModuleType("select", real.__doc__)
    portable.__dict__.update(
        {name: value for name, value in vars(real).items() if name != "epoll" and not name.startswith("EPOLL")}
    )
    portable.__spec__ = real.__spec__
    if os.environ.get("KRAFT_TEST_POLLER") != "none":
        import kqueue_model  # whose directory Python has put on its path

        portable.__dict__.update(kqueue_model.names(real.epoll))
    return portable


def _remove_names() -> None:
    for module_name, beginnings in _LINUX_ONLY.items():
        module = import_module(module_name)
        for name in list(vars(module)):
            if f"{name}\0".startswith(beginnings):
                delattr(module, name)
                if name in getattr(module, "__all__", ()):
                    module.__all__.remove(name)


def _full_sync() -> None:
    fcntl = import_module("fcntl")
    real = fcntl.fcntl

    def with_full_sync(descriptor: Any, command: int, argument: Any = 0, /) -> Any:
        return os.fsync(descriptor) if command == _F_FULLFSYNC else real(descriptor, command, argument)

    fcntl.__dict__.update({"fcntl": with_full_sync, "F_FULLFSYNC": _F_FULLFSYNC})


def _is_hidden(path: object) -> bool:
    text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
    return text == "/proc" or text.startswith("/proc/")


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir"):
        if _is_hidden(arguments[0]):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), arguments[0])
    elif event == "socket.__new__":
        if tuple(arguments[1:3]) == _SEQUENTIAL_PACKETS:
            raise OSError(errno.EPROTONOSUPPORT, os.strerror(errno.EPROTONOSUPPORT))
    elif event in ("socket.bind", "socket.connect"):
        host = arguments[1][0] if isinstance(arguments[1], tuple) else ""
        if isinstance(host, str) and host.startswith("127.") and host != "127.0.0.1":
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
    elif event in ("ctypes.dlsym", "ctypes.dlsym/handle") and arguments[1] in _LINUX_ONLY_SYMBOLS:
        raise AttributeError(f"undefined symbol: {arguments[1]}")


def _read_link(path: Any, *, dir_fd: int | None = None) -> Any:
    if _is_hidden(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return _real_read_link(path, dir_fd=dir_fd)


_real_read_link = os.readlink
os.readlink = _read_link
assert not {"selectors", "socket", "tempfile"} & sys.modules.keys(), "they would keep what is taken away here"
sys.meta_path.insert(0, _TrioFinder(select))
sys.modules["select"] = _without_epoll(select)
_remove_names()
_full_sync()
sys.addaudithook(_refuse)
