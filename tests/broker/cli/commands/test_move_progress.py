"""Progress of moves: bytes, rate and remaining time. Times and sizes are given; no clock is used."""

import pytest

from broker.cli.commands.move_progress import Copied, Copy, CopyEstimate, copied_sizes
from broker.cli.output.progress import StatusLine
from broker.client.admin import LogDir
from broker.client.admin.log_dirs import LogDirReplica
from broker.client.types import TopicPartition

MIB = 1 << 20
FIRST, SECOND = (Copy(TopicPartition("orders", index), 4) for index in (0, 1))


def observed(*looks: tuple[float, int, int]) -> CopyEstimate:
    """An estimate after looks at one copy: the time, and MiB that are copied and wanted."""
    estimate = CopyEstimate()
    for at_s, copied, wanted in looks:
        estimate.observe(at_s, {FIRST: Copied(copied * MIB, wanted * MIB)})
    return estimate


def test_there_is_no_estimate_before_there_is_a_rate() -> None:
    assert observed((0, 0, 100)).describe() == "0 B of 100.0 MiB"
    first = observed((0, 0, 100), (1.9, 10, 100))
    assert (first.rate, first.remaining_s) == (None, None)
    assert first.describe() == "10.0 MiB of 100.0 MiB"


def test_estimate_follows_the_rate() -> None:
    estimate = observed((0, 0, 100), (5, 10, 100), (10, 20, 100))
    assert (estimate.rate, estimate.remaining_s) == (2 * MIB, 40)
    assert estimate.describe() == "20.0 MiB of 100.0 MiB, 2.0 MiB/s, about 40s left"


def test_rate_is_that_of_the_last_30_seconds() -> None:
    looks = [(at_s, at_s, 500) for at_s in range(0, 101, 5)]  # 1 MiB/s
    faster = [(100 + at_s, 100 + 10 * at_s, 500) for at_s in range(5, 31, 5)]
    assert observed(*looks, *faster).rate == 10 * MIB


def test_new_records_of_the_leader_count_as_bytes_to_copy() -> None:
    """Copied at 3 MiB/s, of which new records take 1 MiB/s: the rest of 80 MiB takes 40 s, and not 27 s."""
    estimate = observed((0, 0, 100), (10, 30, 110))
    assert (estimate.rate, estimate.remaining_s) == (3 * MIB, 40)
    assert estimate.describe() == "30.0 MiB of 110.0 MiB, 3.0 MiB/s, about 40s left"


@pytest.mark.parametrize("wanted", [110, 130])
def test_there_is_no_estimate_while_new_records_come_as_fast_as_they_are_copied(wanted: int) -> None:
    estimate = observed((0, 0, 100), (10, 10, wanted))
    assert estimate.remaining_s is None
    assert estimate.describe().endswith("1.0 MiB/s, and new records come as fast: no end in sight")


def test_a_copy_that_stands_still_is_named() -> None:
    assert observed((0, 5, 100), (10, 5, 100)).describe() == "5.0 MiB of 100.0 MiB, 0 B/s: nothing is copied"


def test_ended_copies_are_complete_and_larger_copies_do_not_hide_others() -> None:
    estimate = CopyEstimate()
    estimate.observe(0, {FIRST: Copied(0, 60), SECOND: Copied(0, 40)})
    estimate.observe(1, {SECOND: Copied(50, 40)}, [FIRST])
    assert (estimate.done_bytes, estimate.total_bytes) == (100, 100)
    assert estimate.describe() == "100 B of 100 B"


def test_copies_that_appear_later_are_no_step_back() -> None:
    """A broker that did not answer at first: the rate is that since all copies are known."""
    estimate = CopyEstimate()
    estimate.observe(0, {FIRST: Copied(0, 100)})
    estimate.observe(10, {FIRST: Copied(50, 100), SECOND: Copied(0, 1000)})
    assert estimate.rate is None
    estimate.observe(20, {FIRST: Copied(100, 100), SECOND: Copied(50, 1000)})
    assert (estimate.rate, estimate.remaining_s) == (10, 95)


def directory(**sizes: int) -> dict[str, LogDir]:
    """A log directory with partitions of `orders`, by their numbers as `_0`."""
    replicas = {TopicPartition("orders", int(name[1:])): LogDirReplica(size, 0, False) for name, size in sizes.items()}
    return {"/data": LogDir(None, replicas, None, None, False)}


def test_a_copy_is_compared_with_the_largest_replica_that_is_no_copy() -> None:
    log_dirs = {1: directory(_0=100, _1=7), 2: directory(_0=90), 4: directory(_0=30, _1=900)}
    assert copied_sizes(log_dirs, {FIRST: None, SECOND: None}) == {FIRST: Copied(30, 100), SECOND: Copied(900, 7)}
    assert copied_sizes({4: directory(_0=30)}, {FIRST: None}) == {}, "the source does not answer"
    assert copied_sizes({1: directory(_0=100)}, {FIRST: None}) == {FIRST: Copied(0, 100)}, "the copy has not begun"


def test_without_a_terminal_lines_are_rare() -> None:
    lines = list[str]()
    with StatusLine("Moving", lines.append) as line:
        for second in range(200):
            line.show(second, second, 200, f"{second} B")
    assert lines == ["Moving: 10 B", "Moving: 70 B", "Moving: 130 B", "Moving: 190 B"]
