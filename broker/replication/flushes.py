"""Appends that may only be answered once they are on the disk: topics with `flush.messages`."""

from collections.abc import Callable, Sequence

import attrs
import trio

from broker.replication.partition import Partition
from kraft.env import FsyncFailed


@attrs.frozen
class _Waiting:
    partitions: Sequence[Partition]
    done: Callable[[bool], None]


class Flushes:
    """Flushes the logs that ask for it before their producers hear of success.

    Kafka flushes within the append and stalls everybody meanwhile. Here the reply waits, and the appends that arrive
    during one flush share the next (group commit).
    """

    def __init__(self, now_ms: Callable[[], int], on_failure: Callable[[Partition, OSError], None]) -> None:
        self._now_ms = now_ms
        self._on_failure = on_failure
        self._waiting: list[_Waiting] = []
        self._work = trio.Event()

    def wait(self, partitions: Sequence[Partition], done: Callable[[bool], None]) -> None:
        """Call `done` once what is being appended to the partitions in this turn is as durable as their configs ask.

        With False where a log has failed meanwhile. `done` is called after the turn has committed.
        """
        self._waiting.append(_Waiting(partitions, done))
        self._work.set()

    async def run(self) -> None:
        while True:
            await self._work.wait()
            self._work = trio.Event()
            waiting, self._waiting = self._waiting, []
            async with trio.open_nursery() as nursery:
                for partition in dict.fromkeys(each for one in waiting for each in one.partitions):
                    nursery.start_soon(self._flush, partition)
            for one in waiting:
                one.done(all(partition.log is not None for partition in one.partitions))

    async def _flush(self, partition: Partition) -> None:
        log = partition.log
        if log is None or not log.needs_flush(self._now_ms()):
            return
        try:
            await log.flush()
        except FsyncFailed:
            raise
        except OSError as error:
            self._on_failure(partition, error)
