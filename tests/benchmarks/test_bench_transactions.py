"""Runs the loads of the benchmark of transactions briefly; the figures do not matter."""

import time
from collections.abc import Callable, Iterator

import pytest

from benchmarks import protocol, transaction_loads, transactional_ids
from benchmarks.figures import Figure, Series
from benchmarks.transactional_ids import OpenTransaction
from benchmarks.watched_node import Hold, holds
from broker.wire.api.produce import ProduceRequest
from broker.wire.codec import decode
from broker.wire.header import parse_request_header
from broker.wire.records.batch import check_crc, read_header
from tests.support.confluent_driver import create_topic, watermarks
from tests.support.node_process import NodeProcess


def test_numbered_requests_have_valid_batches_with_rising_sequence_numbers() -> None:
    frames = memoryview(transaction_loads.numbered_requests("topic", protocol.batch(1, 100), 3, producer_id=7))
    found = []
    while frames:
        size = int.from_bytes(frames[:4])
        *_, body = parse_request_header(frames, 4)
        request, end = decode(ProduceRequest, protocol.PRODUCE_VERSION, frames[: 4 + size], body)
        assert end == 4 + size
        records = request.topic_data[0].partition_data[0].records
        assert records is not None
        batch = read_header(records)
        check_crc(records, 0, batch)
        found.append((batch.producer_id, batch.producer_epoch, batch.base_sequence))
        frames = frames[4 + size :]
    assert found == [(7, 0, 0), (7, 0, 1), (7, 0, 2)]


def test_holds_are_found_in_the_output_of_a_node() -> None:
    output = "kraft: started\nloop held for 12.5 ms in Deadlines.run\nloop held for 30.0 ms in MarkerSender.run\n"
    assert holds(output) == [Hold(30.0, "MarkerSender.run"), Hold(12.5, "Deadlines.run")]


def test_every_producer_commits_its_transactions(bootstrap: str) -> None:
    create_topic(bootstrap, "commits", 1)
    seen = transaction_loads.commit(bootstrap, "commits", 2, 10, 100, 0.2, "commits")
    [(_, end)] = watermarks(bootstrap, "commits", 1)
    # A marker follows each transaction. The first one of each producer is not measured.
    assert end == len(seen.latencies_s) * 11 + 2 * 2
    assert 0 < seen.quantile_ms(0.5) <= seen.quantile_ms(0.99)


@pytest.mark.parametrize("read", [transaction_loads.read_committed_confluent, transaction_loads.read_committed_own])
def test_committed_records_are_found_among_aborted_ones(
    read: Callable[[str, str, int], float], filled: tuple[str, int]
) -> None:
    bootstrap, committed = filled
    assert committed == 4
    assert read(bootstrap, "aborted", committed) > 0


def test_open_transactions_are_aborted_by_their_owner(bootstrap: str) -> None:
    create_topic(bootstrap, transactional_ids.TOPIC, transactional_ids.PARTITIONS)
    port = int(bootstrap.rpartition(":")[2])
    opened = transactional_ids.open_transactions(port, 30, lambda: 60_000)
    assert transactional_ids.count_transactions(port, ["Ongoing"]) == 30
    probes = transactional_ids.last_of_partitions(opened)
    assert len({each.partition for each in probes}) == len(probes)
    ended = transactional_ids.seconds_until_ended(port, probes, time.perf_counter())
    assert len(ended) == len(probes)
    transactional_ids.wait_until_aborted(port, probes)
    assert len(transactional_ids.without(opened, probes)) == 30 - len(probes)


def test_open_transaction_knows_its_partition() -> None:
    assert OpenTransaction("a", 1, 0).partition == ord("a") % transactional_ids.PARTITIONS


def test_figure_of_one_node_is_compared_with_nothing() -> None:
    series = Series(["kraft", "kafka"])
    series.add("kraft", [Figure("time", "s", 1.0, False, 1.0), Figure("hold", "ms", 3.0, False)])
    series.add("kafka", [Figure("time", "s", 2.0, False, 1.0)])
    assert series.rows() == [
        ["time", "s", "1.00", "2.00", "2.00", "1.00", "met"],
        ["hold", "ms", "3.00", "", "", "", ""],
    ]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    node = NodeProcess(tmp_path_factory.mktemp("node") / "data")
    node.start()
    yield node.bootstrap
    node.stop()


@pytest.fixture(scope="module")
def filled(bootstrap: str) -> tuple[str, int]:
    """The node, and the number of committed records in its topic "aborted"."""
    create_topic(bootstrap, "aborted", 1)
    return bootstrap, transaction_loads.fill_aborted(bootstrap, "aborted", 102, 2, 2)
