"""Flips a bit of a partition's log on one node, as a disk does that has lost it silently."""

import os
import re
from random import Random
from typing import Any, Final

from broker.node import Node
from broker.wire.records import HEADER_SIZE, LOG_OVERHEAD
from jepsen.testing.node_commands import CommandRefused, Commands

_SEGMENT: Final = re.compile(r"\d{20}\.log")


class BitFlipper:
    """Flips bits of the logs in `directories`."""

    def __init__(self, directories: list[str]) -> None:
        self.commands: Commands = {"flip_bit": self.flip}
        self._directories = directories

    async def flip(self, node: Node, topic: str, partition: int, offset: int | None, seed: int) -> dict[str, Any]:
        """Flip a bit within the records of a batch, whose checksum covers them. Returns the place.

        The batch is the one with `offset`, or one that the seed draws; the seed draws the bit. Raises CommandRefused.
        """
        try:
            return self._flip(f"{topic}-{partition}", offset, Random(f"{seed}/{topic}-{partition}"))
        except OSError as error:  # retention has removed the segment, or the process has no descriptor
            raise CommandRefused(str(error)) from error

    def _flip(self, name: str, offset: int | None, rng: Random) -> dict[str, Any]:
        batches = self._batches(name)
        if offset is not None:
            # The next batch tells where one ends: compaction leaves gaps, which belong to the one before.
            batches = [each for each in batches if each[1] <= offset][-1:]
        if not batches:
            raise CommandRefused(f"the log of {name} has no such batch here")
        path, base_offset, start, size = rng.choice(batches)
        position, bit = rng.randrange(start + HEADER_SIZE, start + size), rng.randrange(8)
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            [byte] = os.pread(descriptor, 1, position)
            os.pwrite(descriptor, bytes([byte ^ 1 << bit]), position)
        finally:
            os.close(descriptor)
        return {"path": path, "base_offset": base_offset, "position": position, "bit": bit}

    def _batches(self, name: str) -> list[tuple[str, int, int, int]]:
        """The batches with records: the file, the base offset, the first byte, and the size."""
        found = []
        for directory in self._directories:
            path = f"{directory}/{name}"
            names = sorted(filter(_SEGMENT.fullmatch, os.listdir(path))) if os.path.isdir(path) else []
            for segment in names:
                with open(f"{path}/{segment}", "rb") as file:
                    data = file.read()
                start = 0
                while start + HEADER_SIZE <= len(data):
                    size = LOG_OVERHEAD + int.from_bytes(data[start + 8 : start + LOG_OVERHEAD])
                    if HEADER_SIZE < size <= len(data) - start:
                        found.append((f"{path}/{segment}", int.from_bytes(data[start : start + 8]), start, size))
                    start += max(size, HEADER_SIZE)
        return found
