"""The memory that decoding a message takes at most."""

import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, TypeAlias

from broker.wire.codec import decode, decoder
from broker.wire.errors import WireError

# (class, version, encoded message) -> bytes
PeakOfDecoding: TypeAlias = Callable[[type[Any], int, bytes], int]


@contextmanager
def measuring_process() -> Iterator[PeakOfDecoding]:
    """A function that measures in a process of its own.

    `tracemalloc` counts the allocations of all threads, and clients of other tests have threads in this process.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield lambda cls, version, data: pool.submit(_peak, cls, version, data).result()


def _peak(cls: type[Any], version: int, data: bytes) -> int:
    decoder(cls, version)
    tracemalloc.start()
    try:
        decode(cls, version, data)
    except WireError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak
