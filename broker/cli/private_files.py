"""Files with keys and passwords."""

import os
from contextlib import suppress
from typing import Final

_PRIVATE_MODE: Final = 0o600


def write_private(path: str, content: bytes) -> None:
    """Write a file that only its owner may read, at no moment anyone else. Raises OSError."""
    temporary = f"{path}.new"
    with suppress(FileNotFoundError):
        os.unlink(temporary)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_MODE), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
