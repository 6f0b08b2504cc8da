"""Kafka's checkpoint files: small text files that are replaced as a whole.

Format: a line with the version 0, a line with the number of entries, a line per entry. Those in a log directory hold an
offset per partition, as lines "topic partition offset": `recovery-point-offset-checkpoint` (everything before it was
flushed), `log-start-offset-checkpoint` (if it is after the start of the first segment, because of DeleteRecords),
`replication-offset-checkpoint` (high watermarks), `cleaner-offset-checkpoint` (ends of the compacted parts).
"""

from collections.abc import Mapping, Sequence
from functools import partial

import trio

from broker.storage.partition_directory import PARTITION_MAX
from broker.storage.whole_file import read_whole, read_whole_from_device, replace_durably, try_to_read
from kraft.env import Disk

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"

CHECKPOINT_VERSION = 0
OFFSET_MAX = 2**63 - 1
LINE_SHOWN = 100  # characters of a damaged line that a message shows: it may be as long as the file


class CorruptCheckpoint(ValueError):
    """A checkpoint file with invalid content; the message names the file and the reason."""


def encode_checkpoint(lines: Sequence[str]) -> bytes:
    return "\n".join((str(CHECKPOINT_VERSION), str(len(lines)), *lines, "")).encode()


def decode_checkpoint(content: bytes, path: str) -> list[str]:
    """The lines of the entries; none for an empty file. Raises CorruptCheckpoint, with `path` in its message."""
    try:
        version_line, *rest = content.decode().splitlines() or [str(CHECKPOINT_VERSION)]
        version, count = int(version_line), int(rest[0]) if rest else 0
    except ValueError as error:
        raise CorruptCheckpoint(f"Malformed line in checkpoint file [{path}]: {str(error)[:LINE_SHOWN]}") from error
    if version != CHECKPOINT_VERSION:
        raise CorruptCheckpoint(
            f"Unrecognised version:{version}, expected version: {CHECKPOINT_VERSION} in checkpoint file at: {path}"
        )
    lines = rest[1:]
    if len(lines) != count:
        raise CorruptCheckpoint(
            f"Expected [{count}] entries in checkpoint file [{path}], but found only [{len(lines)}]"
        )
    return lines


def number_up_to(maximum: int, text: str) -> int:
    """The number in a line of a checkpoint. Raises ValueError unless it is between 0 and `maximum`."""
    number = int(text)
    if not 0 <= number <= maximum:
        raise ValueError(f"{text} is out of range")
    return number


class OffsetCheckpoint:
    """One file of offsets per partition. It remembers its content, so that writing the same again costs no I/O."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self._written: Mapping[tuple[str, int], int] | None = None
        self.was_read = False  # whether there was an intact file that was not empty
        # Two concurrent writes would use the same temporary file.
        self._writing = trio.Lock()

    def read(self) -> dict[tuple[str, int], int]:
        """(topic, partition) -> offset; empty without a file. Raises CorruptCheckpoint, OSError."""
        try:
            content = read_whole(self._disk, self.path)
        except FileNotFoundError:
            return {}
        offsets = {}
        for line in decode_checkpoint(content, self.path):
            try:
                topic, partition, offset = line.split()
                offsets[topic, number_up_to(PARTITION_MAX, partition)] = number_up_to(OFFSET_MAX, offset)
            except ValueError as error:
                raise CorruptCheckpoint(
                    f"Malformed line in checkpoint file [{self.path}]: {line[:LINE_SHOWN]}"
                ) from error
        self._written = dict(offsets)
        self.was_read = bool(content)
        return offsets

    async def write(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Replace the file durably if the offsets differ. Keeps `offsets`. Raises OSError, FsyncFailed."""
        async with self._writing:
            if offsets != self._written:
                self._written = None
                await replace_durably(self._disk, self.path, _encode_offsets(offsets))
                self._written = offsets

    async def restore(self) -> str:
        """Write the file again if it is not what was written last; returns what was wrong, "" if nothing was.

        Raises OSError, FsyncFailed.
        """
        async with self._writing:
            written = self._written
            if written is None:
                return ""
            reading = partial(try_to_read, self._disk, self.path, read_whole_from_device)
            content, error = await self._disk.run_apart(reading)
            if content == _encode_offsets(written) or not (content or written or error):
                return ""
            await replace_durably(self._disk, self.path, _encode_offsets(written))
            return error or "it does not have the offsets that were written"


def _encode_offsets(offsets: Mapping[tuple[str, int], int]) -> bytes:
    return encode_checkpoint([f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])
