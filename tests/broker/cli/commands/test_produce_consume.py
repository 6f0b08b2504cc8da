"""`kraft produce` and `kraft consume` in pipes, as in a shell."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from zlib import crc32

import pytest

from broker.cli.commands.bench import _quantiles
from broker.cli.grammar import Exit
from tests.support.cluster_process import run_command
from tests.support.command_output import pipe, succeed
from tests.support.node_process import NodeProcess
from tests.support.transaction_coordinator import coordinator_thread

BEGAN_MS = 1_769_846_400_000


@pytest.fixture
def topic(node: NodeProcess, request: pytest.FixtureRequest) -> str:
    """A topic of two partitions."""
    name = f"records-{crc32(request.node.nodeid.encode())}"
    succeed("topics", "create", name, "-p", "2")
    return name


def produce(topic: str, lines: bytes, *arguments: str) -> None:
    """Write the lines within this process, which is faster than a pipe."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(lines)
        file.flush()
        succeed("produce", topic, file.name, *arguments)


def consume(*arguments: str) -> list[str]:
    return sorted(succeed("consume", *arguments, "-e").splitlines())


def fill(topic: str) -> None:
    """Write five records to each partition, a second apart, with keys `a` and `b` and a header in partition 1."""
    lines = [
        {
            "partition": number % 2,
            "timestamp_ms": BEGAN_MS + 1000 * number,
            "key": "ab"[number % 2],
            "value": str(number),
            "headers": [{"name": "n", "value": str(number)}] * (number % 2),
        }
        for number in range(10)
    ]
    produce(topic, "\n".join(map(json.dumps, lines)).encode(), "--from-json")


def test_each_line_becomes_a_record(topic: str) -> None:
    done = pipe("produce", topic, stdin=b"one\ntwo\nthree")
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr == f"kraft: 3 records written to {topic}\n".encode()
    assert consume(topic) == ["one", "three", "two"]


def test_written_records_are_told_as_json(topic: str) -> None:
    done = pipe("produce", topic, "-p", "1", "--json", stdin=b"one\ntwo\n")
    written = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["topic"], each["partition"], each["offset"]) for each in written] == [(topic, 1, 0), (topic, 1, 1)]


def test_partition_that_the_topic_does_not_have_is_refused_at_once(topic: str) -> None:
    refused = f"kraft: Topic {topic} has no partition 9; its partitions are 0 to 1\n".encode()
    # A producer waits for the partition for a minute, as Kafka's does (max.block.ms), which the command does not.
    done = pipe("produce", topic, "-p", "9", stdin=b"one\ntwo\n", timeout_s=50)
    assert (done.returncode, done.stdout, done.stderr) == (Exit.NOT_FOUND, b"", refused)
    lines = b'{"value": "one", "partition": 9}\n{"value": "two", "partition": 1}\n'
    done = pipe("produce", topic, "--from-json", stdin=lines, timeout_s=50)
    assert (done.returncode, done.stdout) == (Exit.NOT_FOUND, b"")
    assert done.stderr == refused.replace(b"kraft: ", f"kraft: {topic}: ".encode()) + (
        f"kraft: 1 record written to {topic}\n".encode()
    )
    answer = run_command("consume", f"{topic}:9")
    assert (answer.code, answer.errors.encode()) == (Exit.NOT_FOUND, refused)
    assert consume(topic) == ["two"]


def test_partition_that_a_topic_gets_while_records_are_written_is_taken(topic: str) -> None:
    command = [sys.executable, "-m", "broker.cli", "produce", topic, "--from-json", "--json"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writing:
        assert writing.stdin is not None
        assert writing.stdout is not None
        try:
            writing.stdin.write(b'{"value": "one", "partition": 0}\n')
            writing.stdin.flush()
            assert json.loads(writing.stdout.readline())["partition"] == 0
            succeed("topics", "alter", topic, "-p", "3")
            writing.stdin.write(b'{"value": "two", "partition": 2}\n')
            writing.stdin.close()
            assert json.loads(writing.stdout.readline())["partition"] == 2
            assert writing.wait(60) == 0
        finally:
            writing.kill()


def test_lines_are_taken_apart_into_headers_key_and_value(topic: str) -> None:
    produce(topic, rb"a=1,b=2|k:v:w;|:NULL;", *("-K", ":", "--header-separator", "|", "-d", ";", "--null", "NULL"))
    assert consume(topic, "-f", r"%h|%k|%s|%S\n") == ["a=1,b=2|k|v:w|3", "|| NULL|-1".replace(" ", "")]


def test_keys_and_headers_of_all_records_come_from_options(topic: str) -> None:
    produce(topic, b"v\n", "-k", "key", "-H", "source=tour", "-z", "zstd")
    assert consume(topic, "-f", r"%k %s %h\n") == ["key v source=tour"]


def test_files_are_read_by_line_or_whole(topic: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"one\ntwo\n")
    assert run_command("produce", topic, str(tmp_path / "file")).code == Exit.OK
    assert run_command("produce", topic, str(tmp_path / "file"), "--whole").code == Exit.OK
    assert consume(topic, "-f", r"%S\n") == ["3", "3", "8"]
    missing = run_command("produce", topic, str(tmp_path / "none"))
    assert missing.code == Exit.FAILED
    assert "No such file or directory" in missing.errors


def test_a_line_that_is_no_record_is_left_out_and_reported(topic: str) -> None:
    done = pipe("produce", topic, "-K", ":", stdin=b"a:1\nb\nc:3\n")
    assert done.returncode == Exit.FAILED
    assert b"kraft: line 2: it has no separator between key and value; the line is skipped\n" in done.stderr
    assert consume(topic) == ["1", "3"]


def test_a_record_that_is_too_large_is_reported_and_the_others_are_written(topic: str) -> None:
    done = pipe("produce", topic, stdin=b"one\n" + b"x" * 2_000_000 + b"\ntwo\n")
    assert done.returncode == Exit.FAILED
    assert b"max.request.size" in done.stderr
    assert consume(topic) == ["one", "two"]


def test_records_are_copied_through_a_pipe(topic: str) -> None:
    fill(topic)
    succeed("topics", "create", f"{topic}-copy", "-p", "2")
    produce(f"{topic}-copy", succeed("consume", topic, "-e", "--json").encode(), "--from-json")
    form = r"%p %o %T %k %s %h\n"
    assert consume(f"{topic}-copy", "-f", form) == consume(topic, "-f", form)


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ([], "0123456789"),
        (["-o", "beginning"], "0123456789"),
        (["-o", "end"], ""),
        (["-o", "3"], "6789"),
        (["-o", "-1"], "89"),
        (["-o", "99"], ""),
        (["-o", f"@{BEGAN_MS + 6000}"], "6789"),
        (["--until", f"{BEGAN_MS + 4000}"], "0123"),
        (["-o", f"@{BEGAN_MS + 2000}", "--until", f"{BEGAN_MS + 4000}"], "23"),
        (["-k", "a"], "02468"),
        (["-H", "n"], "13579"),
        (["-H", "n=3"], "3"),
    ],
)
def test_records_are_chosen_by_offset_time_key_and_header(topic: str, arguments: list[str], values: str) -> None:
    fill(topic)
    assert "".join(consume(topic, *arguments)) == values


def test_records_are_chosen_by_partition_and_count(topic: str) -> None:
    fill(topic)
    assert "".join(consume(f"{topic}:1")) == "13579"
    assert len(succeed("consume", topic, "-n", "3").splitlines()) == 3


def test_a_range_of_time_ends_without_being_told_to(topic: str) -> None:
    fill(topic)
    assert sorted(succeed("consume", topic, "--until", "now").split()) == list("0123456789")


def test_records_of_several_topics_are_told_apart(topic: str) -> None:
    produce(topic, b"one", "-p", "0")
    succeed("topics", "create", f"{topic}-b", "-p", "1")
    produce(f"{topic}-b", b"two")
    assert consume(topic, f"{topic}-b") == [f"{topic}-0@0 one", f"{topic}-b-0@0 two"]


def test_a_member_of_a_group_goes_on_where_the_group_is(topic: str) -> None:
    fill(topic)
    first = succeed("consume", topic, "-g", topic, "-n", "4").split()
    rest = succeed("consume", topic, "-g", topic, "-n", "6").split()
    assert sorted([*first, *rest]) == list("0123456789")
    answer = run_command("consume", topic, "-g", topic, "-e")
    assert answer.code == Exit.USAGE
    assert "A group chooses partitions and offsets" in answer.errors


def test_a_topic_is_followed_until_ctrl_c(topic: str) -> None:
    produce(topic, b"old\n")
    command = [sys.executable, "-m", "broker.cli", "consume", topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as following:
        try:
            assert following.stdout is not None
            assert following.stderr is not None
            assert following.stdout.readline() == b"old\n"
            produce(topic, b"new\n")
            assert following.stdout.readline() == b"new\n"
            following.send_signal(signal.SIGINT)
            assert following.wait(30) == Exit.INTERRUPTED
            assert following.stderr.read() == b""
        finally:
            following.kill()


def test_a_reader_that_has_enough_ends_the_command(topic: str) -> None:
    succeed("bench", "produce", topic, "-n", "2000", "-s", "200")
    command = f"{sys.executable} -m broker.cli consume {topic} | head -c 1 | wc -c"
    shell = ["bash", "-o", "pipefail", "-c", command]
    # A write to an unbuffered file may be partial, and the rest must be written too.
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(shell, env=environment, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (Exit.OUTPUT_CLOSED, b"1", b"")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-o", "soon"], Exit.USAGE, "'soon' is not an offset; write beginning, end, 42, -10 for the last ten"),
        (["-f", "%z"], Exit.USAGE, "'%z' is not a token of a format"),
        (["--until", "soon"], Exit.USAGE, "'soon' is not a time"),
        (["none"], Exit.NOT_FOUND, "of 'none'"),
    ],
)
def test_unreadable_input_is_refused(topic: str, arguments: list[str], code: Exit, message: str) -> None:
    answer = run_command("consume", *([topic, *arguments] if arguments[0].startswith("-") else arguments))
    assert (answer.code, answer.output) == (code, "")
    assert message in answer.errors


@pytest.mark.parametrize(("last", "code"), [(b"two", 0), (bytes(2_000_000), Exit.FAILED)])
def test_records_of_a_transaction_are_written_together_or_not(last: bytes, code: int) -> None:
    with coordinator_thread(version=2) as coordinator:
        arguments = ("produce", "orders", "--transactional-id", "payments", "-p", "0", "-b", coordinator.address)
        assert pipe(*arguments, stdin=b"one\n" + last).returncode == code
        seen = coordinator.take()
    assert seen[0] == "InitProducerId(@-1)"
    assert ("EndTxn(commit@1)" in seen) is (code == 0)


def test_committed_records_are_read_to_their_end(topic: str) -> None:
    fill(topic)
    assert len(consume(topic, "--isolation-level", "read_committed")) == 10


def test_bench_reports_the_records_that_it_writes_and_reads(topic: str) -> None:
    written = json.loads(succeed("bench", "produce", topic, "-n", "500", "-s", "100", "--rate", "100000", "--json"))
    assert (written["records"], written["bytes"], written["failed"]) == (500, 50_000, 0)
    assert 0 < written["latency_ms"]["p50"] <= written["latency_ms"]["max"]
    read = json.loads(succeed("bench", "consume", topic, "--json"))
    assert (read["records"], read["bytes"]) == (500, 50_000)
    assert "500 records, 50000 bytes" in succeed("bench", "consume", topic)
    answer = run_command("bench", "consume", topic, "-n", "501")
    assert (answer.code, answer.errors) == (
        Exit.FAILED,
        f"kraft: Topic {topic} has 500 records; `kraft bench produce {topic}` writes some\n",
    )


@pytest.mark.parametrize("size", ["1.1MiB", "7PiB", "99999PiB"])
def test_bench_refuses_values_that_no_request_carries(topic: str, size: str) -> None:
    """64 values of the size were made first, whatever it was."""
    answer = run_command("bench", "produce", topic, "-n", "1", "-s", size)
    assert (answer.code, answer.output) == (Exit.USAGE, "")
    assert "is too large" in answer.errors or "the producer's max.request.size is 1048576" in answer.errors


def test_quantiles_of_counted_latencies() -> None:
    latencies = Counter({round(100 * ms): 1 for ms in range(1, 1001)})
    assert _quantiles(latencies) == {"p50": 501, "p95": 951, "p99": 991, "p999": 1000, "max": 1000}
    assert _quantiles(Counter({25: 1})) == dict.fromkeys(("p50", "p95", "p99", "p999", "max"), 0.25)
    assert _quantiles(Counter()) == {}
