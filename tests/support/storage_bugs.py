"""Bugs to plant into storage; see `planted_bugs`."""

from typing import Any

import trio

from broker.replication.log_flusher import LogFlusher
from broker.replication.partition import Partition
from broker.storage import producer_replay, segment
from broker.storage.checkpoints import OffsetCheckpoint
from broker.storage.log import Log
from broker.storage.log_dir import LogDir
from broker.storage.producer_state import ProducerStates
from broker.storage.recovery import Recovery
from tests.support.planted_bugs import Bug, PatchedFunction, does_nothing


def _commit_two_or_more(commit: Any) -> Any:
    def wrong(log: Log) -> None:
        if len(log._staged) != 1:
            commit(log)

    return wrong


def _acknowledge_unflushed(flush: Any) -> Any:
    async def wrong(flusher: LogFlusher, partition: Partition) -> None:
        await trio.lowlevel.checkpoint()
        if partition.log is not None:
            partition.role.flushed(partition.log.readable_end_offset)

    return wrong


def _accept_any_gap(may_be_apart: Any) -> Any:
    return lambda recovery, before, segment: not recovery.allows_gaps or may_be_apart(recovery, before, segment)


def _write_without_exclusion(write: Any) -> Any:
    async def wrong(checkpoint: OffsetCheckpoint, offsets: Any) -> None:
        checkpoint._writing = trio.Lock()  # a lock that no other writer holds
        await write(checkpoint, offsets)

    return wrong


STORAGE_BUGS: dict[str, Bug] = {
    "a single batch is acknowledged and not written": PatchedFunction(Log, "commit", _commit_two_or_more),
    "flush.messages is acknowledged without a flush": PatchedFunction(LogFlusher, "_flush", _acknowledge_unflushed),
    "a recovered segment is not written again": PatchedFunction(segment, "write_again", does_nothing),
    "recovery keeps segments after a gap": PatchedFunction(Recovery, "_may_be_apart", _accept_any_gap),
    "a new log directory is not made durable": PatchedFunction(LogDir, "_sync_parents", does_nothing),
    "recovery forgets producers": PatchedFunction(producer_replay, "replay", does_nothing),
    "sequence numbers are not checked": PatchedFunction(ProducerStates, "check", does_nothing),
    "checkpoints are written concurrently": PatchedFunction(OffsetCheckpoint, "write", _write_without_exclusion),
}
