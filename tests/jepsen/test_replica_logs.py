"""Logs that are read from the directories of stopped nodes."""

from pathlib import Path

from broker.storage.checkpoints import REPLICATION_OFFSET_CHECKPOINT, encode_checkpoint
from broker.wire.records import Record, encode_batch, patch
from jepsen.history import History, Operation
from jepsen.processes.nodes import NodeProcess, Ports
from jepsen.processes.replica_logs import read_replicas
from jepsen.values import ReplicaLog, ReplicaRead


def batch(offset: int, *values: bytes) -> bytes:
    data = bytearray(encode_batch([Record(timestamp=0, key=None, value=value) for value in values]))
    patch(data, 0, offset, 3)
    return bytes(data)


def node(directory: Path) -> NodeProcess:
    return NodeProcess("n1", 1, directory, Ports(0, 0, 0, {}), {}, is_controller=True)


def read(directory: Path) -> list[Operation]:
    history = History(lambda: 0.0)
    read_replicas(node(directory), "queue", history)
    return history.operations


def write(directory: Path, name: str, content: bytes) -> None:
    path = directory / "data" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def test_batches_of_all_segments_with_their_digests(tmp_path: Path) -> None:
    write(tmp_path, "queue-0/00000000000000000000.log", batch(0, b"a", b"b") + batch(2, b"c"))
    write(tmp_path, "queue-0/00000000000000000003.log", batch(3, b"d"))
    write(tmp_path, "queue-11/00000000000000000000.log", batch(0, b"a", b"b"))
    write(tmp_path, REPLICATION_OFFSET_CHECKPOINT, encode_checkpoint(["queue 0 3", "queue 11 2", "other 0 9"]))
    first, eleventh = read(tmp_path)
    assert (first.value, eleventh.value) == (ReplicaRead("queue", 0, "n1"), ReplicaRead("queue", 11, "n1"))
    assert isinstance(first.result, ReplicaLog)
    assert first.result.high_watermark == 3
    assert [each[:2] for each in first.result.batches] == [(0, 2), (2, 3), (3, 4)]
    assert eleventh.result.batches == first.result.batches[:1]


def test_other_topics_and_stray_directories_are_left_out(tmp_path: Path) -> None:
    for name in ("other-0", "queue-more-0", "queue-0.0123-stray", "__cluster_metadata-0"):
        write(tmp_path, f"{name}/00000000000000000000.log", batch(0, b"a"))
    assert read(tmp_path) == []


def test_a_damaged_batch_is_told(tmp_path: Path) -> None:
    data = bytearray(batch(0, b"content"))
    data[-3] ^= 1
    write(tmp_path, "queue-0/00000000000000000000.log", bytes(data))
    (operation,) = read(tmp_path)
    assert operation.outcome.value == "fail"
