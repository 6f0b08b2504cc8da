"""The figures and the timeline of a failover, from acknowledgements and from the logs of nodes and client."""

import json
from multiprocessing import Pipe
from pathlib import Path

import pytest

from benchmarks.bench_failover import main
from benchmarks.failover_timeline import Event, active_controller, client_steps, events_of, next_leader, node_steps
from benchmarks.numbered_records import Gap, longest_gap, read

CLIENT_LOG = """\
%7|100.001|STATE|rdkafka#producer-1| [thrd:127.0.0.1:9093/3]: 127.0.0.1:9093/3: Broker changed state UP -> DOWN
%7|100.001|REQERR|rdkafka#producer-1| [thrd:127.0.0.1:9093/3]: 127.0.0.1:9093/3: ProduceRequest failed: Local: Broker transport failure: explicit actions Refresh,MsgPossiblyPersisted
%7|100.002|STATE|rdkafka#producer-1| [thrd:127.0.0.1:9093/3]: 127.0.0.1:9093/3: Broker changed state DOWN -> INIT
%7|100.015|BROKER|rdkafka#producer-1| [thrd:main]: t [0]: leader 3 epoch 4 -> leader 3 epoch 4
%7|100.020|BROKER|rdkafka#producer-1| [thrd:main]: t [0]: leader 3 epoch 4 -> leader 2 epoch 5
%7|100.021|TOPBRK|rdkafka#producer-1| [thrd:127.0.0.1:9092/2]: 127.0.0.1:9092/2: Topic t [0]: joining broker (rktp 0x7f, 42 message(s) queued)
%7|100.030|STATE|rdkafka#producer-1| [thrd:127.0.0.1:9092/2]: 127.0.0.1:9092/2: Broker changed state APIVERSION_QUERY -> UP
%7|200.000|STATE|rdkafka#producer-1| [thrd:127.0.0.1:9092/2]: 127.0.0.1:9092/2: Broker changed state UP -> DOWN
"""  # noqa: E501


def test_longest_gap_counts_only_the_time_until_the_next_kill() -> None:
    moments = [0.9, 1.0, 1.2, 1.3, 1.9]
    assert longest_gap(moments, 1.0, 2.0) == Gap(1.3, 1.9 - 1.3)
    assert longest_gap(moments, 1.0, 1.5).begin == 1.0
    assert longest_gap([], 1.0, 2.0) == Gap(1.0, 1.0)


def test_steps_of_the_nodes_are_the_first_of_their_kind() -> None:
    events = [
        Event(1.0, 1, "leader_elected", {"epoch": 1}),
        Event(2.1, 2, "fetcher_disconnected", {"source": 1}),
        Event(2.2, 3, "rpc_connection_lost", {"destination": 1}),
        Event(2.3, 2, "role_changed", {"role": "prospective", "epoch": 1}),
        Event(2.4, 3, "role_changed", {"role": "unattached", "epoch": 2}),
        Event(2.5, 2, "role_changed", {"role": "leader", "epoch": 2}),
        Event(2.6, 2, "partition_led", {"partition": 7}),
        Event(2.7, 3, "partition_led", {"partition": 0}),
        Event(9.0, 2, "broker_fenced", {"broker": 1}),
    ]
    assert [(step.moment, step.text.split()[1]) for step in node_steps(events, 2.0, 3.0)] == [
        (2.1, "2"),
        (2.3, "2"),
        (2.5, "2"),
        (2.7, "3"),
    ]
    assert (active_controller(events, 0.5), active_controller(events, 1.5)) == (None, 1)
    assert next_leader(events, 2.0, 3.0) == pytest.approx(0.7)
    assert (next_leader(events, 2.0, 2.65), next_leader(events, 2.8, 9.0)) == (None, None)


def test_events_are_read_from_the_lines_of_a_log() -> None:
    line = {"time": "1970-01-01T00:00:01.250Z", "level": "info", "node": 2, "event": "node_started", "fields": {"a": 1}}
    assert list(events_of(2, f"Traceback\n{json.dumps(line)}\n")) == [Event(1.25, 2, "node_started", {"a": 1})]


def test_steps_of_the_client_are_read_from_librdkafkas_log(tmp_path: Path) -> None:
    log = tmp_path / "client.log"
    log.write_text(CLIENT_LOG)
    assert [step.text for step in client_steps(log, 100.0, 101.0)] == [
        "client: the connection to 127.0.0.1:9093/3 broke",
        "client: a produce request failed, Local: Broker transport failure",
        "client: leader 3 epoch 4 -> leader 2 epoch 5",
        "client: partition moved, 42 records wait",
        "client: connected to 127.0.0.1:9092/2",
    ]


def test_reader_that_gets_no_more_records_returns_those_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.numbered_records._SILENCE_S", 0.1)
    ours, theirs = Pipe()
    ours.send(1)  # a record was written, and no broker has it
    read(theirs, "127.0.0.1:1", "t")
    assert ours.recv().seen == bytearray()


@pytest.mark.parametrize("backoff_ms", ["-1", "0", "300001"])
def test_backoff_that_no_writer_can_have_is_refused_before_a_cluster_starts(
    backoff_ms: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--seconds", "0", "--backoff", backoff_ms])
    assert f"{backoff_ms} is not between 1 and 300000" in capsys.readouterr().err
