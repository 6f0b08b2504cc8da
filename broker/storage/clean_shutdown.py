"""Closes logs cleanly: everything in them becomes durable, so that the next start need not validate them.

All logs go through each step together, many at a time and off the event loop. A file system that commits its journal
makes the creation and renaming of files wait, but one commit covers many files. Closed one after the other, with eight
syncs each in a thread of its own, 1,000 logs took seconds.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import trio

from broker.storage.log import Log
from broker.storage.log_config import MAX_LONG
from kraft.env import Disk

# Logs or paths that one thread handles at a time, and the number of threads.
_PORTION: Final = 32
_THREADS: Final = 16

CLEAN_SHUTDOWN_MARKER: Final = ".kafka_cleanshutdown"
NO_BROKER_EPOCH: Final = -1
# A marker is below 50 bytes; a longer text could nest too deeply to be parsed.
_MARKER_BYTES_MAX: Final = 256

T = TypeVar("T")


def encode_marker(broker_epoch: int) -> bytes:
    """The content of the marker of a clean shutdown (KIP-966)."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def decode_marker(content: bytes) -> int:
    """The broker epoch in a clean-shutdown marker; -1 if it is empty, as before KIP-966, or damaged."""
    if len(content) > _MARKER_BYTES_MAX:
        return NO_BROKER_EPOCH
    try:
        epoch = json.loads(content)["brokerEpoch"]
    except (ValueError, TypeError, KeyError):
        return NO_BROKER_EPOCH
    is_epoch = isinstance(epoch, int) and not isinstance(epoch, bool) and 0 <= epoch <= MAX_LONG
    return epoch if is_epoch else NO_BROKER_EPOCH


async def close_cleanly(disk: Disk, logs: Sequence[Log]) -> None:
    """Commit, complete the indexes, make everything durable and close the logs. Nothing else may use them any more.

    Raises FsyncFailed and OSError, in an exception group.
    """
    unsynced: list[str] = []
    changed: list[str] = []

    async def prepare(portion: Sequence[Log]) -> None:
        for log in portion:
            await log.durability.settle()
        unsynced.extend(await disk.run_apart(lambda: [path for log in portion for path in _complete_files(log)]))

    async def replace(portion: Sequence[Log]) -> None:
        changed.extend(
            await disk.run_apart(lambda: [log.directory for log in portion if log.durability.replace_checkpoint()])
        )

    await _in_portions(logs, prepare)
    await _in_portions(unsynced, lambda portion: disk.sync_all(portion, ()))
    await _in_portions(logs, replace)
    await _in_portions(changed, lambda portion: disk.sync_all((), portion))
    for log in logs:
        log.durability.recovery_point = max(log.durability.recovery_point, log.log_end_offset)
        log.close()


def _complete_files(log: Log) -> list[str]:
    """Complete the log's files in the page cache; returns the paths of those that are not durable. Raises OSError."""
    log.commit()
    log.segments.active.seal()
    log.producers.take_snapshot(log.log_end_offset)
    return log.durability.unsynced_paths(log.log_end_offset)


async def _in_portions(items: Sequence[T], task: Callable[[Sequence[T]], Awaitable[None]]) -> None:
    """Await `task` for each portion of the items, several portions at the same time."""
    portions = [items[first : first + _PORTION] for first in range(0, len(items), _PORTION)]

    async def work() -> None:
        while portions:
            await task(portions.pop())

    async with trio.open_nursery() as nursery:
        for _ in range(min(_THREADS, len(portions))):
            nursery.start_soon(work)
