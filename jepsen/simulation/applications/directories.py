"""The real directories of an application's processes, for programs that open files by themselves."""

import shutil
import tempfile
from pathlib import Path


class Directories:
    """A directory for each process that asks for one, until `remove`. Crashes and power cuts spare them."""

    def __init__(self) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="simulated-"))

    def of(self, name: str) -> Path:
        """The directory of a process, which is empty at its first start."""
        directory = self._root / name
        directory.mkdir(exist_ok=True)
        return directory

    def remove(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)
