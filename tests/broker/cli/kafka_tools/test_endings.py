"""How the tools end as processes: after a signal, and after the reader of their output has ended."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from broker.client import Producer
from tests.support.kafka_tools import tools_of_a_node

Capture = pytest.CaptureFixture[str]
PYTHON = [sys.executable, "-P", "-m", "broker.cli.kafka_tools"]


async def test_a_terminated_console_consumer_commits_printed_records(tmp_path: Path, capsys: Capture) -> None:
    overrides = {"offsets_topic_num_partitions": 1, "group_initial_rebalance_delay_ms": 0}
    async with tools_of_a_node(tmp_path, capsys, **overrides) as tools:
        async with Producer(tools.bootstrap) as producer:
            for number in range(3):
                await producer.send("orders", b"%d" % number)
        consume = ["kafka-console-consumer", "--bootstrap-server", tools.bootstrap, "--topic", "orders"]
        process = await trio.lowlevel.open_process(
            [*PYTHON, *consume, "--group", "tour", "--from-beginning"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        output, errors = b"", b""
        with trio.fail_after(60):
            while output.count(b"\n") < 3:
                output += await process.stdout.receive_some()
            process.send_signal(signal.SIGTERM)
            while chunk := await process.stderr.receive_some():
                errors += chunk
            code = await process.wait()
        await process.stdout.aclose()
        await process.stderr.aclose()
        assert (code, sorted(output.split())) == (128 + signal.SIGTERM, [b"0", b"1", b"2"]), errors
        assert errors.endswith(b"Processed a total of 3 messages\n")
        described = await tools.lines("kafka-consumer-groups", "--describe", "--group", "tour")
        assert [line.split()[3:6] for line in described[2:]] == [["3", "3", "0"]]


async def test_a_tool_whose_output_is_closed_ends_without_a_traceback(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        list_versions = [*PYTHON, "kafka-broker-api-versions", "--bootstrap-server", tools.bootstrap]
        process = await trio.lowlevel.open_process(list_versions, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stderr is not None
        await process.stdout.aclose()
        errors = b""
        with trio.fail_after(60):
            while chunk := await process.stderr.receive_some():
                errors += chunk
            code = await process.wait()
        await process.stderr.aclose()
        assert (code, errors) == (141, b"")
