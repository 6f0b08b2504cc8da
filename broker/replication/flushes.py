"""Appends that only count once they are on the disk: topics with `flush.messages`."""

from collections.abc import Callable

import trio

from broker.replication.partition import Partition
from kraft.env import FsyncFailed


class Flushes:
    """Flushes the logs that ask for it, before their producers hear of success and consumers see the records.

    Kafka flushes within the append and stalls everybody meanwhile. Here whoever is concerned waits, and the appends
    that arrive during one flush share the next (group commit).
    """

    def __init__(self, now_ms: Callable[[], int], on_failure: Callable[[Partition, OSError], None]) -> None:
        self._now_ms = now_ms
        self._on_failure = on_failure
        self._waiting: dict[Partition, None] = {}
        self._work = trio.Event()

    def add(self, partition: Partition) -> None:
        """Make what its log has as durable as its config asks for, and tell the partition then."""
        self._waiting[partition] = None
        self._work.set()

    async def run(self) -> None:
        while True:
            await self._work.wait()
            self._work = trio.Event()
            waiting, self._waiting = self._waiting, {}
            async with trio.open_nursery() as nursery:
                for partition in waiting:
                    nursery.start_soon(self._flush, partition)

    async def _flush(self, partition: Partition) -> None:
        log, leader_epoch = partition.log, partition.leader_epoch
        if log is None:
            return
        end_offset = log.readable_end_offset
        try:
            if log.needs_flush(self._now_ms()):
                await log.flush()
        except FsyncFailed:
            raise
        except OSError as error:
            self._on_failure(partition, error)
        else:
            if partition.log is log and partition.leader_epoch == leader_epoch:
                partition.flushed(end_offset)  # otherwise there may be other records by now at these offsets
