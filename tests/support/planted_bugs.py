"""Bugs planted into the product while a test runs: a function is replaced, or a line of a function."""

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any, TypeAlias

import attrs
import trio

from broker.replication.log_flusher import LogFlusher
from broker.replication.partition import Partition
from broker.storage import producer_replay
from broker.storage.checkpoints import OffsetCheckpoint
from broker.storage.log import Log
from broker.storage.log_dir import LogDir
from broker.storage.producer_state import ProducerStates
from broker.storage.recovery import Recovery
from broker.storage.segment import Segment
from kraft.core import elections, leading, reconfiguration
from kraft.core.log_state import LogState
from kraft.core.voters import ReplicaKey
from kraft.log import durable_log
from kraft.log.durable_log import DurableLog
from kraft.log.quorum_state_file import QuorumStateFile
from kraft.peers import Peers


@attrs.frozen
class PatchedFunction:
    """`owner.function` is replaced by `wrong(right)`, which gets the right function and returns a wrong one.

    The owner of a function that is no method is its module. A property's function is its getter.
    """

    owner: type | ModuleType
    function: str
    wrong: Callable[[Any], Any]

    @contextmanager
    def planted(self) -> Iterator[None]:
        before = inspect.getattr_static(self.owner, self.function)
        wrong = self.wrong(_function(before))
        setattr(self.owner, self.function, property(wrong) if isinstance(before, property) else wrong)
        try:
            yield
        finally:
            setattr(self.owner, self.function, before)


def does_nothing(right: Any) -> Any:
    """A function that does nothing, in place of a synchronous or an asynchronous one."""

    async def wait(*args: Any, **kwargs: Any) -> None:
        await trio.lowlevel.checkpoint()

    return wait if inspect.iscoroutinefunction(right) else lambda *args, **kwargs: None


@attrs.frozen
class PlantedBug:
    """In `owner.function` the text `right`, which must be there once, becomes `wrong`.

    The owner of a function that is no method is its module.
    """

    owner: type | ModuleType
    function: str
    right: str
    wrong: str

    @contextmanager
    def planted(self) -> Iterator[None]:
        before = inspect.getattr_static(self.owner, self.function)
        setattr(self.owner, self.function, self._altered(before))
        try:
            yield
        finally:
            setattr(self.owner, self.function, before)

    def _altered(self, function: Any) -> Any:
        inner = _function(function)
        source = textwrap.dedent(inspect.getsource(inner))
        assert source.count(self.right) == 1, f"{self.function} has changed: {self.right!r} is not there once"
        made: dict[str, Any] = {}
        exec(source.replace(self.right, self.wrong), inner.__globals__, made)
        return made[self.function]


class PlantedBugs:
    """Several that only together take a rule out: each alone leaves another one that holds."""

    def __init__(self, *bugs: PlantedBug) -> None:
        self._bugs = bugs

    @contextmanager
    def planted(self) -> Iterator[None]:
        with ExitStack() as stack:
            for bug in self._bugs:
                stack.enter_context(bug.planted())
            yield


Bug: TypeAlias = PatchedFunction | PlantedBug | PlantedBugs


def _function(attribute: Any) -> Any:
    """What is written down in a class or module under a name."""
    if isinstance(attribute, classmethod):
        return attribute.__func__
    return attribute.fget if isinstance(attribute, property) else attribute


# Of the quorum's rules, and of what they rest on.
QUORUM_BUGS: dict[str, PlantedBug] = {
    "the vote is not synced": PlantedBug(QuorumStateFile, "_write", "await self._file.sync()", "pass"),
    "the log is not synced": PlantedBug(DurableLog, "sync", "await self._file.sync()", "pass"),
    "acknowledged before a majority has it": PlantedBug(
        leading, "advance_high_watermark", "reached_by_majority(ends)", "max(ends)"
    ),
    "an old epoch's entry is committed": PlantedBug(leading, "may_commit", "end_offset > leader.start_offset", "True"),
    "the epoch before is not checked": PlantedBug(
        LogState,
        "match",
        "found.epoch == end.epoch and end.offset <= found.offset and ",
        "end.offset <= self.end_offset or ",
    ),
    "what is recovered is not written again": PlantedBug(
        DurableLog, "open", "file.write(0, [memoryview(data)[:size]])", "pass"
    ),
    "checksums are not looked at": PlantedBug(
        durable_log, "decode_frame", " or crc32c.crc32c(data[start:end]) != crc", ""
    ),
    "two changes of voters at once": PlantedBug(
        reconfiguration, "may_change", "return leading", "return True or leading"
    ),
    "pre-votes are not heeded": PlantedBug(
        elections, "_check_votes", "if result is Outcome.WON:\n            start", "if True:\n            start"
    ),
    "votes are given to logs that lack entries": PlantedBug(
        LogState, "no_newer_than", "return (other.epoch", "return True or (other.epoch"
    ),
    "two votes in one epoch": PlantedBug(
        elections, "on_vote", "granted and not request.pre_vote and replica.election.voted_for is None", "False"
    ),
    "only the next epoch is plausible": PlantedBug(
        elections, "enter_higher_epoch", "not is_plausible(epoch, replica.wall_s())", "epoch > replica.epoch + 1"
    ),
    "every epoch is plausible": PlantedBug(
        elections, "enter_higher_epoch", "not is_plausible(epoch, replica.wall_s())", "False"
    ),
    "unknown peers are believed": PlantedBug(Peers, "is_unknown_peer", "return not", "return False and not"),
    "a new disk passes for the old one": PlantedBug(
        ReplicaKey, "matches", "self.node_id == other.node_id and same_directory", "self.node_id == other.node_id"
    ),
}


def _commit_two_or_more(commit: Any) -> Any:
    def wrong(log: Log) -> None:
        if len(log._staged) != 1:
            commit(log)

    return wrong


def _acknowledge_unflushed(flush: Any) -> Any:
    async def wrong(flusher: LogFlusher, partition: Partition) -> None:
        await trio.lowlevel.checkpoint()
        if partition.log is not None:
            partition.flushed(partition.log.readable_end_offset)

    return wrong


def _accept_any_gap(may_be_apart: Any) -> Any:
    return lambda recovery, before, segment: not recovery.allows_gaps or may_be_apart(recovery, before, segment)


def _write_without_exclusion(write: Any) -> Any:
    async def wrong(checkpoint: OffsetCheckpoint, offsets: Any) -> None:
        checkpoint._writing = trio.Lock()  # a lock of its own
        await write(checkpoint, offsets)

    return wrong


# Of storage and of a node alone.
BUGS: dict[str, Bug] = {
    "a single batch is acknowledged and not written": PatchedFunction(Log, "commit", _commit_two_or_more),
    "flush.messages is acknowledged without a flush": PatchedFunction(LogFlusher, "_flush", _acknowledge_unflushed),
    "what a segment recovers is not written again": PatchedFunction(Segment, "_write_again", does_nothing),
    "recovery keeps segments behind a gap": PatchedFunction(Recovery, "_may_be_apart", _accept_any_gap),
    "a new log directory is not made durable": PatchedFunction(LogDir, "_sync_parents", does_nothing),
    "producers are forgotten by recovery": PatchedFunction(producer_replay, "replay", does_nothing),
    "sequence numbers are not checked": PatchedFunction(ProducerStates, "check", does_nothing),
    "checkpoints are written by two at once": PatchedFunction(OffsetCheckpoint, "write", _write_without_exclusion),
}
