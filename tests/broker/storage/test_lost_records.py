"""Recovery reports lost records to the operator in one event, with the offsets, the file and the reason."""

import os
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.storage.checkpoints import CorruptCheckpoint, OffsetCheckpoint
from broker.storage.leader_epochs import LeaderEpochCache
from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from kraft.env import RealDisk, RealFile
from tests.support.logs import append, close_log, listing, open_log, values
from tests.support.running_node import Traced

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=100)
LOG = "00000000000000000000.log"
COUNT = 60


class CountingDisk(RealDisk):
    """Counts the files that are open at the same time."""

    def __init__(self) -> None:
        self.open_now = self.most = 0

    def open(self, path: str, *, create: bool = False) -> RealFile:
        self.open_now += 1
        self.most = max(self.most, self.open_now)
        return CountedFile(self, path, os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o644))


class CountedFile(RealFile):
    def __init__(self, disk: CountingDisk, path: str, descriptor: int) -> None:
        super().__init__(path, descriptor)
        self.disk = disk

    def close(self) -> None:
        if self._descriptor >= 0:
            self.disk.open_now -= 1
        super().close()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The directory of a log of sixty records in several segments that was not closed."""
    log = open_log(tmp_path / "t-0", SMALL)
    for number in range(COUNT):
        append(log, b"%02d" % number)
    return tmp_path / "t-0"


def bases(directory: Path) -> list[int]:
    return [int(name.removesuffix(".log")) for name in listing(directory, ".log")]


def recovered(directory: Path, **arguments: Any) -> tuple[Log, Traced]:
    traced = Traced()
    return open_log(directory, SMALL, trace=traced, **arguments), traced


def only_cut(traced: Traced) -> dict[str, Any]:
    (cut,) = traced.of("storage_log_cut")
    assert not traced.of("storage_records_missing")
    return cut


def flip_last_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_flipped_byte_is_reported_with_all_lost_offsets(directory: Path) -> None:
    names, third = listing(directory, ".log"), bases(directory)[2]
    size = sum((directory / name).stat().st_size for name in names[1:])
    flip_last_byte(directory / names[1])
    log, traced = recovered(directory)
    cut = only_cut(traced)
    assert (cut["partition"], cut["path"]) == ("t-0", str(directory / names[1]))
    assert (cut["from_offset"], cut["to_offset"]) == (log.log_end_offset, COUNT) == (third - 1, COUNT)
    assert cut["bytes"] == size - cut["position"]
    assert "Record is corrupt (stored crc = " in cut["reason"]
    assert cut["lost"] == f"the records from offset {third - 1} to {COUNT - 1} ({COUNT - third + 1} at most)"


def test_missing_middle_segment_is_reported(directory: Path) -> None:
    names, starts = listing(directory, ".log"), bases(directory)
    (directory / names[1]).unlink()
    log, traced = recovered(directory)
    cut = only_cut(traced)
    assert (cut["from_offset"], cut["to_offset"], cut["position"]) == (starts[1], COUNT, 0)
    assert cut["path"] == str(directory / names[2])
    assert cut["reason"] == f"the segment begins at offset {starts[2]}, and the one before it ends at {starts[1]}"
    assert log.log_end_offset == starts[1]


def test_torn_last_batch_is_reported_as_a_cut_of_its_records(directory: Path) -> None:
    last = directory / listing(directory, ".log")[-1]
    last.write_bytes(last.read_bytes()[:-1])
    cut = only_cut(recovered(directory)[1])
    assert (cut["from_offset"], cut["to_offset"]) == (COUNT - 1, COUNT)


def test_bytes_without_a_batch_are_reported_as_an_unknown_number_of_records(directory: Path) -> None:
    last = directory / listing(directory, ".log")[-1]
    last.write_bytes(last.read_bytes() + b"nonsense" * 20)
    cut = only_cut(recovered(directory)[1])
    assert cut["lost"] == f"the records from offset {COUNT} on, an unknown number of them,"


def test_recovery_point_bounds_the_reported_loss(directory: Path) -> None:
    last = directory / listing(directory, ".log")[-1]
    last.write_bytes(last.read_bytes() + b"nonsense" * 20)
    assert only_cut(recovered(directory, recovery_point=COUNT + 9)[1])["to_offset"] == COUNT + 9


@pytest.mark.parametrize("zeros", [1, 61, 5000])
def test_preallocated_zeros_are_not_reported(directory: Path, zeros: int) -> None:
    last = directory / listing(directory, ".log")[-1]
    last.write_bytes(last.read_bytes() + bytes(zeros))
    log, traced = recovered(directory)
    assert log.log_end_offset == COUNT
    assert not traced.of("storage_log_cut")


def test_log_without_losses_reports_nothing(directory: Path) -> None:
    for arguments in ({}, {"recovery_point": 30}, {"recovery_point": COUNT}):
        _, traced = recovered(directory, **arguments)
        assert not traced.of("storage_log_cut")
        assert not traced.of("storage_records_missing")


def test_known_cut_is_not_reported_again(directory: Path) -> None:
    """The marker `.unsettled` says that the recovery point may be older than the cut, as when a follower truncates."""
    log = open_log(directory, SMALL)
    log.truncate_to(30)
    _, traced = recovered(directory, recovery_point=COUNT)
    assert not traced.of("storage_log_cut")
    assert not traced.of("storage_records_missing")


@pytest.mark.parametrize("clean", [True, False])
def test_missing_segment_below_the_recovery_point_is_reported_and_nothing_is_cut(directory: Path, clean: bool) -> None:
    log = open_log(directory, SMALL)
    trio.run(close_log, log)
    names, starts = listing(directory, ".log"), bases(directory)
    (directory / names[1]).unlink()
    log, traced = recovered(directory, recovery_point=COUNT, clean=clean)
    (missing,) = traced.of("storage_records_missing")
    count = starts[2] - starts[1]
    assert missing["lost"] == f"the records from offset {starts[1]} to {starts[2] - 1} ({count} at most)"
    assert log.log_end_offset == COUNT
    assert values(log) == [b"%02d" % number for number in range(COUNT) if not starts[1] <= number < starts[2]]


@pytest.mark.parametrize("clean", [True, False])
def test_recovery_opens_one_segment_after_the_other(directory: Path, clean: bool) -> None:
    """A log may have more segments than the process may open files."""
    trio.run(close_log, open_log(directory, SMALL))
    disk = CountingDisk()
    log = open_log(directory, SMALL, recovery_point=COUNT, clean=clean, disk=disk)
    assert disk.most <= 3 < len(log.segments)


@pytest.mark.parametrize("clean", [True, False])
def test_missing_last_segment_is_reported_by_the_recovery_point(directory: Path, clean: bool) -> None:
    log = open_log(directory, SMALL)
    trio.run(close_log, log)
    names, starts = listing(directory, ".log"), bases(directory)
    (directory / names[-1]).unlink()
    log, traced = recovered(directory, recovery_point=COUNT, clean=clean)
    (missing,) = traced.of("storage_records_missing")
    assert f"from offset {starts[-1]} to {COUNT - 1}" in missing["lost"]
    assert log.log_end_offset == starts[-1]


@pytest.mark.parametrize("clean", [True, False])
def test_missing_first_segment_is_reported_if_the_log_start_is_known(directory: Path, clean: bool) -> None:
    log = open_log(directory, SMALL)
    trio.run(close_log, log)
    (directory / LOG).unlink()
    assert not recovered(directory, recovery_point=COUNT, clean=clean)[1].of("storage_records_missing")
    log, traced = recovered(directory, recovery_point=COUNT, clean=clean, starts_at_start=True)
    (missing,) = traced.of("storage_records_missing")
    assert f"from offset 0 to {log.log_start_offset - 1}" in missing["lost"]


def test_clean_log_with_an_unexpected_end_is_recovered(directory: Path) -> None:
    trio.run(close_log, open_log(directory, SMALL))
    (directory / "00000000000000005000.log").touch()
    log, traced = recovered(directory, recovery_point=COUNT, clean=True)
    assert log.log_end_offset == COUNT
    assert only_cut(traced)["reason"].startswith("the segment begins at offset 5000")


@pytest.mark.parametrize("name", ["99999999999999999999.log", "9223372036854775807.log", "notes.log"])
def test_file_with_an_unknown_name_is_ignored_and_reported(directory: Path, name: str) -> None:
    (directory / name).write_bytes(b"whatever")
    log, traced = recovered(directory)
    assert log.log_end_offset == COUNT
    assert [event["path"] for event in traced.of("storage_file_ignored")] == [str(directory / name)]
    assert (directory / name).exists()


def test_damaged_swap_file_is_dropped_if_its_segments_exist(directory: Path) -> None:
    first, second = listing(directory, ".log")[:2]
    cleaned = bytearray((directory / first).read_bytes() + (directory / second).read_bytes())
    cleaned[(directory / first).stat().st_size - 1] ^= 1
    (directory / (first + ".swap")).write_bytes(cleaned)
    log, traced = recovered(directory)
    assert values(log) == [b"%02d" % number for number in range(COUNT)]
    assert len(traced.of("storage_swap_corrupt")) == 1


@pytest.mark.parametrize("line", ["t 0 -1", f"t 0 {2**63}", f"t {2**31} 0", "t 0", "t x 0", "t 0 " + "9" * 5000])
def test_checkpoint_with_a_number_out_of_range_is_corrupt(tmp_path: Path, line: str) -> None:
    (tmp_path / "checkpoint").write_text(f"0\n1\n{line}\n")
    with pytest.raises(CorruptCheckpoint) as raised:
        OffsetCheckpoint(RealDisk(), str(tmp_path / "checkpoint")).read()
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("line", [f"{2**31} 0", f"0 {2**63}", "-1 0", "0 -1", "0", "x 0"])
def test_leader_epochs_with_a_number_out_of_range_are_corrupt(tmp_path: Path, line: str) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text(f"0\n1\n{line}\n")
    with pytest.raises(CorruptCheckpoint):
        LeaderEpochCache.load(RealDisk(), str(tmp_path))
