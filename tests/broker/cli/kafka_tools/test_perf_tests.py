"""kafka-producer-perf-test and kafka-consumer-perf-test against a running node."""

import re
from pathlib import Path

import pytest

from broker.cli.kafka_tools.consumer_perf_test import format_time
from broker.cli.kafka_tools.latencies import Latencies
from broker.cli.kafka_tools.options import ToolExit
from broker.cli.kafka_tools.tools import run_tool
from tests.support.kafka_tools import tools_of_a_node

Capture = pytest.CaptureFixture[str]

TOTAL = re.compile(
    r"(\d+)( steady state)? records sent, \d+\.\d{6} records/sec \(\d+\.\d\d MB/sec\), \d+\.\d\d ms avg latency, "
    r"\d+\.\d\d ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\."
)


async def test_records_are_written_and_read_and_both_are_measured(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(
        tmp_path, capsys, offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0
    ) as tools:
        load = ["--topic", "load", "--num-records", "500", "--throughput", "-1"]
        (line,) = await tools.lines("kafka-producer-perf-test", *load, "--record-size", "100")
        found = TOTAL.fullmatch(line)
        assert found is not None
        assert found[1] == "500"
        warmup = ["--payload-monotonic", "--warmup-records", "100", "--command-property", "acks=1", "linger.ms=0"]
        _, whole, steady = await tools.lines("kafka-producer-perf-test", *load, *warmup)
        assert [TOTAL.fullmatch(each)[1] for each in (whole, steady)] == ["500", "400"]  # type: ignore[index]
        read = ["--topic", "load", "--num-records"]
        header, total = await tools.lines("kafka-consumer-perf-test", *read, "1000")
        assert header == (
            "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
            "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
        )
        cells = total.split(", ")
        assert (len(cells), cells[2], cells[4]) == (10, f"{(500 * 100 + 10 + 90 * 2 + 400 * 3) / 2**20:.4f}", "1000")
        lines = await tools.lines("kafka-consumer-perf-test", *read, "2000", "--timeout", "500", "--hide-header")
        assert lines[0].startswith("WARNING: Exiting before consuming the expected number of records: timeout (500 ms)")


async def test_values_of_a_file_are_sent(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        values = tmp_path / "values"
        values.write_text("one\ntwo\n")
        load = ["--topic", "load", "--num-records", "20", "--throughput", "1000", "--payload-file", str(values)]
        lines = await tools.lines("kafka-producer-perf-test", *load)
        assert lines[:2] == [f"Reading payloads from: {values}", "Number of records read: 2"]
        read = ["--topic", "load", "--partition", "0", "--from-beginning", "--max-messages", "20"]
        assert set(await tools.lines("kafka-console-consumer", *read)) == {"one", "two"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--num-records", "0"], "--num-records should be greater than zero."),
        (["--num-records", "5", "--warmup-records", "5"], "The value for --warmup-records must be strictly fewer"),
        (["--num-records", "x"], "argument --num-records: invalid long value: 'x'"),
        (["--num-records", "5", "--transactional-id", "t"], "This cluster does not support transactions"),
        (["--num-records", "5", "--payload-monotonic"], "not allowed with argument --record-size"),
    ],
)
async def test_wrong_options_are_refused(capsys: Capture, arguments: list[str], message: str) -> None:
    given = ["--bootstrap-server", "localhost:1", "--topic", "t", "--throughput", "-1", "--record-size", "1"]
    assert await run_tool("kafka-producer-perf-test", [*given, *arguments]) == 1
    assert message in capsys.readouterr().err


def test_latencies_are_reported_by_interval_and_in_all() -> None:
    latencies = Latencies(4, 1000, 0)
    assert latencies.record(10, 1 << 20, 400) == []
    assert latencies.record(20, 1 << 20, 1000) == [
        "2 records sent, 2.0 records/sec (2.00 MB/sec), 15.0 ms avg latency, 20.0 ms max latency."
    ]
    assert latencies.record(30, 1 << 20, 1500) == []
    assert latencies.total_line(2000) == (
        "3 records sent, 1.500000 records/sec (1.50 MB/sec), 20.00 ms avg latency, 30.00 ms max latency, "
        "20 ms 50th, 30 ms 95th, 30 ms 99th, 30 ms 99.9th."
    )


def test_times_are_printed_in_javas_format() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:05:007", format_time("yyyy-MM-dd HH:mm:ss:SSS", 5007))
    with pytest.raises(ToolExit, match="--date-format EEE: EEE is none of"):
        format_time("EEE", 0)
