"""The files of recorders: of threads and processes, of processes that are killed, and files that are no history."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from jepsen.history import Outcome
from jepsen.testing.histories import BadJournal, HistoryTooLarge, Promise, Recorder, RecordView, check, load_history
from jepsen.testing.histories.loading import names_in
from jepsen.testing.histories.recording.history_file import HistoryFile
from jepsen.testing.histories.recording.identities import name_of_content, name_of_record

UNREACHABLE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}

# A process that sends one record, and is killed before the record has an outcome.
KILLED = """
import os, signal, sys
from confluent_kafka import Producer
from jepsen.testing.histories import Recorder

producer = Recorder(sys.argv[1]).wrap(Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}), name=sys.argv[2])
producer.produce("orders", sys.argv[2])
os.kill(os.getpid(), signal.SIGKILL)
"""


def event(**fields: Any) -> bytes:
    value = {"topic": "orders", "partition": 0, "session": "", "sequence": 0, "values": ["a"]}
    known = {"time": 1, "process": "p@1", "id": 0, "type": "invoke", "f": "send", "value": value}
    return json.dumps(known | fields).encode() + b"\n"


OK = event(type="ok", value=[0, 5], time=2)


def write(directory: Path, *lines: bytes, name: str = "1") -> Path:
    directory.mkdir(exist_ok=True)
    (directory / f"history-{name}.jsonl").write_bytes(b"".join(lines))
    return directory


def test_sends_without_an_outcome_are_unknown(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        producer = recorder.wrap(confluent_kafka.Producer({**UNREACHABLE, "message.timeout.ms": 100}))
        producer.produce("orders", b"timed out")
        assert producer.flush(30) == 0
        waiting = recorder.wrap(confluent_kafka.Producer(UNREACHABLE))
        waiting.produce("orders", b"waiting")
        assert waiting.flush(0) == 1
        full = recorder.wrap(confluent_kafka.Producer({**UNREACHABLE, "queue.buffering.max.messages": 1}))
        full.produce("orders", b"waiting, too")
        with pytest.raises(BufferError):
            full.produce("orders", b"not taken")
    sends = {each.value.values[0]: each for each in load_history(tmp_path).of("send")}
    assert sends["timed out"].outcome is Outcome.INFO
    assert "Message timed out" in sends["timed out"].result
    assert sends["waiting"].outcome is Outcome.INFO
    assert sends["waiting"].completed_at is None
    assert sends["not taken"].outcome is Outcome.FAIL
    waiting.purge()
    full.purge()


def test_threads_share_a_file(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        producer = recorder.wrap(confluent_kafka.Producer(UNREACHABLE))

        everyone = threading.Barrier(4)

        def send(number: int) -> None:
            everyone.wait(30)
            for value in range(500):
                producer.produce("orders", f"{number}/{value}", "k")

        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.purge()
    sends = list(load_history(tmp_path).of("send"))
    assert len({each.value.values for each in sends}) == len({each.serial for each in sends}) == 2000
    assert len({each.value.session for each in sends}) == 4


def test_processes_that_are_killed_leave_one_history(tmp_path: Path) -> None:
    for name in ("one", "two"):
        done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), name], check=False, timeout=60)
        assert done.returncode == -signal.SIGKILL
    history = load_history(tmp_path)
    assert [(each.value.values, each.outcome) for each in history.of("send")] == [
        (("one",), Outcome.INFO),
        (("two",), Outcome.INFO),
    ]
    first, second = history.operations
    assert first.invoked_at < second.invoked_at
    assert first.client.startswith("one@")
    assert len(list(tmp_path.glob("history-*.jsonl"))) == 2


def test_forked_process_has_a_file_of_its_own(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        message = RecordView("orders", None, None, None)

        def work(offset: int) -> None:
            place = type("Place", (), {"topic": message.topic, "partition": 0, "offset": offset})
            recorder.processed(place, group="billing")

        work(0)
        child = multiprocessing.get_context("fork").Process(target=work, args=(1,))
        child.start()
        child.join(30)
        assert child.exitcode == 0
        work(2)
    history = load_history(tmp_path)
    assert [each.value.offset for each in history.of("process")] == [0, 1, 2]
    assert {each.client.partition("@")[2] for each in history.operations} == {str(os.getpid()), str(child.pid)}


def test_block_that_a_forked_process_leaves_is_recorded_by_its_parent(tmp_path: Path) -> None:
    place = type("Place", (), {"topic": "orders", "partition": 0, "offset": 7})
    parent = os.getpid()
    with Recorder(tmp_path) as recorder:
        try:
            with recorder.processing(place, group="billing"):
                pid = os.fork()
                if pid == 0:
                    raise LookupError
                os.waitpid(pid, 0)
        finally:
            if os.getpid() != parent:
                recorder.processed(type("Place", (place,), {"offset": 8}), group="billing")
                os._exit(0)
    history = load_history(tmp_path)
    found = {(each.value.offset, each.outcome, each.client.partition("@")[2]) for each in history.of("process")}
    assert found == {(7, Outcome.OK, str(os.getpid())), (8, Outcome.OK, str(pid))}


def test_partitions_that_a_client_refuses_leave_a_valid_history(tmp_path: Path) -> None:
    wrong: list[Any] = ["1", None, 1.5, 2**40, b"1"]
    with Recorder(tmp_path) as recorder:
        producer = recorder.wrap(confluent_kafka.Producer(UNREACHABLE))
        for partition in wrong:
            with pytest.raises((TypeError, OverflowError, ValueError)):
                producer.produce("orders", b"value", partition=partition)
        for record in (None, 5, type("Place", (), {"topic": "orders", "partition": 0, "offset": None})):
            with pytest.raises(ValueError, match="is no record that a consumer has received"):
                recorder.processed(record, group="billing")
    assert [each.outcome for each in load_history(tmp_path).of("send")] == [Outcome.FAIL] * len(wrong)
    with pytest.raises(TypeError, match="5 is no promise"):
        check(tmp_path, [5])  # type: ignore[list-item]


def test_closed_file_takes_nothing(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path)
    file.append("x\n")
    file.close()
    file.append("y\n")
    [path] = tmp_path.glob("history-*.jsonl")
    assert path.read_text() == "x\n"


def test_two_recorders_of_a_process_have_two_files(tmp_path: Path) -> None:
    names = [HistoryFile(tmp_path).process for _ in range(2)]
    assert names == [str(os.getpid()), f"{os.getpid()}-2"]


def test_torn_last_line_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, event(), OK[:-20])
    write(tmp_path, event(process="p@2"), OK.replace(b"p@1", b"p@2"), name="2")
    torn, whole = load_history(tmp_path).operations
    assert (torn.outcome, whole.outcome) == (Outcome.INFO, Outcome.OK)
    assert (whole.value.partition, whole.result) == (0, 5)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([b"no json\n"], r"history-1.jsonl: line 1: Expecting value"),
        ([b'{"time": 1}\n'], "line 1 is not an operation"),
        ([b"[]\n"], "line 1 is not an operation"),
        ([event(type="maybe")], "line 1 is not an operation"),
        ([event(type=[])], "line 1 is not an operation"),
        ([event(time="1")], "line 1 is not an operation"),
        ([event(time=10**400)], "line 1 is not an operation"),
        ([event(id=True)], "line 1 is not an operation"),
        ([b"[" * 100_000 + b"\n"], "line 1"),
        ([b'"' + b"x" * (17 << 20) + b'"\n'], "a line has more than 16777216 bytes"),
        ([b"\xff\xfe\n"], "line 1"),
        ([event(), event()], "p@1 begins its operation 0 twice: is a file given twice"),
        ([event(), OK, OK], "p@1 completes its operation 0 twice"),
        ([OK], "which it never began"),
        ([event(value=[])], "is no Sending"),
        ([event(value={"topic": "orders"})], "is no Sending"),
        ([event(value={"topic": "orders", "size": 1})], "is no Sending"),
        ([event(value={"topic": 1, "partition": 0, "session": "", "sequence": 0, "values": ["a"]})], "topic is 1"),
        ([event(value={"topic": "t", "partition": 0, "session": "", "sequence": 0, "values": []})], "sends nothing"),
        ([event(), event(type="ok", value=[0, "5"])], "the result is '5'"),
        ([event(), event(type="ok", value=[0, 1, 2])], "the result is"),
        ([event(), event(type="ok", value=[0, 1 << 70])], "the result is 1180591620717411303424"),
        ([event(f="poll", value={"topic": "t", "partition": 0, "offset": 0}), event(type="ok", value=[[1]])], "result"),
    ],
)
def test_file_that_is_no_history_is_refused(tmp_path: Path, lines: list[bytes], reason: str) -> None:
    write(tmp_path, *lines)
    with pytest.raises(BadJournal, match=reason):
        check(tmp_path, [Promise.NOTHING_LOST])


def test_directory_without_a_history_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing was recorded there"):
        load_history(tmp_path)


def test_history_that_does_not_fit_into_memory_is_refused(tmp_path: Path) -> None:
    write(tmp_path, *(event(id=number) for number in range(21)))
    with pytest.raises(HistoryTooLarge, match="more than 10 operations: judge it with `kraft spark check`"):
        check(tmp_path, [Promise.NOTHING_LOST], operations_max=10)


def test_history_with_too_many_bytes_is_refused(tmp_path: Path) -> None:
    value = {"topic": "orders", "partition": 0, "offset": 0}
    records = [[offset, "a" * 100] for offset in range(100)]
    write(tmp_path, event(f="poll", value=value), event(f="poll", type="ok", value=records))
    assert load_history(tmp_path, operations_max=100).operations
    with pytest.raises(HistoryTooLarge, match="more than 10,000 bytes"):
        load_history(tmp_path, operations_max=10)


def test_names_of_topics_and_groups_are_found(tmp_path: Path) -> None:
    commit = {"group": "billing", "member": "", "generation": -1, "offsets": [["invoices", 0, 1], 5, []]}
    write(tmp_path, event(), event(id=1, f="commit", value=commit), event(id=2, value={"topic": 5, "group": ""}))
    names = names_in(tmp_path)
    assert (names.topics, names.groups) == ({"orders", "invoices"}, {"billing"})


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (None, "null"),
        (b"text", "text"),
        ("t\u00e4xt", "t\u00e4xt"),
        (b"\xff\x00", "0xff00"),
        (7, "7"),
        ({"b": 1, "a": [2]}, '{"a":[2],"b":1}'),
        (bytearray(b"x"), "x"),
        (b"\x1b[2J", "\\x1b[2J... (4 bytes, 6db4f1b8d7b1b7b4f7ee6e25)"),
    ],
)
def test_records_are_named_by_their_content(content: object, name: str) -> None:
    found = name_of_content(content)
    if "..." in name:
        assert found.partition("... (")[0] == name.partition("... (")[0]
    else:
        assert found == name
    assert found.isprintable()


def test_long_values_differ_by_their_digest() -> None:
    first, second = name_of_content(b"x" * 1000 + b"1"), name_of_content(b"x" * 1000 + b"2")
    assert first != second
    assert len(first) < 120


def test_an_identity_names_records() -> None:
    record = RecordView("orders", b"k", {"order": 7}, None)
    assert name_of_record(record, lambda record: record.value["order"]) == "7"
    assert name_of_record(record, None) == 'k: {"order":7}'
