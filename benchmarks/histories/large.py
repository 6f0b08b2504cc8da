"""A large history: operations of many clients on many partitions and registers, in one file for each window of time.

Clients, partitions and sessions continue from window to window, so the operations of a partition are in all files.
Everything is generated from a seed, column by column.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import attrs
import numpy as np
import pyarrow.parquet as pq

from benchmarks.histories import queue, registers
from benchmarks.histories.columns import OperationColumns, events_of
from benchmarks.histories.plants import Plants, choose_plants
from benchmarks.histories.queue import (
    OPERATIONS_PER_CYCLE,
    OPERATIONS_PER_WINDOW,
    PARTITIONS_PER_TOPIC,
    RECORDS_PER_CYCLE,
    Log,
    QueueWindow,
    final_reads,
    steps_of,
    topic_creations,
)
from benchmarks.histories.registers import OPERATIONS_PER_REGISTER, RegisterWindow

# The number of operations in a file. Its texts take about a gigabyte of memory while it is generated.
_PER_WINDOW: Final = 500_000
_WINDOWS_MIN: Final = 2
_QUEUE_SHARE: Final = 0.6
# The largest number of operations of a partition, limited by the memory of a worker.
_PER_PARTITION: Final = 20_000
_CYCLES_MIN: Final = 2
_WINDOW_NS: Final = 60_000_000_000
# The number of records of final reads that are generated at a time.
_FINAL_RECORDS: Final = 500_000
_ROW_GROUP: Final = 131_072


@attrs.frozen
class LargeHistory:
    """The parameters of a history. `slots` is the number of registers in use at the same time."""

    partitions: int
    windows: int
    cycles_per_window: int
    slots: int
    per_register: int
    plants: Plants
    seed: int

    @classmethod
    def of(cls, operations: int, planted: int, partitions: int | None = None, seed: int = 1) -> "LargeHistory":
        """The parameters for at least `operations` operations, and for `planted` anomalies of each kind. Raises
        ValueError.
        """
        partitions = partitions or max(int(operations * _QUEUE_SHARE) // _PER_PARTITION, 8 * planted, 1)
        windows = max(_WINDOWS_MIN, -(-operations // _PER_WINDOW))
        of_window = operations * _QUEUE_SHARE / windows / partitions
        cycles = max(_CYCLES_MIN, round((of_window - OPERATIONS_PER_WINDOW) / OPERATIONS_PER_CYCLE))
        of_queue = partitions * windows * (cycles * OPERATIONS_PER_CYCLE + OPERATIONS_PER_WINDOW)
        left = max(operations - of_queue, OPERATIONS_PER_REGISTER)
        slots = -(-left // (windows * OPERATIONS_PER_REGISTER))
        plants = choose_plants(seed, planted, partitions, windows * cycles, windows, slots)
        return cls(partitions, windows, cycles, slots, OPERATIONS_PER_REGISTER, plants, seed)

    @property
    def operations(self) -> int:
        of_partition = self.windows * (self.cycles_per_window * OPERATIONS_PER_CYCLE + OPERATIONS_PER_WINDOW) + 1
        topics = -(-self.partitions // PARTITIONS_PER_TOPIC)
        return self.partitions * of_partition + topics + self.windows * self.slots * self.per_register

    @property
    def registers(self) -> int:
        return self.windows * self.slots

    def sample_processes(self, clean: int) -> list[str]:
        """The clients of a sample: of a partition or register with each kind of anomaly, and of `clean` keys without
        one.
        """
        by_kind = {kind: partition for partition, (kind, _) in self.plants.partitions.items()}
        without = (each for each in range(self.partitions) if each not in self.plants.partitions)
        slots = list(dict.fromkeys((*(slot for _, slot in sorted(self.plants.registers)), *range(self.slots))))
        chosen = [*by_kind.values(), *islice(without, clean)]
        of_partitions = [process for each in chosen for process in queue.processes_of(each)]
        return of_partitions + [process for each in slots[: 1 + clean] for process in registers.processes_of(each)]

    def files(self) -> Iterator[tuple[str, list[OperationColumns]]]:
        """The name of each file, and the operations in it."""
        for number in range(self.windows):
            yield f"window-{number:04}.parquet", self._window(number)
        cycles = range(self.windows * self.cycles_per_window)
        at_a_time = max(1, _FINAL_RECORDS // (len(cycles) * RECORDS_PER_CYCLE))
        for first in range(0, self.partitions, at_a_time):
            log = Log(first, min(first + at_a_time, self.partitions), cycles)
            yield f"final-{first:06}.parquet", [final_reads(log, (self.windows + 1) * _WINDOW_NS, self.plants)]

    def _window(self, number: int) -> list[OperationColumns]:
        rng = np.random.default_rng([self.seed, number])
        # The topics are created before the first window begins.
        start_ns, cycles = (number + 1) * _WINDOW_NS, self.cycles_per_window
        log = Log(0, self.partitions, range(number * cycles, (number + 1) * cycles))
        step_ns = _WINDOW_NS / steps_of(cycles)
        of_queue = QueueWindow(log, number, start_ns, step_ns, self.plants, rng).operations()
        end_ns = start_ns + _WINDOW_NS
        window = RegisterWindow(self.slots, self.per_register, number, start_ns, end_ns, self.plants, rng)
        return [*([] if number else [topic_creations(self.partitions)]), *of_queue, window.operations()]


def write_large_history(history: LargeHistory, directory: Path) -> int:
    """Write the files of a history. Returns their size in bytes."""
    written = 0
    for name, operations in history.files():
        path = directory / name
        pq.write_table(
            events_of(operations),
            path,
            compression="zstd",
            compression_level=1,
            use_dictionary=["process", "type", "f"],
            row_group_size=_ROW_GROUP,
        )
        written += path.stat().st_size
    return written
