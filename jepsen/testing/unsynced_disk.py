"""A disk for tests that read and write thousands of files and cut no power."""

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

import trio

from kraft.env import RealDisk, RealFile, sync_one_by_one

T = TypeVar("T")


class UnsyncedDisk(RealDisk):
    """A disk whose syncs do nothing, and which needs no threads. For tests of contents rather than of durability."""

    def open(self, path: str, *, create: bool = False) -> RealFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return UnsyncedFile(path, os.open(path, flags, 0o644))

    async def sync_dir(self, path: str) -> None:
        await trio.lowlevel.checkpoint()

    async def sync_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        await sync_one_by_one(self, files, directories)

    async def run_apart(self, work: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint()
        return work()


class UnsyncedFile(RealFile):
    async def sync(self) -> None:
        await trio.lowlevel.checkpoint()
