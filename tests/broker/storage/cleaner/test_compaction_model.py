"""A compacted log compared with a model: random operations never change the last value of a key."""

import shutil
import tempfile
from pathlib import Path

import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.storage.log import Log
from broker.wire.records import Compression, Record
from jepsen.testing.unsynced_disk import UnsyncedDisk
from tests.support.compacted_logs import clean, compacted_log, latest, put, without_repeats
from tests.support.logs import DAY_MS, NOW_MS, close_log, read_all, read_on

KEYS = st.integers(0, 9)


class ConsumingPacer:
    """A consumer reads a piece of the log whenever the compaction pauses."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.offset = log.log_start_offset
        self.records: list[Record] = []

    def add_work(self, io_bytes: int, records: int) -> bool:
        return True

    async def pause(self) -> None:
        self.read()

    def read(self) -> None:
        found, self.offset = read_on(self.log, self.offset, max_bytes=1)
        self.records += found

    def read_to(self, end: int) -> None:
        while self.offset < end:
            before = self.offset
            self.read()
            assert self.offset > before, f"nothing to read at {before} below {end}"


class CompactedLogMachine(RuleBasedStateMachine):
    """The model is the list of all records that were written, by offset."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.disk = UnsyncedDisk()
        self.log: Log = compacted_log(self.root / "t-0", disk=self.disk)
        self.written: list[Record] = []
        self.high_watermark = 0
        self.now_ms = NOW_MS
        self.flushed = 0

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @rule(
        keys=st.lists(KEYS, min_size=1, max_size=6),
        is_tombstone=st.booleans(),
        compression=st.sampled_from([Compression.NONE, Compression.LZ4]),
        producer=st.sampled_from([-1, 5, 6]),
    )
    def write(self, keys: list[int], is_tombstone: bool, compression: Compression, producer: int) -> None:
        first = len(self.written)
        pairs: list[tuple[bytes, bytes | None]] = [
            (b"%d" % key, None if is_tombstone and at == 0 else b"%d-" % (first + at) + b"x" * 20)
            for at, key in enumerate(keys)
        ]
        sequence = {}
        if producer >= 0:
            state = self.log.producers.get(producer)
            sequence = {
                "producer_id": producer,
                "producer_epoch": 0,
                "base_sequence": 0 if state is None else state.next_sequence,
            }
        assert put(self.log, *pairs, now_ms=self.now_ms, compression=compression, **sequence) == first
        self.written += [Record(first + at, self.now_ms, key, value) for at, (key, value) in enumerate(pairs)]

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(hours=st.integers(1, 30))
    def wait(self, hours: int) -> None:
        self.now_ms += hours * 3_600_000

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        self.high_watermark = data.draw(st.integers(self.high_watermark, len(self.written)))

    @rule()
    def commit_all(self) -> None:
        self.high_watermark = len(self.written)

    @rule(keys_max=st.sampled_from([1, 3, 100]), buffer_bytes=st.sampled_from([100, 5000]))
    def clean(self, keys_max: int, buffer_bytes: int) -> None:
        consumer = ConsumingPacer(self.log)

        async def main() -> None:
            await clean(
                self.log,
                high_watermark=self.high_watermark,
                now_ms=self.now_ms,
                keys_max=keys_max,
                disk=self.disk,
                pacer=consumer,  # type: ignore[arg-type]
                buffer_bytes=buffer_bytes,
            )

        before = latest(self.written)
        trio.run(main)
        self.flushed = self.log.durability.recovery_point
        self.log.take_discarded()
        consumer.read_to(len(self.written))
        seen = [record.offset for record in consumer.records]
        assert seen == sorted(set(seen))
        assert latest(consumer.records) == before

    @precondition(lambda self: self.high_watermark < len(self.written))
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        self.log.truncate_to(data.draw(st.integers(self.high_watermark, len(self.written))))
        trio.run(self.log.durability.settle)
        end = self.log.log_end_offset
        self.high_watermark = min(self.high_watermark, end)
        del self.written[end:]

    @rule()
    def close_and_reopen(self) -> None:
        trio.run(close_log, self.log)
        self.reopen(clean=True)

    @rule()
    def crash_and_reopen(self) -> None:
        self.reopen(clean=False)

    def reopen(self, *, clean: bool) -> None:
        self.log = compacted_log(
            self.root / "t-0",
            disk=self.disk,
            clean=clean,
            recovery_point=self.log.durability.recovery_point,
            cleaned_offset=self.log.cleaned_offset,
            now_ms=self.now_ms,
        )
        self.log.take_discarded()

    @invariant()
    def the_log_holds_what_it_must(self) -> None:
        if not hasattr(self, "log"):
            return
        found = read_all(self.log)
        assert latest(found) == latest(self.written)
        assert self.log.log_end_offset == len(self.written)
        assert [record.offset for record in found] == sorted({record.offset for record in found})
        assert all(record == self.written[record.offset] for record in found)
        holding = {record.offset for record in found}
        due = self.now_ms - DAY_MS
        for record in without_repeats(self.written, max(self.log.cleaned_offset, 0)):
            is_old_tombstone = record.value is None and record.timestamp <= due
            assert record.offset in holding or is_old_tombstone
        for producer in self.log.producers.active():
            assert producer.last_sequence >= 0


CompactedLogMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=40)
test_compacted_log_against_a_list = CompactedLogMachine.TestCase
