"""The real disk with injected faults, and a list of the files that were synced."""

import errno
from collections.abc import Sequence
from typing import Any

import trio

from kraft.env import Buffer, File, FsyncFailed, RealDisk, sync_one_by_one


class FaultyDisk(RealDisk):
    """Writing to files below `failing` fails with `error`, and syncing files below `unsyncable` always fails.

    While `held` is an event, every sync waits for it. `synced` has the paths of the files that were synced.
    """

    def __init__(self) -> None:
        self.failing: tuple[str, ...] = ()
        self.error = errno.EIO
        self.unsyncable: tuple[str, ...] = ()
        self.held: trio.Event | None = None
        self.synced: list[str] = []

    def open(self, path: str, *, create: bool = False) -> Any:
        if create:
            self.check(path)
        return FaultyFile(self, super().open(path, create=create))

    def rename(self, old: str, new: str) -> None:
        self.check(new)
        super().rename(old, new)

    async def sync_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        await sync_one_by_one(self, files, directories)

    def check(self, path: str) -> None:
        """Raise the injected fault for writing to `path`, if there is one."""
        if path.startswith(self.failing):
            raise OSError(self.error, errno.errorcode[self.error], path)


class FaultyFile:
    def __init__(self, disk: FaultyDisk, file: File) -> None:
        self._disk = disk
        self._file = file

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        self._disk.check(self._file.path)
        self._file.write(offset, buffers)

    async def sync(self) -> None:
        if self._disk.held is not None:
            await self._disk.held.wait()
        if self._file.path.startswith(self._disk.unsyncable):
            raise FsyncFailed(errno.EIO, "fsync failed", self._file.path)
        await self._file.sync()
        self._disk.synced.append(self._file.path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
