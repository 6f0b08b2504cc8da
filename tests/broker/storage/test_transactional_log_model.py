"""A log with transactions compared with a model: what a read_committed consumer sees after random operations."""

import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
from hypothesis import Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from broker.replication.commit_state import CommitState
from broker.storage.log import Log
from broker.wire.errors import KafkaError
from broker.wire.records import iter_headers
from jepsen.testing.unsynced_disk import UnsyncedDisk
from tests.support.compacted_logs import clean, compacted_log, log_to_clean, put
from tests.support.logs import DAY_MS, NOW_MS, close_log
from tests.support.transaction_bugs import TRANSACTION_BUGS
from tests.support.transactional_logs import CommittedReader, append_marker, append_transactional

PRODUCERS = st.integers(0, 2)
KEYS = st.integers(0, 4)


@attrs.define
class Written:
    """A record, or a marker without key. `marker` is the offset of the marker that ended the record's transaction."""

    offset: int
    key: bytes | None
    value: bytes
    producer_id: int = -1
    marker: int | None = None
    is_committed: bool = True

    @property
    def is_stable(self) -> bool:
        return self.producer_id < 0 or self.marker is not None


def batch_ends(log: Log) -> list[int]:
    """The offsets at which the batches of a log end."""
    return [
        header.last_offset + 1
        for segment in log.segments
        for _, header in iter_headers(segment.file.read(0, segment.written))
    ]


class TransactionalLogMachine(RuleBasedStateMachine):
    """The model is the list of all batches, each with the fate of its records."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.disk = UnsyncedDisk()
        self.log: Log = compacted_log(self.root / "t-0", disk=self.disk)
        self.commit_state = CommitState(self.log, 0)
        self.written: list[Written] = []
        self.epochs = [0, 0, 0]
        self.now_ms = NOW_MS
        self.knows_markers_from = 0  # after a restart, earlier markers count as replicated

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    def open_records(self, producer_id: int) -> list[Written]:
        return [each for each in self.written if each.producer_id == producer_id and each.marker is None and each.key]

    @rule(key=KEYS)
    def write_plain(self, key: int) -> None:
        value = b"%d" % len(self.written)
        offset = put(self.log, (b"%d" % key, value), now_ms=self.now_ms)
        self.written.append(Written(offset, b"%d" % key, value))

    @rule(producer_id=PRODUCERS, keys=st.lists(KEYS, min_size=1, max_size=3))
    def write(self, producer_id: int, keys: list[int]) -> None:
        values = [(b"%d" % key, b"%d" % (len(self.written) + at)) for at, key in enumerate(keys)]
        epoch = self.epochs[producer_id]
        first = append_transactional(self.log, producer_id, *values, epoch=epoch, now_ms=self.now_ms)
        self.written += [Written(first + at, key, value, producer_id) for at, (key, value) in enumerate(values)]

    @rule(writes=st.lists(st.tuples(PRODUCERS, KEYS), min_size=1, max_size=5), fates=st.integers(0, 7))
    def interleave(self, writes: list[tuple[int, int]], fates: int) -> None:
        """Append interleaved transactions, which all end."""
        for producer_id, key in writes:
            self.write(producer_id, [key])
        for producer_id in {producer_id: None for producer_id, _ in writes}:
            self.end(producer_id, is_commit=bool(fates & (1 << producer_id)), raises_epoch=bool(fates & 1))
        self.replicate_all()

    @precondition(lambda self: any(each.key and each.marker is None for each in self.written))
    @rule(producer_id=PRODUCERS, is_commit=st.booleans(), raises_epoch=st.booleans())
    def end(self, producer_id: int, is_commit: bool, raises_epoch: bool) -> None:
        self.epochs[producer_id] += raises_epoch
        offset = append_marker(
            self.log,
            producer_id,
            is_commit=is_commit,
            epoch=self.epochs[producer_id],
            transaction_version=2 if raises_epoch else 0,
            now_ms=self.now_ms,
        )
        for record in self.open_records(producer_id):
            record.marker, record.is_committed = offset, is_commit
        self.written.append(Written(offset, None, b"", producer_id, offset))

    @rule(producer_id=PRODUCERS)
    def end_with_a_marker_of_the_same_epoch(self, producer_id: int) -> None:
        """Under transaction.version 2, such a marker belongs to an earlier transaction."""
        if self.open_records(producer_id):
            try:
                append_marker(
                    self.log, producer_id, is_commit=True, epoch=self.epochs[producer_id], transaction_version=2
                )
            except KafkaError:
                return
            raise AssertionError("the late marker has ended a transaction")

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(data=st.data())
    def replicate(self, data: st.DataObject) -> None:
        """Followers have whole batches, and so has a read up to the high watermark."""
        high_watermark = self.commit_state.high_watermark
        ends = [end for end in batch_ends(self.log) if end > high_watermark]
        self.advance(data.draw(st.sampled_from([high_watermark, *ends])))

    @rule()
    def replicate_all(self) -> None:
        self.advance(self.log.log_end_offset)

    def advance(self, high_watermark: int) -> None:
        self.commit_state.move(self.log, high_watermark)

    @rule(count=st.integers(0, 3))
    def delete_records(self, count: int) -> None:
        start, end = self.log.log_start_offset, self.commit_state.high_watermark
        self.log.advance_log_start_offset(min(end, start + count))

    @rule(days=st.integers(0, 1), keys_max=st.sampled_from([2, 100]))
    def clean(self, days: int, keys_max: int) -> None:
        self.now_ms += days * (DAY_MS + 1)
        high_watermark = self.commit_state.high_watermark

        if not log_to_clean(self.log, high_watermark=high_watermark, now_ms=self.now_ms).dirty_bytes:
            return

        async def main() -> None:
            await clean(self.log, high_watermark=high_watermark, now_ms=self.now_ms, keys_max=keys_max, disk=self.disk)

        trio.run(main)
        self.log.take_discarded()

    @rule(count=st.integers(0, 8))
    def truncate(self, count: int) -> None:
        low = max(self.commit_state.high_watermark, self.log.log_start_offset, self.knows_markers_from)
        self.log.truncate_to(max(low, self.log.log_end_offset - count))
        trio.run(self.log.durability.settle)
        self.reloaded()

    @rule()
    def close_and_reopen(self) -> None:
        trio.run(close_log, self.log)
        self.reopen(is_clean=True)

    @rule()
    def crash_and_reopen(self) -> None:
        self.reopen(is_clean=False)

    def reopen(self, *, is_clean: bool) -> None:
        self.log = compacted_log(
            self.root / "t-0",
            disk=self.disk,
            clean=is_clean,
            recovery_point=self.log.durability.recovery_point,
            log_start_offset=self.log.log_start_offset,
            cleaned_offset=self.log.cleaned_offset,
            now_ms=self.now_ms,
        )
        self.log.take_discarded()
        self.commit_state = CommitState(self.log, self.commit_state.high_watermark)
        self.knows_markers_from = self.log.log_end_offset
        self.reloaded()

    def reloaded(self) -> None:
        end = self.log.log_end_offset
        self.advance(min(self.commit_state.high_watermark, end))
        self.written = [each for each in self.written if each.offset < end]
        for record in self.written:
            if record.marker is not None and record.marker >= end:
                record.marker = None
                record.is_committed = True
        for producer_id in range(3):  # a truncation may have removed the batches of an epoch
            state = self.log.producers.get(producer_id)
            self.epochs[producer_id] = 0 if state is None else max(state.epoch, 0)

    @invariant()
    def last_stable_offset_is_before_open_transactions(self) -> None:
        if not hasattr(self, "log"):
            return
        high_watermark, start = self.commit_state.high_watermark, self.log.log_start_offset
        stable = self.commit_state.last_stable_offset(self.log)
        firsts = [each.offset for each in self.written if not each.is_stable]
        assert stable <= max(min([high_watermark, *firsts]), start)
        unreplicated = [
            each.offset
            for each in self.written
            if each.marker is not None
            and each.marker >= max(high_watermark, self.knows_markers_from)
            and each.offset >= start
        ]
        assert stable <= max(min([high_watermark, *unreplicated]), start)
        if all(each.is_stable for each in self.written) and high_watermark == self.log.log_end_offset:
            assert stable == high_watermark

    @invariant()
    def committed_records_are_read(self) -> None:
        if not hasattr(self, "log"):
            return
        start, stable = self.log.log_start_offset, self.commit_state.last_stable_offset(self.log)
        due = [
            each
            for each in self.written
            if each.is_committed and each.key is not None and start <= each.offset < stable
        ]
        expected = {each.offset: each.value for each in due}
        latest = {each.key: each.value for each in due}
        for max_bytes in (1, 300, 1 << 20):
            found = CommittedReader(self.log, start, max_bytes=max_bytes).read_to(stable)
            assert {each.offset: each.value for each in found}.items() <= expected.items()
            assert {each.key: each.value for each in found} == latest
            if self.log.cleaned_offset <= start:
                assert len(found) == len(expected)


TransactionalLogMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, phases=[Phase.generate])
test_transactional_log_against_a_list = TransactionalLogMachine.TestCase


def test_crash_keeps_a_transaction_whose_records_are_deleted() -> None:
    """The producers of deleted records are replayed, too, while the segment is there."""

    def steps(machine: TransactionalLogMachine) -> None:
        machine.write(0, [1])
        machine.replicate_all()
        machine.delete_records(1)
        machine.crash_and_reopen()
        assert machine.log.producers.has_open_transaction(0, 0)
        machine.end_with_a_marker_of_the_same_epoch(0)
        machine.last_stable_offset_is_before_open_transactions()
        machine.write(0, [1])
        machine.end_with_a_marker_of_the_same_epoch(0)

    play(steps)


def test_clean_restart_keeps_a_transaction_whose_records_are_deleted() -> None:
    """A snapshot of the producers has it."""

    def steps(machine: TransactionalLogMachine) -> None:
        machine.write(0, [1])
        machine.write_plain(1)
        machine.replicate_all()
        machine.delete_records(1)
        machine.close_and_reopen()
        assert machine.log.producers.has_open_transaction(0, 0)
        machine.end_with_a_marker_of_the_same_epoch(0)

    play(steps)


def end_a_transaction_again_after_its_marker_was_truncated(machine: TransactionalLogMachine) -> None:
    machine.write(0, [1])
    machine.end(0, is_commit=False, raises_epoch=False)
    machine.truncate(1)
    machine.end(0, is_commit=True, raises_epoch=False)
    machine.replicate_all()
    machine.committed_records_are_read()


def replicate_all_but_the_marker(machine: TransactionalLogMachine) -> None:
    machine.write(0, [1])
    machine.end(0, is_commit=True, raises_epoch=False)
    machine.advance(1)
    machine.last_stable_offset_is_before_open_transactions()


# Bugs that a random search finds late, with steps that show them, and seeds with which it finds others early.
STEPS: dict[str, Callable[[TransactionalLogMachine], None]] = {
    "a truncation leaves the transaction index": end_a_transaction_again_after_its_marker_was_truncated,
    "markers are stable before they are replicated": replicate_all_but_the_marker,
}
HUNT_SEEDS = {"markers of old epochs are accepted": 1}


@pytest.mark.parametrize("bug", TRANSACTION_BUGS)
def test_planted_bug_is_found(bug: str) -> None:
    search = partial(play, STEPS[bug]) if bug in STEPS else partial(hunt, HUNT_SEEDS.get(bug, 0))
    with TRANSACTION_BUGS[bug].planted(), pytest.raises((AssertionError, KafkaError)):
        search()


@pytest.mark.parametrize("steps", STEPS.values())
def test_steps_that_show_a_planted_bug_are_right_without_it(steps: Callable[[TransactionalLogMachine], None]) -> None:
    play(steps)


def play(steps: Callable[[TransactionalLogMachine], None]) -> None:
    machine = TransactionalLogMachine()
    machine.begin()
    steps(machine)
    machine.teardown()


def hunt(seed_number: int) -> None:
    hunted = settings(
        max_examples=60,
        stateful_step_count=40,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        print_blob=False,
    )

    @seed(seed_number)
    class Hunter(TransactionalLogMachine):
        pass

    run_state_machine_as_test(Hunter, settings=hunted)  # type: ignore[no-untyped-call]
