"""Keeps simulated processes inside of the simulation: they get simulated time and random numbers, and cannot block.

Python's own sources of time and random numbers are replaced within `inside`, for simulated processes alone. Calls that
would block or reach the real network are refused by an audit hook (PEP 578), however they were imported.
"""

import os
import random
import select
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from random import Random
from types import MappingProxyType
from typing import Any, Final, NoReturn

from broker.client.hosted.loop import ProcessLoop
from jepsen.simulation.applications.machine import MACHINE
from jepsen.simulation.applications.replacements import replaced
from jepsen.simulation.applications.virtual_time import pickled_as_usual, virtual_clocks

_SLEEP: Final = "time.sleep"
_THREAD: Final = "_thread.start_new_thread"
_WAIT: Final = "threading.Condition.wait"
_SELECT: Final = "select.select"
_LOOKUP: Final = "socket.getaddrinfo of a name"
_SELECTING: Final = ("select", "poll", "epoll", "kqueue", "devpoll")
_SELECTORS: Final = ("SelectSelector", "PollSelector", "EpollSelector", "KqueueSelector", "DevpollSelector")
# The functions by which `threading` starts threads, in different versions of Python.
_STARTS_OF_THREADS: Final = ("_start_new_thread", "_start_joinable_thread")
# The audit events that simulated processes must not cause, and the names of calls without one; what to do instead.
_REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        _SLEEP: "time.sleep blocks the whole simulation; use trio.sleep",
        _WAIT: "waiting for a thread blocks the whole simulation; use trio.Event, or Trio's memory channels as queues",
        _SELECT: "real sockets and pipes do not exist in the simulation; use Trio's streams",
        _LOOKUP: "real names do not exist in the simulation; use trio.socket.getaddrinfo, or Trio's streams",
        "socket.gethostbyname": "real names do not exist in the simulation; use trio.socket.getaddrinfo",
        "socket.gethostbyaddr": "real names do not exist in the simulation; use trio.socket.getaddrinfo",
        "socket.getnameinfo": "real names do not exist in the simulation; use trio.socket.getaddrinfo",
        "socket.connect": "a real socket does not exist in the simulation; use Trio's streams, or broker.client",
        "socket.sendto": "a real socket does not exist in the simulation; use Trio's streams",
        "socket.bind": "a real socket does not exist in the simulation; use Trio's streams",
        _THREAD: "threads have no order that a seed decides; use tasks, and the async client",
        "subprocess.Popen": "real processes are not simulated; pass several processes to simulate",
        "os.fork": "real processes are not simulated; pass several processes to simulate",
        "os.system": "real processes are not simulated; pass several processes to simulate",
        "os.posix_spawn": "real processes are not simulated; pass several processes to simulate",
    }
)
_DEBUGGER: Final = "builtins.breakpoint"


class OutsideReached(RuntimeError):
    """A simulated process has tried to block, or to reach the real world."""


# Called with the reason when a process of the present run reaches outside, and when it enters a debugger.
_ON_REFUSAL: Final[ContextVar[Callable[[str], None] | None]] = ContextVar("on_refusal", default=None)
_ON_DEBUGGER: Final[ContextVar[Callable[[], None] | None]] = ContextVar("on_debugger", default=None)


@contextmanager
def inside(rng: Random, on_refusal: Callable[[str], None], on_debugger: Callable[[], None]) -> Iterator[None]:
    """Keep all simulated processes inside within the block. `rng` makes their random numbers.

    `on_refusal` is called with the reason before OutsideReached is raised in a process, which may catch it.
    """
    _watch_calls()
    refusal, debugger = _ON_REFUSAL.set(on_refusal), _ON_DEBUGGER.set(on_debugger)
    state = random.getstate()
    random.seed(rng.getrandbits(64))
    try:
        with pickled_as_usual(), replaced({**virtual_clocks(), **_unaudited(), **_entropy(rng)}):
            yield
    finally:
        random.setstate(state)
        _ON_REFUSAL.reset(refusal)
        _ON_DEBUGGER.reset(debugger)


@cache
def _watch_calls() -> None:
    """Install the audit hook. It stays until the end of the interpreter, and does nothing outside of simulations."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _REFUSED and MACHINE.get() is not None:
            _refuse(event)
        if event == _DEBUGGER and (enter := _ON_DEBUGGER.get()) is not None:
            enter()

    sys.addaudithook(hook)


def _refuse(event: str) -> NoReturn:
    reason, on_refusal = _REFUSED[event], _ON_REFUSAL.get()
    if on_refusal is not None:
        on_refusal(reason)
    raise OutsideReached(reason)


def _unaudited() -> dict[tuple[Any, str], Callable[..., Any]]:
    """Functions that cause no audit event, with a refusal for simulated processes.

    Before Python 3.13, `time.sleep` and threads have none. Blocking clients start no thread where the process has one.
    Events, queues and futures of threads wait by `Condition.wait`.
    """
    found: dict[tuple[Any, str], str] = {(time, "sleep"): _SLEEP, (ProcessLoop, "get"): _THREAD}
    found |= {(threading, name): _THREAD for name in _STARTS_OF_THREADS if hasattr(threading, name)}
    found |= {(select, name): _SELECT for name in _SELECTING if hasattr(select, name)}
    found |= {(getattr(selectors, name), "select"): _SELECT for name in _SELECTORS if hasattr(selectors, name)}
    refusing = {(module, name): _refusing(getattr(module, name), event) for (module, name), event in found.items()}
    refusing[threading.Condition, "wait"] = _refusing(threading.Condition.wait, _WAIT, _returns_at_once)
    refusing[socket, "getaddrinfo"] = _refusing(socket.getaddrinfo, _LOOKUP, _is_numeric)
    return refusing


def _refusing(
    real: Callable[..., Any], event: str, is_allowed: Callable[..., bool] = lambda *args, **kwargs: False
) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if MACHINE.get() is not None and not is_allowed(*args, **kwargs):
            _refuse(event)
        return real(*args, **kwargs)

    return call


def _returns_at_once(condition: object, timeout: float | None = None) -> bool:
    return timeout is not None and timeout <= 0


def _is_numeric(host: object, port: object, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> bool:
    """True for a call that reads an address and looks up no name. Trio begins with one, before it asks its resolver."""
    return host is None or bool(flags & socket.AI_NUMERICHOST)


def _entropy(rng: Random) -> dict[tuple[Any, str], Callable[..., Any]]:
    """Sources of entropy, on which `uuid` and `secrets` rest too."""
    real = os.urandom

    def urandom(size: int) -> bytes:
        return real(size) if MACHINE.get() is None else rng.randbytes(size)

    return {(os, "urandom"): urandom, (random, "_urandom"): urandom}
