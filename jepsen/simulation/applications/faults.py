"""The faults that an application can be simulated with, by the simulator's names and by names of groups."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

# Each group has one or more of the simulator's faults (`jepsen.simulation.faults.FAULTS`).
GROUPS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "crash": ("kill", "kill-coordinator", "aimed-kill"),
        "restart": ("restart",),
        "pause": ("pause",),
        "partition": (
            *("isolate", "one-way", "halves", "flapping", "bridge", "isolate-leader", "isolate-partition-leader"),
            *("isolate-coordinator", "aimed-cut"),
        ),
        "network": ("slow", "lossy", "reset"),
        "clock": ("wall-clock",),
        "disk": ("disk-full", "disk-slow", "disk-stalled"),
        "move": ("elect-leaders", "reassign"),
        "power": ("power", "storm", "aimed-power", "fsync", "fsync-then-power", "disk-broken"),
    }
)
# A cluster keeps all records that it has acknowledged with acks=all under these. Under "power" it may lose some, if the
# topics have no flush.messages=1.
DEFAULT: Final = ("crash", "restart", "pause", "partition", "network", "clock", "disk", "move")
_SINGLE: Final = tuple(name for names in GROUPS.values() for name in names)


def faults_of(names: Iterable[str]) -> tuple[str, ...]:
    """The simulator's faults with these names, each of which may be a group's. Raises ValueError for an unknown
    one, and TypeError for a text.
    """
    if isinstance(names, str):
        raise TypeError(f"faults has to be a sequence of names, as in ({names!r},)")
    found: dict[str, None] = {}
    for name in names:
        if name not in GROUPS and name not in _SINGLE:
            known = ", ".join([*GROUPS, *(each for each in _SINGLE if each not in GROUPS)])
            raise ValueError(f"no fault is called {name!r}; there are {known}")
        found.update(dict.fromkeys(GROUPS.get(name, (name,))))
    return tuple(found)
