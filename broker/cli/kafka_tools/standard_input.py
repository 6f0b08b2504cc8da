"""Standard input, in chunks."""

import sys
from collections.abc import AsyncGenerator
from typing import Final

import trio

_CHUNK_BYTES: Final = 1 << 16


async def chunks() -> AsyncGenerator[bytes, None]:
    """The bytes of standard input as they come.

    A thread reads them, since a file cannot be waited for. A thread that outlives a cancelled read holds no lock.
    """
    stream = sys.stdin.buffer.raw  # type: ignore[union-attr]
    while chunk := await trio.to_thread.run_sync(stream.read, _CHUNK_BYTES, abandon_on_cancel=True):
        yield chunk
