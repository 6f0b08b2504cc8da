"""Plants anomalies in a large history: their kinds and positions, and the number of times each promise is broken.

Each anomaly is in a partition or a register of its own, so that none hides another.
"""

from collections import Counter
from collections.abc import Mapping
from random import Random
from types import MappingProxyType
from typing import Final

import attrs

# For each kind of anomaly, the promises that it breaks and how often.
_OF_THE_LOG: Final[Mapping[str, Mapping[str, int]]] = MappingProxyType(
    {
        # An acknowledged record is missing at the end.
        "lost record": {
            "AcknowledgedRecordsStay": 1,
            "AcknowledgedRecordsAreRead": 1,
            "OnlySuffixesAreLost": 1,
            "LogsHaveNoGaps": 1,
            "PollsSkipNothing": 1,
            "SessionsAreInOrder": 1,
        },
        # A record is duplicated at the end of the log.
        "duplicate record": {"NothingTwice": 1, "SessionsAreInOrder": 1},
        # A poll returns two records in the wrong order.
        "reordered poll": {"PollsGoForward": 1},
        # A poll skips a record.
        "skipped record": {"PollsSkipNothing": 1},
        # A poll returns a record that was never sent in place of another.
        "forged record": {"NothingFromNowhere": 1, "OffsetsNeverChange": 1},
        # A poll returns a record that was refused in place of another.
        "refused record": {"NothingRefusedIsRead": 1, "OffsetsNeverChange": 1},
        # A poll fails because of a wrong checksum.
        "corrupt batch": {"NothingIsCorrupt": 1},
    }
)
_OF_REGISTERS: Final[Mapping[str, Mapping[str, int]]] = MappingProxyType(
    {
        # A read returns a value that was overwritten long ago.
        "stale read": {"RegistersAreLinearizable": 1},
    }
)
KINDS: Final = (*_OF_THE_LOG, *_OF_REGISTERS)


@attrs.frozen
class Plants:
    """The planted anomalies: by partition number the kind and the cycle of its records, and the registers with an
    anomaly.
    """

    partitions: Mapping[int, tuple[str, int]]
    registers: frozenset[tuple[int, int]]

    def counts(self) -> dict[str, int]:
        """The number of anomalies of each kind."""
        found = Counter(kind for kind, _ in self.partitions.values())
        return {**found, **dict.fromkeys(_OF_REGISTERS, len(self.registers))}

    def broken(self) -> Counter[str]:
        """The number of times each promise is broken."""
        broken: Counter[str] = Counter()
        for kind, count in self.counts().items():
            times = {**_OF_THE_LOG, **_OF_REGISTERS}[kind]
            broken += Counter({promise: count * each for promise, each in times.items()})
        return broken


def choose_plants(seed: int, each: int, partitions: int, cycles: int, windows: int, slots: int) -> Plants:
    """Choose positions for `each` anomalies of each kind. Raises ValueError if there are too few partitions or
    registers.
    """
    if each * len(_OF_THE_LOG) > partitions or each > windows * slots:
        raise ValueError(
            f"{each} anomalies of each kind need {each * len(_OF_THE_LOG)} partitions and {each} registers: "
            f"there are {partitions} and {windows * slots}"
        )
    rng = Random(seed)
    chosen = iter(rng.sample(range(partitions), each * len(_OF_THE_LOG)))
    # Not in the last cycle, because a lost record is only detected by a later one.
    of_partitions = {next(chosen): (kind, rng.randrange(cycles - 1)) for kind in _OF_THE_LOG for _ in range(each)}
    of_registers = rng.sample(range(windows * slots), each)
    return Plants(of_partitions, frozenset(divmod(number, slots) for number in of_registers))
