"""Flips one bit in each kind of file of a running cluster, on the leader's and on a follower's disk.

`python -m tests.support.running_flips` prints the table of docs/damaged-files.md. Three nodes scrub their files every
two seconds; a consumer reads all records meanwhile, and checks them.
"""

import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import attrs
import trio

from broker.client import Admin, ClientError, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from broker.wire.errors import KafkaError, WireError
from broker.wire.records import iter_headers
from tests.support.running_admin import bootstrap_servers
from tests.support.running_cluster import RunningCluster, running_cluster

SCRUB_INTERVAL_S: Final = 2.0
SETTINGS: Final[Mapping[str, str]] = {
    "log.initial.task.delay.ms": "0",
    "log.scrub.interval.ms": f"{SCRUB_INTERVAL_S * 1000:.0f}",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "metadata.log.max.record.bytes.between.snapshots": "3000",
}
_TOPIC: Final = "orders"
_TOPIC_CONFIGS: Final = {"internal.segment.bytes": "1000", "index.interval.bytes": "100", "min.insync.replicas": "2"}
RECORDS: Final = 40
REPAIRED_WITHIN_S: Final = 40.0
CLOSED, ACTIVE = 0, -1
# The name in the table, the pattern of the path, and the match to use: the first one or the last one.
FILES: Final[Mapping[str, tuple[str, int]]] = {
    "segment, closed": (f"{_TOPIC}-0/*.log", CLOSED),
    "segment, active": (f"{_TOPIC}-0/*.log", ACTIVE),
    "segment of __consumer_offsets": ("__consumer_offsets-0/*.log", ACTIVE),
    "segment of __transaction_state": ("__transaction_state-0/*.log", ACTIVE),
    ".index, closed": (f"{_TOPIC}-0/*.index", CLOSED),
    ".index, active": (f"{_TOPIC}-0/*.index", ACTIVE),
    ".timeindex, closed": (f"{_TOPIC}-0/*.timeindex", CLOSED),
    ".timeindex, active": (f"{_TOPIC}-0/*.timeindex", ACTIVE),
    ".txnindex": (f"{_TOPIC}-0/*.txnindex", CLOSED),
    ".snapshot of producers": (f"{_TOPIC}-0/*.snapshot", ACTIVE),
    "leader-epoch-checkpoint": (f"{_TOPIC}-0/leader-epoch-checkpoint", CLOSED),
    "partition.metadata": (f"{_TOPIC}-0/partition.metadata", CLOSED),
    "recovery-point-offset-checkpoint": ("recovery-point-offset-checkpoint", CLOSED),
    "replication-offset-checkpoint": ("replication-offset-checkpoint", CLOSED),
    "meta.properties": ("meta.properties", CLOSED),
    "metadata log": ("__cluster_metadata-0/*.log", ACTIVE),
    "metadata snapshot": ("__cluster_metadata-0/*.checkpoint", ACTIVE),
    "quorum-state": ("__cluster_metadata-0/quorum-state", CLOSED),
    "durable-end": ("__cluster_metadata-0/durable-end", CLOSED),
}
_SAID_BY: Final = ("partition_damaged", "storage_file_rebuilt", "metadata_file_rebuilt", "metadata_file_damaged")
_REPAIRED_BY: Final = ("partition_repaired", "storage_file_rebuilt", "metadata_file_rebuilt")


@attrs.frozen
class RunningFlip:
    """The result of one flipped bit: the events that told of it, the seconds until then and until it was repaired."""

    said: str
    found_s: float
    repaired_s: float
    wrong_values: int

    @property
    def cell(self) -> str:
        """The cell of the table, without times, which differ from run to run."""
        how = "from the leader" if self.said == "partition_damaged" else "at once"
        return f"`{self.said}`, repaired {how}" + (f", {self.wrong_values} wrong values" if self.wrong_values else "")


@attrs.define
class FlippedCluster:
    """A running cluster with a filled topic. `directory` has the nodes' directories."""

    cluster: RunningCluster
    directory: Path
    values: Sequence[bytes]

    @property
    def servers(self) -> str:
        return ",".join(bootstrap_servers(self.cluster))

    async def leader(self, topic: str) -> int:
        """The leader of the topic's only partition, or the active controller for the metadata."""
        if topic == "__cluster_metadata":
            return (await self.cluster.active_after()).node_id
        async with Admin(self.servers) as admin:
            (described,) = (await admin.describe_topics([topic])).succeeded.values()
        leader = described.partitions[0].leader
        assert leader is not None, "three nodes run"
        return leader

    async def flip(self, name: str, *, of_leader: bool) -> RunningFlip:
        """Flip a bit in a file, and wait until a node says that it is repaired."""
        pattern, index = FILES[name]
        topic = pattern.partition("/")[0].removesuffix("-0") if "/" in pattern else _TOPIC
        leader = await self.leader(topic)
        node = self.cluster.nodes[leader if of_leader else leader % len(self.cluster.nodes) + 1]
        path = await self._file(node.node_id, pattern, index)
        before = len(node.traced.events)
        flip_middle(path)
        flipped_at = trio.current_time()
        times: dict[str, float] = {}
        wrong = 0
        with trio.fail_after(REPAIRED_WITHIN_S):
            while "repaired" not in times:
                wrong += await self._wrong_values()
                for kind, fields in node.traced.events[before:]:
                    if kind in _SAID_BY and fields["path"] == str(path):
                        times.setdefault(kind, trio.current_time() - flipped_at)
                    if kind in _REPAIRED_BY and fields.get("path", str(path)) == str(path):
                        times.setdefault("repaired", trio.current_time() - flipped_at)
                await trio.sleep(0.05)
        said = next(iter(times))
        return RunningFlip(said, times[said], times["repaired"], wrong)

    async def _file(self, node_id: int, pattern: str, index: int) -> Path:
        """Wait until a node has a file of a pattern that is not empty, and return its path."""
        directory = self.directory / f"node-{node_id}"
        with trio.fail_after(REPAIRED_WITHIN_S):
            while not (found := [each for each in sorted(directory.glob(pattern)) if each.stat().st_size]):
                await trio.sleep(0.05)
        return found[index]

    async def _wrong_values(self) -> int:
        """The number of values that a consumer of committed records reads and that were never written."""
        read: list[bytes | None] = []
        with trio.move_on_after(2), suppress(ClientError, KafkaError, WireError):
            async with Consumer(
                self.servers, auto_offset_reset="earliest", isolation_level="read_committed"
            ) as consumer:
                consumer.assign([TopicPartition(_TOPIC, 0)])
                while len(read) < len(self.values):
                    read += [record.value for record in await consumer.fetch(timeout_s=0.5)]
        return sum(value != expected for value, expected in zip(read, self.values, strict=False))


def flip_middle(path: Path) -> None:
    """Flip a bit in the middle of a file; in a segment, in the last byte of the batch there, which is a record's."""
    content = path.read_bytes()
    at = len(content) // 2
    if path.suffix == ".log" and "__cluster_metadata" not in str(path):
        batches = [(start, header) for start, header in iter_headers(content) if start <= at]
        start, header = batches[-1]
        at = start + header.size - 2
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes([content[at] ^ 1]))


@asynccontextmanager
async def flipped_cluster(directory: Path) -> AsyncIterator[FlippedCluster]:
    """Three nodes with a topic of 40 records, in transactions of which some are aborted, and committed offsets."""
    async with running_cluster(directory, overrides=SETTINGS) as cluster:
        servers = ",".join(bootstrap_servers(cluster))
        async with Admin(servers) as admin:
            topic = NewTopic(_TOPIC, num_partitions=1, replication_factor=3, configs=_TOPIC_CONFIGS)
            (await admin.create_topics([topic])).raise_first()
        await cluster.until_images_match()
        values = [b"%d" % number for number in range(RECORDS)]
        async with Producer(servers, transactional_id="orders") as producer:
            for number, value in enumerate(values):
                if number % 10 == 5:
                    with suppress(_Abort):
                        async with producer.transaction():
                            await producer.send(_TOPIC, b"aborted")
                            raise _Abort
                async with producer.transaction():
                    await producer.send(_TOPIC, value)
        async with Consumer(servers, group_id="readers", enable_auto_commit=False) as consumer:
            consumer.assign([TopicPartition(_TOPIC, 0)])
            for offset in range(5):
                await consumer.commit({TopicPartition(_TOPIC, 0): OffsetAndMetadata(offset)})
        yield FlippedCluster(cluster, directory, values)


class _Abort(Exception):
    """Aborts a transaction."""


async def table(names: Sequence[str] = tuple(FILES)) -> list[str]:
    """The lines of the table. Times are printed to standard error."""
    rows = ["| flipped bit in | of the leader | of a follower |", "|---|---|---|"]
    with tempfile.TemporaryDirectory() as root:
        async with flipped_cluster(Path(root)) as flipped:
            for name in names:
                cells = []
                for of_leader in (True, False):
                    found = await flipped.flip(name, of_leader=of_leader)
                    print(name, "leader" if of_leader else "follower", found, file=sys.stderr, flush=True)
                    cells.append(found.cell)
                rows.append(f"| {name} | {cells[0]} | {cells[1]} |")
    return rows


if __name__ == "__main__":
    print("\n".join(trio.run(table)))
