"""The copy of a log in another directory has the same records, whatever happens to the log meanwhile."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.replication.log_copy import PIECE_BYTES, LogCopy, common_end_offset
from broker.replication.partition import Partition
from broker.replication.partition_context import PartitionContext, PartitionTasks
from broker.replication.throttles import UNLIMITED, Throttle
from broker.storage.future_logs import FutureLogs
from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.storage.log_dir import LogDir
from broker.storage.log_manager import LogManager
from broker.wire.errors import ErrorCode, KafkaError
from tests.support.bad_sectors import BadDisk
from tests.support.logs import append, no_trace
from tests.support.storage_node import ORDERS, FragileDisk, Node

T = TypeVar("T")

KEY = ("orders", 0)
SMALL_SEGMENTS = LogConfig(segment_bytes=400)


class Copying:
    """A log in one directory of a node, and its copy in the other one."""

    def __init__(self, node: Node, log_manager: LogManager, config: LogConfig) -> None:
        self.node, self.log_manager = node, log_manager
        self.futures = FutureLogs(node.env, log_manager)
        self.log = log_manager.create("orders", ORDERS, 0, config)
        self.checked: list[int] = []
        self.quota: float = UNLIMITED
        self.now_ms = 0.0
        self.partition = Partition("orders", ORDERS, 0, self.log, _context(), self._tasks())
        self.future: Log | None = None
        self.copy = self.begin()

    def _tasks(self) -> PartitionTasks[Partition]:
        return PartitionTasks(
            propose_isr=lambda partition: None,
            flush=lambda partition: None,
            check_log=lambda partition, offset: self.checked.append(offset),
            check_old=lambda partition, offset: None,
        )

    @property
    def directory(self) -> LogDir:
        return self.log_manager.directories[str(self.node.b)]

    def begin(self) -> LogCopy:
        """Begin to copy, or go on with the copy that is there."""
        found = self.futures.find(KEY)
        self.future = self.futures.create(KEY, self.directory) if found is None else found[1].log
        assert self.future is not None
        throttle = Throttle(11, 1_000, quota=lambda: self.quota, now_ms=lambda: self.now_ms)
        return LogCopy(self.node.env, self.partition, self.log, self.future, self.directory, throttle)

    def begin_again(self) -> LogCopy:
        """Begin with an empty copy."""
        self.futures.remove(KEY)
        return self.begin()

    async def catch_up(self) -> None:
        while await self.copy.advance():
            pass

    def check_same(self) -> None:
        """The copy is complete, and what a reader sees in it is the same."""
        assert self.copy.finish()
        copy = self.copy.future
        assert (copy.log_start_offset, copy.log_end_offset) == (self.log.log_start_offset, self.log.log_end_offset)
        assert _content(copy) == _content(self.log)
        assert copy.epochs.entries == self.log.epochs.entries


def _context() -> PartitionContext:
    return PartitionContext(
        local_id=1, lag_max_ms=1_000, now_ms=lambda: 0, broker=lambda broker_id: None, trace=no_trace
    )


def _content(log: Log) -> bytes:
    """The batches from the log's start on."""
    content, offset = b"", log.log_start_offset
    while offset < log.readable_end_offset:
        part = log.read(offset, 1 << 20, upper_bound=log.readable_end_offset, min_one_batch=True)
        content += part.file.read(part.position, part.size)
        following = next((each.base_offset for each in log.segments if each.base_offset > offset), None)
        offset = log.readable_end_offset if following is None else following
    return content


class DiskWithoutThreads(FragileDisk):
    """Reads at once: virtual time passes while a thread works, the more of it the busier the machine is."""

    async def run_apart(self, work: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint()
        return work()


async def copying(path: Path, config: LogConfig = SMALL_SEGMENTS, disk: FragileDisk | None = None) -> Copying:
    node = Node(path, disk)
    return Copying(node, await node.start(config=config), config)


async def test_copy_follows_appends_and_deletions(tmp_path: Path) -> None:
    it = await copying(tmp_path)
    for number in range(20):
        append(it.log, b"value" * number, leader_epoch=number // 7)
    await it.catch_up()
    append(it.log, b"more", leader_epoch=3)
    it.log.advance_log_start_offset(11)
    assert it.copy.finish()
    await it.catch_up()
    it.check_same()
    assert it.copy.future.segments.first_offset > 0


async def test_copy_drops_records_that_the_follower_had_to_truncate_kip_101(tmp_path: Path) -> None:
    it = await copying(tmp_path)
    for number in range(6):
        append(it.log, b"old leader's", leader_epoch=number // 3)
    await it.catch_up()
    it.log.truncate_to(4)
    await it.log.durability.settle()
    for _ in range(4):
        append(it.log, b"new leader's", leader_epoch=2)
    assert not it.copy.finish()
    await it.catch_up()
    it.check_same()


async def test_copy_begins_again_if_all_its_records_were_deleted(tmp_path: Path) -> None:
    it = await copying(tmp_path)
    append(it.log, b"one", b"two")
    await it.catch_up()
    it.log.truncate_fully_and_start_at(100)
    await it.log.durability.settle()
    append(it.log, b"hundred", leader_epoch=5)
    await it.catch_up()
    it.check_same()
    assert it.copy.future.log_start_offset == 100


async def test_copy_is_not_complete_before_it_is_as_durable(tmp_path: Path) -> None:
    """Otherwise a power cut would lose records for which flush.messages was awaited."""
    it = await copying(tmp_path, LogConfig())
    append(it.log, b"value")
    await it.catch_up()
    await it.log.flush()
    assert not it.copy.finish()
    await it.copy.future.flush()
    it.check_same()


async def test_copy_is_not_complete_while_the_log_is_being_cleaned(tmp_path: Path) -> None:
    """The files of the cleaner would replace those of a log that is no longer in use."""
    it = await copying(tmp_path, LogConfig())
    append(it.log, b"value")
    await it.catch_up()
    it.log.segments.is_being_cleaned = True
    assert not it.copy.finish()
    it.log.segments.is_being_cleaned = False
    it.check_same()


async def test_durable_copy_has_its_offsets_in_the_checkpoints_of_its_directory(tmp_path: Path) -> None:
    """Otherwise a restart would recover the whole log, show deleted records, and compact all of it again."""
    it = await copying(tmp_path, LogConfig(cleanup_policy=("compact",)))
    for value in (b"one", b"two", b"three"):
        append(it.log, value, key=b"key")
    it.log.cleaned_offset = 2
    it.copy = it.begin_again()
    await it.catch_up()
    it.log.advance_log_start_offset(1)
    await it.catch_up()
    await it.copy.make_durable()
    checkpoints = it.directory.recovery_points, it.directory.log_start_offsets, it.directory.cleaned_offsets
    assert [each.read() for each in checkpoints] == [{KEY: 3}, {KEY: 1}, {KEY: 2}]


async def test_copy_of_a_compacted_log_has_its_gaps(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=400, cleanup_policy=("compact",))
    it = await copying(tmp_path, config)
    append(it.log, b"one", key=b"key")
    it.log.log_end_offset = it.log.readable_end_offset = 50  # as after a compaction
    append(it.log, b"two", key=b"key")
    it.log.cleaned_offset = 50
    await it.catch_up()
    it.check_same()


async def test_damage_of_the_log_is_reported_and_not_copied(tmp_path: Path) -> None:
    it = await copying(tmp_path, LogConfig())
    append(it.log, b"first")
    size = it.log.size_bytes
    append(it.log, b"second")
    it.log.segments.active.file.write(size + 70, [b"\xff\xff"])
    with pytest.raises(Exception, match="corrupt"):
        await it.catch_up()
    assert it.checked == [it.copy.future.log_end_offset]


@pytest.mark.parametrize(("byte", "bit"), [(8, 0x80), (8, 0x40), (9, 0x40), (10, 0x40), (11, 0x40)])
async def test_damaged_length_of_a_batch_is_reported_and_not_read_forever(tmp_path: Path, byte: int, bit: int) -> None:
    """A batch that ends after its file was taken for one that a read had cut off."""
    it = await copying(tmp_path, LogConfig())
    append(it.log, b"first")
    size = it.log.size_bytes
    append(it.log, b"second")
    file = it.log.segments.active.file
    (length,) = file.read(size + byte, 1)
    file.write(size + byte, [bytes([length ^ bit])])
    with trio.fail_after(10), pytest.raises(KafkaError) as found:
        await it.catch_up()
    assert found.value.code == ErrorCode.CORRUPT_MESSAGE
    assert it.checked == [it.copy.future.log_end_offset]


async def test_failed_read_of_the_last_piece_is_a_failure_of_the_current_log(tmp_path: Path) -> None:
    """As an OSError, it would take the directory of the copy offline."""
    disk = BadDisk()
    node = Node(tmp_path)
    node.env = attrs.evolve(node.env, disk=disk)
    it = Copying(node, await node.start(), LogConfig())
    append(it.log, b"first")
    await it.catch_up()
    append(it.log, b"second")
    disk.bad[it.log.segments.active.file.path] = range(1 << 20)
    with pytest.raises(KafkaError) as found:
        it.copy.finish()
    assert found.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert it.checked == [1]


async def test_quota_bounds_the_bytes_of_a_second(tmp_path: Path, autojump_clock: Any) -> None:
    it = await copying(tmp_path, LogConfig(), DiskWithoutThreads())
    for _ in range(10):
        append(it.log, bytes(1_000))
    it.quota = 2_500
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_pass_time, it)
        await it.catch_up()
        nursery.cancel_scope.cancel()
    assert 2.5 < trio.current_time() - began < 10
    it.check_same()


async def _pass_time(it: Copying) -> None:
    while True:
        it.now_ms = trio.current_time() * 1000
        await trio.sleep(0.01)


def test_a_piece_is_small_enough_for_the_event_loop() -> None:
    assert PIECE_BYTES <= 1 << 20


Step = Callable[[Copying], None]


def _append(epoch_step: int, count: int) -> Step:
    def act(it: Copying) -> None:
        append(it.log, *[b"v" * 30] * count, leader_epoch=max(it.log.epochs.latest_epoch, 0) + epoch_step)

    return act


def _truncate(back: int) -> Step:
    def act(it: Copying) -> None:
        epoch = it.log.epochs.latest_epoch + 1
        it.log.truncate_to(max(it.log.log_end_offset - back, it.log.log_start_offset))
        it.log.durability.mark_settled()
        append(it.log, b"of the next leader", leader_epoch=epoch)

    return act


def _delete(ahead: int) -> Step:
    def act(it: Copying) -> None:
        it.log.advance_log_start_offset(min(it.log.log_start_offset + ahead, it.log.log_end_offset))

    return act


def _resume(it: Copying) -> None:
    it.copy = it.begin()


STEPS = st.lists(
    st.one_of(
        st.builds(_append, st.integers(0, 2), st.integers(1, 4)),
        st.builds(_truncate, st.integers(0, 12)),
        st.builds(_delete, st.integers(0, 12)),
        st.just(_resume),
        st.integers(1, 3),  # pieces that are copied
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_copy_is_the_same_after_any_history_of_the_log(steps: list[Step | int]) -> None:
    async def main(path: Path) -> None:
        it = await copying(path)
        for step in steps:
            if not isinstance(step, int):
                step(it)
                continue
            for _ in range(step):
                await it.copy.advance()
        await it.catch_up()
        await it.copy.future.flush()
        it.check_same()

    with tempfile.TemporaryDirectory() as path:
        trio.run(main, Path(path))


EPOCHS = st.lists(st.integers(0, 2), max_size=20).map(lambda steps: [sum(steps[: at + 1]) for at in range(len(steps))])


@given(epochs=EPOCHS, data=st.data())
def test_common_end_is_where_two_logs_part(epochs: list[int], data: st.DataObject) -> None:
    """The logs are lists of the epoch of each record. After they have parted, no epoch is in both."""
    common = data.draw(st.integers(0, len(epochs)))
    ours = data.draw(st.lists(st.just(100), max_size=5))
    theirs = data.draw(st.lists(st.sampled_from([200]), max_size=5))
    one, other = epochs[:common] + ours, epochs[:common] + theirs
    assert common_end_offset(_entries(one), len(one), _entries(other), len(other)) == common


def _entries(epochs: list[int]) -> list[tuple[int, int]]:
    return [(epoch, at) for at, epoch in enumerate(epochs) if at == 0 or epoch != epochs[at - 1]]


@pytest.mark.parametrize(
    ("epochs", "end", "other_epochs", "other_end", "expected"),
    [
        ([], 0, [], 0, 0),
        ([], 10, [], 7, 7),  # logs of an old format
        ([(0, 0)], 10, [(0, 0)], 7, 7),
        ([(0, 0)], 7, [(0, 0)], 10, 7),
        ([(0, 0), (2, 5)], 9, [(0, 0), (1, 5)], 9, 5),
        ([(0, 0), (2, 5)], 9, [(0, 0), (1, 3)], 9, 3),
        ([(3, 20)], 30, [(0, 0), (1, 3)], 9, 0),  # all is deleted from the front of the one
        ([(3, 20)], 30, [(2, 0), (3, 10)], 25, 25),
    ],
)
def test_common_end_of_logs_with_these_leader_epochs(
    epochs: list[tuple[int, int]], end: int, other_epochs: list[tuple[int, int]], other_end: int, expected: int
) -> None:
    assert common_end_offset(epochs, end, other_epochs, other_end) == expected
