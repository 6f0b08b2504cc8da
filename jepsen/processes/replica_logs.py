"""The logs of a topic's partitions on the disks of stopped nodes, read from the files."""

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final

from broker.storage.checkpoints import REPLICATION_OFFSET_CHECKPOINT, decode_checkpoint
from broker.wire.errors import WireError
from broker.wire.records import check_crc, iter_headers
from jepsen.history import History
from jepsen.processes.nodes import NodeProcess
from jepsen.values import ReplicaLog, ReplicaRead

_DIGEST_BYTES: Final = 8


def read_replicas(node: NodeProcess, topic: str, history: History) -> None:
    """All of the topic that this node has, each as an operation of the history."""
    high_watermarks = _high_watermarks(node.data / REPLICATION_OFFSET_CHECKPOINT)
    for directory in sorted(node.data.glob(f"{topic}-*")):
        name, _, partition = directory.name.rpartition("-")
        if name != topic or not partition.isdecimal():
            continue  # put aside, or to be removed
        operation = history.invoke(node.name, "read-replica", ReplicaRead(topic, int(partition), node.name))
        try:
            batches = tuple(_batches(directory))
        except WireError as error:
            history.fail(operation, str(error))
            continue
        high_watermark = high_watermarks.get((topic, int(partition)), 0)
        history.ok(operation, ReplicaLog(high_watermark, batches))


def _batches(directory: Path) -> Iterator[tuple[int, int, str]]:
    """Raises WireError."""
    for path in sorted(directory.glob("*.log")):
        content = memoryview(path.read_bytes())
        for at, header in iter_headers(content):
            check_crc(content, at, header)
            digest = blake2b(content[at : at + header.size], digest_size=_DIGEST_BYTES)
            yield header.base_offset, header.next_offset, digest.hexdigest()


def _high_watermarks(path: Path) -> dict[tuple[str, int], int]:
    if not path.exists():
        return {}
    entries = (line.rsplit(" ", 2) for line in decode_checkpoint(path.read_bytes(), str(path)))
    return {(topic, int(partition)): int(offset) for topic, partition, offset in entries}
