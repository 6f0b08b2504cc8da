"""A follower whose log has a damaged batch is truncated where its leader's log ends, and keeps all intact batches."""

from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.storage import truncation
from broker.storage.damage import Damage
from broker.storage.damage_search import log_part, search
from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.storage.log_loader import replay_repaired
from broker.wire.errors import KafkaError
from broker.wire.records import HEADER_SIZE, Record, encode_batch, iter_headers
from broker.wire.records.batch import MAGIC_POSITION
from kraft.env import RealDisk
from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import NOW_MS, append, close_log, listing, open_log, slice_bytes

# Batches that the leader has, too, and those that follow in the follower's log alone.
COMMON, DIVERGING = 12, 4
BASE_OFFSET, LENGTH, LEADER_EPOCH, CRC, LAST_OFFSET_DELTA = 0, 8, 12, 17, 23
LATER_EPOCH = 5


def batch_size(number: int) -> int:
    return 1 + number % 3


ENDS = [sum(map(batch_size, range(count))) for count in range(COMMON + DIVERGING + 1)]


@attrs.frozen
class Replicas:
    """A leader and its follower, whose logs are the same up to `ENDS[COMMON]`."""

    leader: Log
    follower: Log

    @classmethod
    def in_directory(cls, directory: Path, config: LogConfig) -> "Replicas":
        leader, follower = open_log(directory / "leader-0"), open_log(directory / "follower-0", config)
        for log, count in ((leader, COMMON), (follower, COMMON + DIVERGING)):
            for number in range(count):
                values = [b"%d" % number * (1 + number % 4 * 9)] * batch_size(number)
                append(
                    log, *values, leader_epoch=number // 5, producer_id=7, producer_epoch=0, base_sequence=ENDS[number]
                )
        return cls(leader, follower)

    def flip(self, number: int, byte: int, bit: int) -> None:
        """Flip a bit of a batch of the follower."""
        segment, position, _ = self.follower.segments.locate(ENDS[number])
        (before,) = segment.file.read(position + byte, 1)
        segment.file.write(position + byte, [bytes([before ^ 1 << bit])])

    def follow(self) -> None:
        """Settle the follower's log, and fetch what it lacks."""
        trio.run(self.follower.durability.settle)
        for number in range(DIVERGING):
            append(self.leader, b"later-%d" % number, leader_epoch=LATER_EPOCH)
        while self.follower.log_end_offset < self.leader.log_end_offset:
            records = fetched(self.leader, self.follower.log_end_offset)
            self.follower.append_as_follower(memoryview(records), LATER_EPOCH, NOW_MS)


def config(*, is_indexed: bool) -> LogConfig:
    return LogConfig(segment_bytes=700, index_interval_bytes=1 if is_indexed else 1 << 20, retention_ms=-1)


def fetched(log: Log, offset: int) -> bytes:
    return slice_bytes(log.read(offset, 1 << 20, upper_bound=1 << 62, min_one_batch=True))


def without_epochs(batches: bytes) -> bytes:
    """The leader epoch of a batch is covered by no checksum."""
    content = bytearray(batches)
    for position, _ in iter_headers(batches):
        content[position + LEADER_EPOCH : position + LEADER_EPOCH + 4] = bytes(4)
    return bytes(content)


def scrub(log: Log) -> None:
    """Find the damage that no truncation has looked for."""
    for segment in list(log.segments):
        for damage in search(RealDisk(), log_part(log, segment.base_offset, LATER_EPOCH)[1]).damage:
            log.segments.add_damage(damage)


def check_reads(follower: Log, leader: Log, damaged: int) -> None:
    """Each read of the follower returns what the leader has, or is refused. Some read is, unless the batch is gone."""
    expected = without_epochs(fetched(leader, 0))
    refused = []
    for offset in range(leader.log_end_offset):
        try:
            found = without_epochs(fetched(follower, offset))
        except KafkaError:
            refused.append(offset)
        else:
            assert found
            assert found in expected, f"offset {offset}"
    if refused:
        assert ENDS[damaged] in refused
    assert follower.segments.damaged is None or all(
        each.end_offset <= follower.log_end_offset for each in follower.segments.damaged.ranges
    )


def content(log: Log) -> bytes:
    return b"".join(segment.file.read(0, segment.written) for segment in log.segments)


def check_kept(follower: Log, leader: Log, damaged: int) -> None:
    """All batches that the leader has are in the follower's files, but for the damaged one."""
    batches, files = fetched(leader, 0), content(follower)
    for number, (position, header) in enumerate(iter_headers(batches)):
        assert number == damaged or batches[position : position + header.size] in files, f"batch {number}"


@settings(max_examples=60)
@given(
    is_indexed=st.booleans(),
    damaged=st.integers(0, COMMON + DIVERGING - 1),
    byte=st.integers(0, HEADER_SIZE + 5),
    bit=st.integers(0, 7),
    kept=st.integers(0, COMMON),
)
def test_truncation_with_any_flipped_bit_leaves_a_prefix_of_the_leader_or_known_damage(
    is_indexed: bool, damaged: int, byte: int, bit: int, kept: int
) -> None:
    with TemporaryDirectory() as directory:
        replicas = Replicas.in_directory(Path(directory), config(is_indexed=is_indexed))
        leader, follower = replicas.leader, replicas.follower
        leader.truncate_to(ENDS[kept])
        trio.run(leader.durability.settle)
        replicas.flip(damaged, byte, bit)
        assert follower.truncate_to(ENDS[kept])
        assert follower.log_end_offset == ENDS[kept]
        replicas.follow()
        check_kept(follower, leader, damaged)
        scrub(follower)
        check_reads(follower, leader, damaged)


@pytest.mark.parametrize("is_indexed", [True, False])
@pytest.mark.parametrize("byte", [BASE_OFFSET + 6, LENGTH + 2, LENGTH, MAGIC_POSITION, LAST_OFFSET_DELTA])
def test_truncation_after_a_damaged_header_takes_effect_and_is_settled(
    tmp_path: Path, byte: int, is_indexed: bool
) -> None:
    """The damaged batch and the new end are in the last segment."""
    replicas = Replicas.in_directory(tmp_path, LogConfig(index_interval_bytes=100 if is_indexed else 4096))
    follower = replicas.follower
    replicas.flip(COMMON - 2, byte, 1)
    assert follower.truncate_to(ENDS[COMMON])
    assert (follower.log_end_offset, follower.durability.is_unsettled) == (ENDS[COMMON], True)
    if is_indexed:
        scrub(follower)  # the new end was found in the index
    assert follower.segments.damaged is not None
    (damage,) = follower.segments.damaged.ranges
    assert damage.first_offset == ENDS[COMMON - 2]
    replicas.follow()
    assert not follower.durability.blocks_appends
    assert follower.log_end_offset == replicas.leader.log_end_offset
    check_kept(follower, replicas.leader, COMMON - 2)


def test_batches_before_an_unsettled_log_are_kept_when_the_process_ends(tmp_path: Path) -> None:
    """The damaged segment is cut and durable before the log takes appends; a clean start finds the same log."""
    replicas = Replicas.in_directory(tmp_path, LogConfig())
    replicas.flip(3, LENGTH + 2, 1)
    replicas.follower.truncate_to(ENDS[COMMON])
    trio.run(close_log, replicas.follower)
    again = open_log(tmp_path / "follower-0", clean=True, recovery_point=ENDS[COMMON])
    assert again.log_end_offset == ENDS[COMMON]
    assert not again.durability.is_unsettled
    scrub(again)
    assert again.segments.damaged is not None
    assert [each.first_offset for each in again.segments.damaged.ranges] == [ENDS[3]]


def test_damage_that_hides_the_new_end_is_known_up_to_there(tmp_path: Path) -> None:
    """Two damaged batches, without an entry of the index between them and the end: nothing after them is found."""
    replicas = Replicas.in_directory(tmp_path, LogConfig())
    follower = replicas.follower
    for number in (COMMON - 3, COMMON - 1):
        replicas.flip(number, LENGTH + 2, 1)
    follower.truncate_to(ENDS[COMMON])
    assert follower.log_end_offset == ENDS[COMMON]
    assert follower.segments.damaged is not None
    assert follower.segments.damaged.covers(ENDS[COMMON - 1], ENDS[COMMON])
    replicas.follow()
    with pytest.raises(KafkaError, match="damaged"):
        fetched(follower, ENDS[COMMON] - 1)
    assert without_epochs(fetched(follower, ENDS[COMMON])) in without_epochs(fetched(replicas.leader, ENDS[COMMON]))


def test_records_that_look_like_a_batch_are_not_taken_for_one(tmp_path: Path) -> None:
    """A producer may store a whole batch in a record; it does not lead up to the next batches."""
    log = open_log(tmp_path / "t-0")
    append(log, b"a")
    inner = bytearray(fetched(log, 0))
    inner[7] = 2  # a plausible base offset
    append(log, bytes(inner))
    append(log, b"b")
    append(log, b"c")
    segment, position, _ = log.segments.locate(1)
    segment.file.write(position + LENGTH + 2, [b"\x70"])
    log.truncate_to(3)
    assert log.log_end_offset == 3
    assert log.segments[0].size_bytes > position + len(inner) + HEADER_SIZE
    assert log.segments.active.base_offset == 3


def test_an_index_with_a_wrong_last_entry_does_not_stop_a_truncation(tmp_path: Path) -> None:
    replicas = Replicas.in_directory(tmp_path, LogConfig(index_interval_bytes=1))
    follower = replicas.follower
    index = follower.segments.active.loaded_index()
    index.values[COMMON - 2] += 3
    follower.truncate_to(ENDS[COMMON])
    assert follower.log_end_offset == ENDS[COMMON]
    assert follower.segments.damaged is None
    replicas.follow()
    check_reads(follower, replicas.leader, -1)


def test_truncation_shortens_damage_that_is_known(tmp_path: Path) -> None:
    """Records that are appended after the truncation are not damaged."""
    replicas = Replicas.in_directory(tmp_path, LogConfig())
    segments = replicas.follower.segments
    segments.add_damage(Damage(segments.active.path, ENDS[2], ENDS[COMMON + 1], "as found"))
    replicas.follower.truncate_to(ENDS[COMMON])
    assert segments.damaged is not None
    ranges = [(each.first_offset, each.end_offset) for each in segments.damaged.ranges]
    assert ranges == [(ENDS[2], ENDS[COMMON])]


def test_producers_of_damaged_batches_are_loaded_again_once_these_are_repaired(tmp_path: Path) -> None:
    """Snapshots without them would make a later start accept duplicates, and forget open transactions."""
    directory = tmp_path / "t-0"
    log = open_log(directory)
    for number in range(4):
        append(log, b"x", producer_id=number, producer_epoch=0, base_sequence=0, transactional=True)
    append(log, b"diverging")
    segment, position, _ = log.segments.locate(1)
    intact = segment.file.read(position + LENGTH, 4)
    segment.file.write(position + LENGTH, [b"\0\0\1\0"])
    log.truncate_to(4)
    trio.run(log.durability.settle)
    assert log.producers.snapshots.incomplete_from == 1
    assert 0 in log.producers.last_of_producers()
    assert 1 not in log.producers.last_of_producers()
    append(log, b"later")
    log.roll()
    assert listing(directory, ".snapshot") == []
    segment.file.write(position + LENGTH, [intact])
    assert replay_repaired(log)
    assert sorted(log.producers.last_of_producers()) == [0, 1, 2, 3]
    assert log.producers.first_unstable_offset == 0
    log.roll()
    append(log, b"last")
    log.roll()
    assert len(listing(directory, ".snapshot")) == 1
    assert not replay_repaired(log)


def test_record_that_looks_like_many_batches_is_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them continues the one before it, and none of them reaches the end of the segment."""
    count, checked = 300, list[int]()
    hidden = b"".join(encode_batch([Record(value=b"x")], base_offset=5 + at, leader_epoch=0) for at in range(count))
    log = open_log(tmp_path / "t-0", LogConfig(index_interval_bytes=1 << 20))
    for value in (b"first", hidden, b"third", b"fourth"):
        append(log, value)
    segment, position, _ = log.segments.locate(1)
    segment.file.write(position + LENGTH, [bytes([0x7F])])
    check = truncation.check_crc
    monkeypatch.setattr(truncation, "check_crc", lambda data, at, header: (checked.append(at), check(data, at, header)))
    log.truncate_to(3)
    assert log.log_end_offset == 3
    assert count <= len(checked) <= count + 10


async def test_truncation_at_a_damaged_batch_makes_the_segment_before_the_new_one_durable(tmp_path: Path) -> None:
    """The truncation has cut the damaged segment. The next one, where the log goes on, is empty."""
    disk = FaultyDisk()
    log = open_log(tmp_path / "a-0", config(is_indexed=False), disk=disk)
    for number in range(4):
        append(log, b"%d" % number)
    damaged, position, _ = log.segments.locate(1)
    damaged.file.write(position + LENGTH + 2, [b"\x70"])
    log.truncate_to(3)
    assert (len(log.segments), log.segments.active.size_bytes) == (2, 0)
    disk.synced.clear()
    await log.durability.settle()
    assert damaged.path in disk.synced
