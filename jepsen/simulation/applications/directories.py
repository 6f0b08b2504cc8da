"""The real directories of an application's processes, for programs that open files by themselves."""

import shutil
from pathlib import Path


class Directories:
    """A directory for each process of a run below `root`, until `remove`. Crashes and power cuts spare them."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def of(self, name: str) -> Path:
        """The directory of a process, which is empty at its first start."""
        directory = self._root / name
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def remove(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)
