"""Snapshots of the state machine's state, each in one file in the log's directory (KIP-630).

`<end offset>-<epoch>.checkpoint` holds records that represent the state at the end offset. The file gets this name once
it is complete and durable. A `.part` file is being written, or was left by a crash. A file is a sequence of

    size     uint32    bytes after the checksum
    crc      uint32    CRC-32C of those bytes
    msgpack            first [end offset, epoch, voters], then arrays of records, and at last an empty one
"""

import re
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import msgpack
import trio

from kraft import lazy_attrs
from kraft.bounds import RECORDS_MAX
from kraft.checksums import crc32c
from kraft.core import OffsetAndEpoch, VoterSet
from kraft.core.control_records import decode_voters, encode_voters
from kraft.env import Disk, File, FsyncFailed
from kraft.log.durable_log import CorruptLog
from kraft.msgpack_reading import MalformedMessage, Reading

_FRAME = struct.Struct(">II")
_END: Final[bytes] = msgpack.packb([])
_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_OFFSET_MAX: Final = 2**63 - 1
_EPOCH_MAX: Final = 2**31 - 1
# Records are encoded in portions of about this size, with a checkpoint between two portions. This bounds the memory,
# and the time for which one portion blocks the event loop (about 10 ms).
PORTION_BYTES = 1 << 16
# A portion is a little more than PORTION_BYTES, unless a single record is larger.
BODY_BYTES_MAX = 64 << 20


@lazy_attrs.frozen
class Snapshot:
    """An opened snapshot. `portions` reads the records lazily, and raises CorruptLog if they are damaged."""

    place: OffsetAndEpoch
    voters: VoterSet
    portions: Iterator[tuple[bytes, ...]]


class Snapshots:
    """The snapshots in a directory. An older one than `latest` is kept until the log starts at `latest`.

    `is_damaged` says that `latest` is known to be damaged, so that another one may be saved at the same place.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self.latest: OffsetAndEpoch | None = None
        self.is_damaged = False

    @classmethod
    async def open(cls, disk: Disk, directory: str) -> "Snapshots":
        """Find the latest snapshot, and remove unfinished files that a crash left."""
        snapshots = cls(disk, directory)
        for name in disk.list(directory):
            if name.endswith(".checkpoint.part"):
                await disk.remove(f"{directory}/{name}")
        snapshots.latest = max(snapshots._places(), key=lambda place: place.offset, default=None)
        return snapshots

    async def save(self, place: OffsetAndEpoch, voters: VoterSet, records: Iterable[bytes]) -> bool:
        """Write a snapshot, taking `records` one by one.

        Returns False if a later snapshot was installed before this one was durable; this one is removed then. Raises
        OSError, without having changed anything; FsyncFailed.
        """
        file = self._disk.open(self._path(place) + ".part", create=True)
        try:
            await self._write(file, place, _bodies(place, voters, records))
            if not self._is_overtaken(place):
                await file.sync()
        except FsyncFailed:
            raise
        except OSError:
            with suppress(OSError):
                await self.discard_part(place)
            raise
        finally:
            file.close()
        if self._is_overtaken(place):
            await self.discard_part(place)
            return False
        await self._publish(place)
        return True

    def damage(self) -> str:
        """Return the damage to the bytes of the latest snapshot, as text; "" if they are intact or there is none."""
        return "" if self.latest is None else self.damage_of(self.latest)

    def damage_of(self, place: OffsetAndEpoch) -> str:
        """Return the damage to the bytes of a snapshot on its device, as text; "" if they are intact.

        May be called in a thread. Raises FileNotFoundError, OSError.
        """
        file = self._disk.open(self._path(place))
        try:
            for position, body in _read_frames(file, file.read_from_device):
                if position == 0:
                    _read_head(_decode(file, position, body), place, file.path)
        except CorruptLog as error:
            return error.damage
        finally:
            file.close()
        return ""

    def open_snapshot(self, place: OffsetAndEpoch) -> Snapshot:
        """Raises FileNotFoundError, CorruptLog."""
        bodies = _read_bodies(self._disk.open(self._path(place)))
        return Snapshot(place, _read_head(next(bodies, ()), place, self._path(place)), bodies)

    def read(self, place: OffsetAndEpoch, position: int, max_bytes: int) -> tuple[bytes, int]:
        """Return bytes of the file at `position`, and the file's size. Raises FileNotFoundError."""
        file = self._disk.open(self._path(place))
        try:
            size = file.size()
            return file.read(position, max_bytes) if position < size else b"", size
        finally:
            file.close()

    def write_part(self, place: OffsetAndEpoch, position: int, data: bytes) -> None:
        """Write bytes of a snapshot that is being fetched; position 0 discards earlier bytes. Raises OSError."""
        file = self._disk.open(self._path(place) + ".part", create=True)
        try:
            if position == 0:
                file.truncate(0)
            file.write(position, [data])
        finally:
            file.close()

    async def install(self, place: OffsetAndEpoch) -> None:
        """Verify a fetched snapshot and make it durable. Raises CorruptLog if it is damaged or of another position;
        FsyncFailed.
        """
        file = self._disk.open(self._path(place) + ".part")
        try:
            bodies = _read_bodies(file)
            _read_head(next(bodies, ()), place, file.path)
            for _ in bodies:
                await trio.lowlevel.checkpoint()
            await file.sync()
        finally:
            file.close()
        await self._publish(place)

    async def discard_part(self, place: OffsetAndEpoch) -> None:
        """Remove the bytes of an unfinished snapshot. Raises OSError."""
        path = self._path(place) + ".part"
        if self._disk.exists(path):
            await self._disk.remove(path)

    async def remove_all(self) -> None:
        """Remove all snapshots, which have to be fetched again. Raises OSError."""
        for place in self._places():
            await self._disk.remove(self._path(place))
        self.latest = None

    async def remove_below(self, offset: int) -> None:
        for place in self._places():
            if place.offset < offset:
                await self._disk.remove(self._path(place))

    async def _write(self, file: File, place: OffsetAndEpoch, bodies: Iterator[bytes]) -> None:
        file.truncate(0)
        position = 0
        for body in bodies:
            if self._is_overtaken(place):
                return
            frame = _FRAME.pack(len(body), crc32c(body))
            file.write(position, [frame, body])
            position += len(frame) + len(body)
            await trio.lowlevel.checkpoint()

    def _is_overtaken(self, place: OffsetAndEpoch) -> bool:
        return self.latest is not None and self.latest.offset > place.offset

    async def _publish(self, place: OffsetAndEpoch) -> None:
        self._disk.rename(self._path(place) + ".part", self._path(place))
        await self._disk.sync_dir(self._directory)
        if not self._is_overtaken(place):
            self.latest = place

    def _places(self) -> list[OffsetAndEpoch]:
        matches = [_NAME.fullmatch(name) for name in self._disk.list(self._directory) if is_snapshot(name)]
        return [OffsetAndEpoch(int(match[1]), int(match[2])) for match in matches if match is not None]

    def path_of(self, place: OffsetAndEpoch) -> str:
        """The path of a snapshot."""
        return self._path(place)

    def _path(self, place: OffsetAndEpoch) -> str:
        return f"{self._directory}/{place.offset:020}-{place.epoch:010}.checkpoint"


def is_snapshot(name: str) -> bool:
    """True if `name` is the name of a snapshot file."""
    match = _NAME.fullmatch(name)
    return match is not None and int(match[1]) <= _OFFSET_MAX and int(match[2]) <= _EPOCH_MAX


def _bodies(place: OffsetAndEpoch, voters: VoterSet, records: Iterable[bytes]) -> Iterator[bytes]:
    yield msgpack.packb([place.offset, place.epoch, encode_voters(voters)])
    portion: list[bytes] = []
    size_bytes = 0
    for record in records:
        portion.append(record)
        size_bytes += len(record)
        if size_bytes >= PORTION_BYTES:
            yield msgpack.packb(portion)
            portion, size_bytes = [], 0
    if portion:
        yield msgpack.packb(portion)
    yield _END


def _read_head(head: tuple[object, ...], place: OffsetAndEpoch, path: str) -> VoterSet:
    """Return the voters of the snapshot. Raises CorruptLog if it is of another position."""
    match head:
        case (place.offset, place.epoch, bytes(voters)):
            try:
                return decode_voters(voters)
            except MalformedMessage as error:
                raise CorruptLog(f"{path} names no voters: {error}") from error
    raise CorruptLog(f"{path} is of another offset or epoch")


def _read_frames(file: File, read: Callable[[int, int], bytes]) -> Iterator[tuple[int, bytes]]:
    """Return the position and the body of each frame, the last, empty one included. Raises CorruptLog at damage.

    `read` returns bytes of the file by position and number.
    """
    position, size = 0, file.size()
    while position < size:
        head = read(position, _FRAME.size)
        body_size, crc = _FRAME.unpack(head) if len(head) == _FRAME.size else (-1, 0)
        fits = 0 < body_size <= min(size - position, BODY_BYTES_MAX)
        body = read(position + _FRAME.size, body_size) if fits else b""
        if crc32c(body) != crc or not body:
            break
        yield position, body
        position += _FRAME.size + body_size
        if position == size and body == _END:
            return
    raise CorruptLog(f"{file.path} is damaged at byte {position}")


def _read_bodies(file: File) -> Iterator[tuple[Any, ...]]:
    """Return the decoded frames without the last, empty one. Raises CorruptLog at damage, or without a last frame."""
    for position, body in _read_frames(file, file.read):
        fields = _decode(file, position, body)
        if position and not all(type(each) is bytes for each in fields):
            raise CorruptLog(f"{file.path} has invalid records at byte {position}")
        if position == 0 or body != _END:
            yield fields


def _decode(file: File, position: int, body: bytes) -> tuple[Any, ...]:
    try:
        return Reading(body).complete(_read_scalars)
    except MalformedMessage as error:
        raise CorruptLog(f"{file.path} is damaged at byte {position}") from error


def _read_scalars(reading: Reading) -> tuple[Any, ...]:
    return tuple([reading.scalar() for _ in range(reading.array(RECORDS_MAX))])
