"""A log compared with a list: random operations leave the same records in both."""

import shutil
import tempfile
from pathlib import Path

import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.storage.retention import delete_old_segments
from tests.support.logs import NOW_MS, batch, close_log, find_timestamp, open_log, read_records, slice_bytes

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=150, retention_ms=-1)


class LogMachine(RuleBasedStateMachine):
    """The model is the values by offset, and the offsets at which batches begin."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.log: Log = open_log(self.root / "t-0", CONFIG)
        self.start = 0
        self.first_segment = 0
        self.values: list[bytes] = []
        self.begins: list[int] = []
        self.readable = 0
        self.epochs: list[int] = []
        self.flushed = 0

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @rule(sizes=st.lists(st.integers(0, 60), min_size=1, max_size=4), newer_epoch=st.booleans())
    def append(self, sizes: list[int], newer_epoch: bool) -> None:
        epoch = (self.epochs[-1] if self.epochs else 0) + newer_epoch
        values = [b"%d-" % (len(self.values) + index) + b"x" * size for index, size in enumerate(sizes)]
        info = self.log.append(batch(*values, timestamp=NOW_MS + len(self.values)), leader_epoch=epoch, now_ms=NOW_MS)
        assert (info.first_offset, info.last_offset) == (len(self.values), len(self.values) + len(values) - 1)
        self.begins.append(info.first_offset)
        self.values += values
        self.epochs += [epoch] * len(values)
        self.readable = max(self.readable, self.log.readable_end_offset)  # a roll commits

    @rule()
    def commit(self) -> None:
        self.log.commit()
        self.readable = len(self.values)

    @rule()
    def roll(self) -> None:
        self.log.roll()
        self.readable = len(self.values)

    @precondition(lambda self: self.readable)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, len(self.values)))
        self.log.truncate_to(offset)
        trio.run(self.log.durability.settle)
        if offset < len(self.values):
            offset = max(begin for begin in self.begins if begin <= offset)
        self.values, self.epochs = self.values[:offset], self.epochs[:offset]
        self.begins = [begin for begin in self.begins if begin < offset]
        self.readable = offset
        self.start = min(self.start, offset)
        self.flushed = min(self.flushed, offset)

    @precondition(lambda self: self.readable > self.start)
    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.start = data.draw(st.integers(self.start, self.readable))
        self.log.advance_log_start_offset(self.start)
        delete_old_segments(self.log, NOW_MS, self.readable)
        self.begins = [begin for begin in self.begins if begin >= self.log.segments[0].base_offset]

    @rule()
    def flush(self) -> None:
        trio.run(self.log.flush)
        self.flushed = max(self.flushed, self.readable)
        assert self.log.durability.recovery_point == self.flushed

    @rule()
    def close_and_reopen(self) -> None:
        trio.run(close_log, self.log)
        self.flushed = self.readable = len(self.values)
        self._reopen(clean=True)

    @rule()
    def crash_and_reopen(self) -> None:
        """The process dies: committed batches are in the page cache, staged ones are lost."""
        self.values, self.epochs = self.values[: self.readable], self.epochs[: self.readable]
        self.begins = [begin for begin in self.begins if begin < self.readable]
        self._reopen(clean=False)

    def _reopen(self, *, clean: bool) -> None:
        self.log = open_log(
            self.root / "t-0", CONFIG, clean=clean, recovery_point=self.flushed, log_start_offset=self.start
        )
        self.flushed = self.log.durability.recovery_point
        trio.run(self.log.durability.settle)

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, len(self.values)))
        bound = data.draw(st.integers(self.start, len(self.values) + 5))
        max_bytes = data.draw(st.integers(0, 2000))
        piece = self.log.read(offset, max_bytes, upper_bound=bound, min_one_batch=False)
        assert piece.size <= max_bytes
        assert len(slice_bytes(piece)) == piece.size
        records = read_records(self.log, offset, upper_bound=bound, max_bytes=max_bytes)
        # A batch that contains the bound is not returned.
        limit = max(min(bound, self.readable), self.start)
        end = max(begin for begin in [*self.begins, self.readable, self.start] if begin <= limit)
        assert bool(records) == (offset < end)
        assert [record.value for record in records] == self.values[offset : offset + len(records)]
        if records:
            assert records[-1].offset < end

    @rule(data=st.data())
    def find_by_time(self, data: st.DataObject) -> None:
        asked = data.draw(st.integers(0, len(self.values) + 1))
        found = find_timestamp(self.log, NOW_MS + asked)
        first = next(
            (
                offset
                for offset in range(self.start, self.readable)
                if max(begin for begin in self.begins if begin <= offset) >= asked
            ),
            None,
        )
        assert (found.offset if found else None) == first

    @invariant()
    def ends_agree(self) -> None:
        if hasattr(self, "log"):
            assert self.log.log_start_offset == self.start
            assert self.log.log_end_offset == len(self.values)
            assert self.log.readable_end_offset == self.readable

    @invariant()
    def epochs_agree(self) -> None:
        if hasattr(self, "log"):
            for offset in range(self.start, len(self.values)):
                assert self.log.epochs.epoch_for_offset(offset) == self.epochs[offset]


LogMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
test_log_against_a_list = LogMachine.TestCase
