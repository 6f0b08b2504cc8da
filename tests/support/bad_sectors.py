"""A disk with sectors that cannot be read."""

import errno

from kraft.env import RealDisk, RealFile


class BadDisk(RealDisk):
    """Reads of `bad` bytes of some paths fail until the file is replaced. Opening files fails with `no_descriptors`."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: dict[str, range] = {}
        self.no_descriptors = False

    def open(self, path: str, *, create: bool = False) -> RealFile:
        if self.no_descriptors:
            raise OSError(errno.EMFILE, "Too many open files")
        return BadFile(self, path, super().open(path, create=create))

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self.bad.pop(new, None)


class BadFile(RealFile):
    def __init__(self, disk: BadDisk, path: str, file: RealFile) -> None:
        super().__init__(path, file._descriptor)
        file._descriptor = -1
        self._disk = disk

    def read(self, offset: int, count: int) -> bytes:
        bad = self._disk.bad.get(self.path, range(0))
        if offset < bad.stop and bad.start < offset + count:
            raise OSError(errno.EIO, "Input/output error")
        return super().read(offset, count)

    read_from_device = read
