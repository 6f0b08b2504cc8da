"""Flushes appended records of topics with `flush.messages`, which are acknowledged only when durable."""

from collections.abc import Callable

import trio

from broker.replication.partition import Partition
from kraft.env import FsyncFailed


class LogFlusher:
    """Flushes logs that require it, before their producers are answered and consumers see the records.

    Kafka flushes within the append, on the request handler's thread. Here only the requests for that partition wait,
    and all appends that arrive during one flush share the next one (group commit).
    """

    def __init__(self, now_ms: Callable[[], int], on_failure: Callable[[Partition, OSError], None]) -> None:
        self._now_ms = now_ms
        self._on_failure = on_failure
        self._waiting: dict[Partition, None] = {}
        self._work = trio.Event()

    def add(self, partition: Partition) -> None:
        """Flush the partition's log as soon as possible, then call `PartitionRole.flushed`."""
        self._waiting[partition] = None
        self._work.set()

    async def run(self) -> None:
        """Flush until cancelled. Raises FsyncFailed, in an exception group."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            waiting, self._waiting = self._waiting, {}
            async with trio.open_nursery() as nursery:
                for partition in waiting:
                    nursery.start_soon(self._flush, partition)

    async def _flush(self, partition: Partition) -> None:
        role = partition.role
        log = role.log
        if log is None:
            return
        end_offset = log.readable_end_offset
        try:
            if log.needs_flush(self._now_ms()):
                await log.flush()
        except FsyncFailed:
            raise
        except OSError as error:
            if role.log is log:
                self._on_failure(partition, error)
        else:
            if role.log is not log:
                role.request_flush()  # the log has moved to another directory meanwhile
            elif partition.role is role:
                role.flushed(end_offset)  # otherwise these offsets may hold other records by now
