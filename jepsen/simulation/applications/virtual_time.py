"""The clocks of Python as simulated processes read them: functions of `time`, and the present of `datetime`."""

import copyreg
import datetime
import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import trio

from jepsen.simulation.applications.machine import MACHINE
from jepsen.simulation.applications.replacements import Replacements


def virtual_clocks() -> Replacements:
    """Functions and classes that return virtual time to simulated processes, and the real time to others."""
    replacements: dict[tuple[Any, str], Any] = {
        (datetime, "datetime"): VirtualDatetime,
        (datetime, "date"): VirtualDate,
    }
    for name, seconds_of in (("time", _wall), ("monotonic", _running), ("perf_counter", _running)):
        replacements[time, name] = _virtual(getattr(time, name), seconds_of)
        in_ns = f"{name}_ns"
        replacements[time, in_ns] = _virtual(getattr(time, in_ns), _in_ns(seconds_of))
    return replacements


@contextmanager
def pickled_as_usual() -> Iterator[None]:
    """A block within which dates can be pickled although the module `datetime` has other classes than theirs."""
    before = dict(copyreg.dispatch_table)
    for virtual, real in _REAL.items():
        copyreg.dispatch_table[real] = partial(_reduce, virtual)
    try:
        yield
    finally:
        copyreg.dispatch_table.clear()
        copyreg.dispatch_table.update(before)


def _reduce(virtual: type, value: Any) -> tuple[Any, ...]:
    _, *state = value.__reduce_ex__(pickle.DEFAULT_PROTOCOL)
    return (virtual, *state)


class _StandsFor(type):
    """The class of a class that stands for its base: instances of the base are its own. Derived classes are usual."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _REAL[cls]) if cls in _REAL else super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _REAL[cls]) if cls in _REAL else super().__subclasscheck__(subclass)


class VirtualDatetime(datetime.datetime, metaclass=_StandsFor):
    """`datetime.datetime`, which cannot be changed itself, with the present of the simulated machine."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return _REAL[cls](*args, **kwargs) if cls in _REAL else super().__new__(cls, *args, **kwargs)

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        made, machine = _REAL.get(cls, cls), MACHINE.get()
        return made.fromtimestamp(time.time() if machine is None else machine.wall(), tz)

    @classmethod
    def utcnow(cls) -> Any:
        return cls.now(datetime.UTC).replace(tzinfo=None)

    @classmethod
    def today(cls) -> Any:
        return cls.now()


class VirtualDate(datetime.date, metaclass=_StandsFor):
    """`datetime.date` with the present of the simulated machine."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return _REAL[cls](*args, **kwargs) if cls in _REAL else super().__new__(cls, *args, **kwargs)

    @classmethod
    def today(cls) -> Any:
        made, machine = _REAL.get(cls, cls), MACHINE.get()
        return made.fromtimestamp(time.time() if machine is None else machine.wall())


# Pickled bytes name the classes that the module has after the block.
VirtualDatetime.__module__ = VirtualDate.__module__ = "datetime"
VirtualDatetime.__qualname__, VirtualDate.__qualname__ = "datetime", "date"
_REAL: Final[Mapping[type, Any]] = MappingProxyType({VirtualDatetime: datetime.datetime, VirtualDate: datetime.date})


def _wall(machine: Any) -> float:
    return float(machine.wall())


def _running(machine: Any) -> float:
    return trio.current_time()


def _in_ns(seconds_of: Callable[[Any], float]) -> Callable[[Any], int]:
    return lambda machine: int(seconds_of(machine) * 1e9)


def _virtual(real: Callable[[], Any], simulated: Callable[[Any], Any]) -> Callable[[], Any]:
    def read() -> Any:
        machine = MACHINE.get()
        return real() if machine is None else simulated(machine)

    return read
