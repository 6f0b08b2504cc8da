"""The file `scrub-offset-checkpoint` of a log directory: how far the scrubber has come.

It has the form of Kafka's checkpoints, with one entry: the time in ms at which the pass began, the next topic,
partition and base offset to be read, and a checksum of these. Topic "~" stands for a pass that is complete. Without the
file a node that restarts each day would never read the end. It need not survive a power cut: a new pass begins then.
"""

from contextlib import suppress
from typing import Final

from broker.storage.checkpoints import CorruptCheckpoint, decode_checkpoint, encode_checkpoint
from broker.storage.whole_file import read_whole, replace_whole
from kraft.checksums import crc32c
from kraft.env import Disk

SCRUB_CHECKPOINT: Final = "scrub-offset-checkpoint"
# No topics have these names: one is before all topics, the other after them.
_START: Final = "!"
_COMPLETE: Final = "~"
_NEVER: Final = -1


class ScrubPlace:
    """The place of the pass in one log directory. `began_ms` is -1 before the first pass.

    `key` is the next topic and partition, and `base_offset` that of its next segment; `key` is None if the pass is
    complete.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.path = f"{directory}/{SCRUB_CHECKPOINT}"
        self.began_ms = _NEVER
        self.key: tuple[str, int] | None = None
        self.base_offset = 0

    def load(self) -> None:
        """Read the file; without an intact one, there was no pass."""
        try:
            (line,) = decode_checkpoint(read_whole(self._disk, self.path), self.path)
            text, checksum = line.rsplit(" ", 1)
            began_ms, topic, partition, base_offset = text.split()
            if int(checksum) == crc32c(text.encode()):
                self.began_ms, self.base_offset = int(began_ms), int(base_offset)
                self.key = None if topic == _COMPLETE else (topic, int(partition))
        except (OSError, CorruptCheckpoint, ValueError):
            return

    def begin(self, now_ms: int) -> None:
        """Begin a pass."""
        self.began_ms = now_ms
        self.move((_START, 0), 0)

    def move(self, key: tuple[str, int] | None, base_offset: int) -> None:
        """Save the next place; None for a pass that is complete.

        The file is left as it was if the disk is full or fails: a pass that only reads takes no directory offline.
        """
        self.key, self.base_offset = key, base_offset
        topic, partition = (_COMPLETE, 0) if key is None else key
        text = f"{self.began_ms} {topic} {partition} {base_offset}"
        with suppress(OSError):
            replace_whole(self._disk, self.path, encode_checkpoint([f"{text} {crc32c(text.encode())}"]))
