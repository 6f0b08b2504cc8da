"""Files and directories, each with its content in the page cache and on the disk."""

from collections.abc import Callable, Iterable
from random import Random
from typing import TypeAlias

import attrs

# The possible effects of a power cut on unsynced writes.
FATES_OF_WRITES = ("none", "prefix", "torn", "some", "all")
FATES_OF_ENTRIES = ("none", "prefix", "all")


@attrs.frozen
class Write:
    """Bytes at an offset; without bytes, a truncation to `offset`."""

    offset: int
    data: bytes | None

    def perform(self, content: bytearray) -> None:
        offset, data = self.offset, self.data
        if data is None:
            del content[offset:]
            content.extend(bytes(offset - len(content)))
        else:
            if len(content) < offset:
                content.extend(bytes(offset - len(content)))
            content[offset : offset + len(data)] = data


# The bytes around a flipped bit that tell whether it is still there.
_AROUND_FLIP = 16


@attrs.frozen
class Flip:
    """A flipped bit, by the byte `at` and its `mask`. `around` are the bytes from `start` on, as they became by it."""

    at: int
    mask: int
    start: int
    around: bytes

    def is_in(self, content: bytearray) -> bool:
        """True if the bit is still flipped: not if the bytes around it were written again or cut off."""
        return content[self.start : self.start + len(self.around)] == self.around


class Inode:
    """A file. `written` counts all its writes; the last of them are not durable yet. `modified_ms` is the wall clock's
    time of the last one, or what was set. `flips` are the bits that have flipped while a process used it.
    """

    __slots__ = ("_dirty", "_settled", "cached", "durable", "flips", "modified_ms", "written")

    def __init__(self) -> None:
        self.cached = bytearray()
        self.durable = bytearray()
        self.written = 0
        self.modified_ms = 0
        self.flips: list[Flip] = []
        self._settled = 0  # writes that are durable, or that a failed fsync has lost
        self._dirty: list[Write] = []

    def write(self, offset: int, data: bytes | None) -> None:
        write = Write(offset, data)
        write.perform(self.cached)
        self._dirty.append(write)
        self.written += 1

    def settle(self, upto: int) -> None:
        """Make the first writes durable, those counted when `written` was `upto`."""
        self._apply(self._take(upto))

    def lose(self, upto: int, rng: Random) -> None:
        """Like `settle`, but only some of the writes reach the disk, while the page cache still shows all of them.

        Truncations are metadata: the journal has them, so they are not lost.
        """
        taken = self._take(upto)
        truncations = [write for write in taken if write.data is None]
        self._apply(write for write in taken if write.data is not None and rng.random() < 0.3)
        self._dirty[:0] = truncations
        self._settled -= len(truncations)

    def flip_bit(self, rng: Random) -> int:
        """Flip a bit of a fully durable file, in the page cache and on the disk. Returns the position of its byte."""
        assert not self._dirty, "nothing is dirty without power"
        at = rng.randrange(len(self.durable))
        self.durable[at] ^= 1 << rng.randrange(8)
        self.cached = bytearray(self.durable)
        return at

    def flip(self, at: int, mask: int, *, in_cache: bool) -> None:
        """Flip a bit on the disk, and in the page cache too unless the page stays there. Both have the same byte.

        A dirty page would be written over the flipped bit.
        """
        assert self.durable[at] == self.cached[at], "nothing is written there meanwhile"
        assert not self.is_dirty_in(range(at, at + 1)), "the page is durable"
        for content in (self.durable, self.cached) if in_cache else (self.durable,):
            content[at] ^= mask
        start = max(at - _AROUND_FLIP, 0)
        self.flips.append(Flip(at, mask, start, bytes(self.durable[start : at + _AROUND_FLIP])))

    def is_dirty_in(self, part: range) -> bool:
        """True if bytes of this part are in the page cache alone, and will replace those on the disk."""
        return any(
            write.offset < part.stop and (write.data is None or part.start < write.offset + len(write.data))
            for write in self._dirty
        )

    @property
    def is_flipped(self) -> bool:
        """True if a flipped bit is left on the disk or in the page cache."""
        return any(flip.is_in(self.durable) or flip.is_in(self.cached) for flip in self.flips)

    def intact(self, size: int) -> bytes:
        """The first bytes of the page cache as they were written, without flipped bits."""
        content = self.cached[:size]
        for flip in self.flips:
            if flip.is_in(self.cached) and flip.at < size:
                content[flip.at] ^= flip.mask
        return bytes(content)

    def on_device(self) -> bytearray:
        """The content for a direct read: the disk's bytes, after the dirty pages were written back."""
        content = bytearray(self.durable)
        for write in self._dirty:
            write.perform(content)
        return content

    def power_cut(self, rng: Random, note: Callable[..., None], fate: str | None = None) -> None:
        """Drop unsynced writes: all, none or some of them according to `fate`, or at random."""
        dirty = self._take(self.written)
        if dirty:
            fate = fate or rng.choice(FATES_OF_WRITES)
            kept = _surviving(dirty, fate, rng)
            note(fate, len(dirty), len(kept))
            self._apply(kept)
        self.cached = bytearray(self.durable)

    def _take(self, upto: int) -> list[Write]:
        count = max(0, upto - self._settled)
        taken = self._dirty[:count]
        del self._dirty[:count]
        self._settled += count
        return taken

    def _apply(self, writes: Iterable[Write]) -> None:
        for write in writes:
            write.perform(self.durable)


def _surviving(dirty: list[Write], fate: str, rng: Random) -> list[Write]:
    if fate == "all":
        return dirty
    if fate == "none":
        return []
    if fate == "some":  # pages are written back in any order
        return [write for write in dirty if rng.random() < 0.5]
    count = rng.randrange(len(dirty) + 1)
    kept = dirty[:count]
    if fate == "torn" and count < len(dirty):
        write = dirty[count]
        if write.data is not None:
            kept.append(Write(write.offset, write.data[: rng.randrange(len(write.data) + 1)]))
    return kept


class Directory:
    """The entries of a directory. `changed` counts changes. A rename is one change, so a power cut cannot split it."""

    __slots__ = ("_dirty", "_settled", "changed", "durable", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.changed = 0
        self._settled = 0
        self._dirty: list[tuple[tuple[str, Node | None], ...]] = []

    def change(self, *changes: tuple[str, "Node | None"]) -> None:
        """Set or (None) remove entries, as one change."""
        _rename(self.entries, changes)
        self._dirty.append(changes)
        self.changed += 1

    def forget(self, name: str) -> None:
        """Remove an entry from page cache and disk. Requires a directory without unsynced changes."""
        assert not self._dirty, "nothing is dirty without power"
        self.entries.pop(name, None)
        self.durable.pop(name, None)

    def settle(self, upto: int) -> None:
        """Make the first changes durable, those counted when `changed` was `upto`."""
        count = max(0, upto - self._settled)
        for changes in self._dirty[:count]:
            _rename(self.durable, changes)
        del self._dirty[:count]
        self._settled += count

    def power_cut(self, rng: Random, note: Callable[..., None], fate: str | None = None) -> None:
        """Keep the synced entries and, because a journal is ordered, a random prefix of the others; then do the same
        below.

        `fate`, which may be "none" or "all", replaces the random choice.
        """
        if self._dirty:
            fate_here = fate or rng.choice(FATES_OF_ENTRIES)
            lost = {"none": len(self._dirty), "all": 0}.get(fate_here, rng.randrange(len(self._dirty) + 1))
            note("entries", fate_here, len(self._dirty), lost)
            self.settle(self.changed - lost)
            self._dirty.clear()
            self._settled = self.changed
        self.entries = dict(self.durable)
        for node in self.entries.values():
            node.power_cut(rng, note, fate)


def _rename(entries: dict[str, "Node"], changes: Iterable[tuple[str, "Node | None"]]) -> None:
    for name, node in changes:
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


Node: TypeAlias = Inode | Directory
