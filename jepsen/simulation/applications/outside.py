"""Keeps simulated processes inside of the simulation: they get simulated time and random numbers, and cannot block.

Python's own sources of time and random numbers are replaced within `inside`, for simulated processes alone. Calls that
would block or reach the real network are refused by an audit hook (PEP 578), however they were imported.
"""

import os
import random
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

import trio

from broker.client.hosted.loop import ProcessLoop
from jepsen.simulation.applications.machine import MACHINE

_SLEEP: Final = "time.sleep"
_THREAD: Final = "_thread.start_new_thread"
# The functions by which `threading` starts threads, in different versions of Python.
_STARTS_OF_THREADS: Final = ("_start_new_thread", "_start_joinable_thread")
# The audit events that simulated processes must not cause, and what to do instead.
_REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        _SLEEP: "time.sleep blocks the whole simulation; use trio.sleep",
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
        with _replaced(_clocks()), _replaced(_unaudited()), _replaced(_entropy(rng)):
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
    """
    found: dict[tuple[Any, str], str] = {(time, "sleep"): _SLEEP, (ProcessLoop, "get"): _THREAD}
    found |= {(threading, name): _THREAD for name in _STARTS_OF_THREADS if hasattr(threading, name)}
    return {(module, name): _refusing(getattr(module, name), event) for (module, name), event in found.items()}


def _refusing(real: Callable[..., Any], event: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if MACHINE.get() is not None:
            _refuse(event)
        return real(*args, **kwargs)

    return call


def _clocks() -> dict[tuple[Any, str], Callable[..., Any]]:
    """Functions of the module `time` that return virtual time to simulated processes."""

    def wall(machine: Any) -> float:
        return float(machine.wall())

    def running(machine: Any) -> float:
        return trio.current_time()

    replacements: dict[tuple[Any, str], Callable[..., Any]] = {}
    for name, seconds_of in (("time", wall), ("monotonic", running), ("perf_counter", running)):
        replacements[time, name] = _virtual(getattr(time, name), seconds_of)
        in_ns = f"{name}_ns"
        replacements[time, in_ns] = _virtual(getattr(time, in_ns), _in_ns(seconds_of))
    return replacements


def _in_ns(seconds_of: Callable[[Any], float]) -> Callable[[Any], int]:
    return lambda machine: int(seconds_of(machine) * 1e9)


def _virtual(real: Callable[[], Any], simulated: Callable[[Any], Any]) -> Callable[[], Any]:
    def read() -> Any:
        machine = MACHINE.get()
        return real() if machine is None else simulated(machine)

    return read


def _entropy(rng: Random) -> dict[tuple[Any, str], Callable[..., Any]]:
    """Sources of entropy, on which `uuid` and `secrets` rest too."""
    real = os.urandom

    def urandom(size: int) -> bytes:
        return real(size) if MACHINE.get() is None else rng.randbytes(size)

    return {(os, "urandom"): urandom, (random, "_urandom"): urandom}


@contextmanager
def _replaced(functions: Mapping[tuple[Any, str], Callable[..., Any]]) -> Iterator[None]:
    originals = {(module, name): getattr(module, name) for module, name in functions}
    for (module, name), function in functions.items():
        setattr(module, name, function)
    try:
        yield
    finally:
        for (module, name), function in originals.items():
            setattr(module, name, function)
