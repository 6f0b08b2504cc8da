"""Producer snapshots: Kafka's format, which of them are kept, and the handling of corrupt ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.producer_snapshots import (
    CorruptSnapshot,
    ProducerEntry,
    ProducerSnapshots,
    decode_snapshot,
    encode_snapshot,
    snapshot_name,
    snapshot_offset,
)
from kraft.env import RealDisk

ENTRY = ProducerEntry(
    producer_id=1001,
    epoch=2,
    last_sequence=41,
    last_offset=99,
    offset_delta=9,
    timestamp=1_700_000_000_000,
    coordinator_epoch=-1,
    current_txn_first_offset=-1,
)


class Directory:
    """A partition's directory with snapshots in it, and what was discarded and traced."""

    def __init__(self, path) -> None:
        self.path = path
        self.discarded: list[str] = []
        self.traced: list[str] = []

    def open(self) -> ProducerSnapshots:
        return ProducerSnapshots(
            RealDisk(),
            str(self.path),
            [entry.name for entry in self.path.iterdir()],
            discard=self.discarded.append,
            trace=lambda kind, /, **_: self.traced.append(kind),
        )

    def names(self) -> list[str]:
        return sorted(entry.name for entry in self.path.iterdir())


@pytest.fixture
def directory(tmp_path) -> Directory:
    return Directory(tmp_path)


def test_snapshot_has_the_bytes_that_kafka_4_1_writes():
    assert encode_snapshot([ENTRY]).hex(" ", 4) == bytes.fromhex(
        "0001"  # version
        "d711e2f2"  # CRC-32C of the rest
        "00000001"  # number of producers
        "00000000000003e9"  # id
        "0002"  # epoch
        "00000029"  # last sequence
        "0000000000000063"  # last offset
        "00000009"  # offset delta
        "0000018bcfe56800"  # timestamp
        "ffffffff"  # coordinator epoch
        "ffffffffffffffff"  # first offset of the running transaction
    ).hex(" ", 4)


def test_snapshot_without_producers_has_ten_bytes():
    assert len(encode_snapshot([])) == 10
    assert decode_snapshot(encode_snapshot([])) == []


INT16, INT32, INT64 = (st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (16, 32, 64))
ENTRIES = st.lists(st.builds(ProducerEntry, INT64, INT16, INT32, INT64, INT32, INT64, INT32, INT64), max_size=5)


@given(ENTRIES)
def test_written_snapshot_is_read(entries):
    assert decode_snapshot(encode_snapshot(entries)) == entries


@given(ENTRIES, st.data())
def test_changed_byte_or_torn_tail_is_detected(entries, data):
    content = bytearray(encode_snapshot(entries))
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(bytes(content))
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(encode_snapshot(entries)[:position])


@given(st.binary(max_size=200))
def test_arbitrary_bytes_only_raise_corrupt_snapshot(content):
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(content)


@pytest.mark.parametrize(
    "name", ["00000000000000000042.log", "42.snapshot", "00000000000000000042.snapshot.deleted", "x.snapshot"]
)
def test_other_files_are_not_snapshots(name):
    assert snapshot_offset(name) is None


def test_snapshot_names_have_twenty_digits():
    assert snapshot_name(42) == "00000000000000000042.snapshot"
    assert snapshot_offset(snapshot_name(42)) == 42


def test_newest_snapshot_is_loaded(directory):
    snapshots = directory.open()
    snapshots.write(10, [])
    snapshots.write(20, [ENTRY])
    assert directory.open().load_latest(default_offset=0) == (20, [ENTRY])


def test_corrupt_snapshot_is_deleted_and_an_older_one_used(directory):
    snapshots = directory.open()
    snapshots.write(10, [ENTRY])
    snapshots.write(20, [])
    (directory.path / snapshot_name(20)).write_bytes(b"")
    again = directory.open()
    assert again.load_latest(default_offset=0) == (10, [ENTRY])
    assert again.latest_offset == 10
    assert directory.names() == [snapshot_name(10), snapshot_name(20) + ".deleted"]
    assert directory.discarded == [str(directory.path / (snapshot_name(20) + ".deleted"))]
    assert directory.traced == ["storage_snapshot_corrupt"]


def test_replay_without_a_readable_snapshot_begins_at_the_log_start(directory):
    (directory.path / snapshot_name(20)).write_bytes(b"junk")
    assert directory.open().load_latest(default_offset=7) == (7, [])


def test_rewritten_snapshot_replaces_a_longer_one(directory):
    directory.open().write(10, [ENTRY, ENTRY])
    directory.open().write(10, [ENTRY])
    assert decode_snapshot((directory.path / snapshot_name(10)).read_bytes()) == [ENTRY]


def test_opening_keeps_the_snapshots_of_segments_and_of_the_last_close(directory):
    snapshots = directory.open()
    for offset in (5, 10, 15, 20, 27):
        snapshots.write(offset, [])
    snapshots.retain_for_segments({0, 10, 20})
    assert list(snapshots.offsets) == [10, 20, 27]


def test_opening_drops_a_stray_snapshot_below_the_last_segment(directory):
    snapshots = directory.open()
    for offset in (5, 10, 15):
        snapshots.write(offset, [])
    snapshots.retain_for_segments({0, 10, 20})
    assert list(snapshots.offsets) == [10]


def test_snapshots_outside_the_log_are_dropped(directory):
    snapshots = directory.open()
    for offset in (5, 10, 15, 20):
        snapshots.write(offset, [])
    snapshots.retain_within(5, 15)
    assert list(snapshots.offsets) == [5, 10, 15]


def test_snapshots_are_deleted_with_their_segments(directory):
    snapshots = directory.open()
    for offset in (5, 10, 15):
        snapshots.write(offset, [])
    snapshots.delete_before(10)
    assert list(snapshots.offsets) == [10, 15]


async def test_sync_skips_deleted_snapshots(directory):
    snapshots = directory.open()
    snapshots.write(5, [])
    snapshots.write(10, [])
    snapshots.delete_before(10)
    await snapshots.sync()
    assert list(snapshots.offsets) == [10]
