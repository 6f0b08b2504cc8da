"""Bugs planted into the product while a test runs: a line of a function is replaced by another."""

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from broker.replication.flushes import Flushes
from broker.storage.checkpoints import OffsetCheckpoint
from broker.storage.log import Log
from broker.storage.log_dir import LogDir
from broker.storage.producer_state import ProducerStates
from broker.storage.recovery import Recovery
from broker.storage.segment import Segment
from kraft.log.durable_log import DurableLog


@attrs.frozen
class PlantedBug:
    """In `owner.function` the text `right`, which must be there once, becomes `wrong`."""

    owner: type
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
        inner = function.__func__ if isinstance(function, classmethod) else function
        source = textwrap.dedent(inspect.getsource(inner))
        assert source.count(self.right) == 1, f"{self.function} has changed: {self.right!r} is not there once"
        made: dict[str, Any] = {}
        exec(source.replace(self.right, self.wrong), inner.__globals__, made)
        return made[self.function]


BUGS: dict[str, PlantedBug] = {
    "the metadata log is not synced": PlantedBug(DurableLog, "sync", "await self._file.sync()", "pass"),
    "what the metadata log recovers is not written again": PlantedBug(
        DurableLog, "open", "file.write(0, [memoryview(data)[:size]])", "pass"
    ),
    "a single batch is acknowledged and not written": PlantedBug(
        Log, "commit", "if not staged:", "if len(staged) < 2:"
    ),
    "flush.messages is acknowledged without a flush": PlantedBug(Flushes, "_flush", "await log.flush()", "pass"),
    "what a segment recovers is not written again": PlantedBug(
        Segment, "finish_recovery", "range(0, self.size_bytes, REWRITE_PIECE)", "range(0)"
    ),
    "recovery keeps segments behind a gap": PlantedBug(
        Recovery, "_recover_from", "and not self.config.compact_enabled", "and False"
    ),
    "a new log directory is not made durable": PlantedBug(LogDir, "format", "await self._sync_parents()", "pass"),
    "producers are forgotten by recovery": PlantedBug(
        Log, "_rebuild_producers", "if offset < self.log_end_offset:", "if False:"
    ),
    "sequence numbers are not checked": PlantedBug(ProducerStates, "check", "if state is None:", "if True:"),
    "checkpoints are written by two at once": PlantedBug(
        OffsetCheckpoint, "write", "async with self._writing:", "if True:"
    ),
}
