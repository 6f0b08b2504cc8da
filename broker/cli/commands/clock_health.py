"""Clocks of brokers that are wrong, told by comparing them with each other and with that of this machine."""

from collections.abc import Iterator, Mapping
from statistics import median_low
from typing import Final

from broker.cli.grammar.units import format_duration_ms
from broker.client.admin import LogDir

# Clocks that NTP sets differ by some milliseconds. Retention and transactions notice seconds.
_OFF_MS: Final = 10_000


def clock_problems(log_dirs: Mapping[int, Mapping[str, LogDir]], asked_ms: int, answered_ms: int) -> Iterator[str]:
    """The brokers whose clocks are off those of most others. Nodes that are controllers only tell no time.

    `asked_ms` and `answered_ms` are the times of this machine before and after the brokers were asked.
    """
    clocks = {
        broker: directory.clock_ms
        for broker, directories in sorted(log_dirs.items())
        for directory in directories.values()
        if directory.clock_ms is not None
    }
    offsets = {broker: _offset(clock_ms, asked_ms, answered_ms) for broker, clock_ms in clocks.items()}
    # This machine counts as one more, so that two clocks that differ are told apart.
    usual = median_low([0, *offsets.values()])
    others = "of most other nodes" if len(offsets) > 1 else "of this machine"
    for broker, offset in offsets.items():
        off_ms = offset - usual
        if abs(off_ms) > _OFF_MS:
            direction = "ahead of" if off_ms > 0 else "after"
            yield (
                f"the clock of broker {broker} is {format_duration_ms(abs(off_ms))} {direction} that {others}: "
                "retention deletes too early or too late, and clients may get INVALID_TIMESTAMP; set it, and run NTP "
                "on every node"
            )


def _offset(clock_ms: int, asked_ms: int, answered_ms: int) -> int:
    """The least time by which a clock is off, as the broker answered at some time between the two."""
    if clock_ms > answered_ms:
        return clock_ms - answered_ms
    return min(0, clock_ms - asked_ms)
