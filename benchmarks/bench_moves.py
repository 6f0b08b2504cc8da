"""A thousand partitions that move: to other leaders after the death of a broker, and to other brokers under load.

    python -m benchmarks.bench_moves [kill] [move] [--partitions 1000] [--throttle-mb 5] [--fill-kb 100]

kill: three nodes, every partition with three replicas. Nodes are killed with SIGKILL, alternating between the active
controller and another node. Reports the times until the first and the last of the killed node's partitions has another
leader, as a client of another node sees it. Then the node is restarted, and all replicas get in sync.

move: five nodes, three replicas each. While a writer with acks=all runs, two replicas of every partition and its leader
move to other brokers, as fast as the throttles permit. Prints the decreasing number of moving partitions, and the bytes
that the brokers have received. At the end, every acknowledged record must be there once and in order, and nothing may
be left on the brokers that lost replicas; otherwise the exit code is 1.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs

from benchmarks import protocol, report, scattered_records
from benchmarks.clusters import Cluster, kraft_cluster
from benchmarks.numbered_records import Worker
from benchmarks.scattered_records import Scattered
from broker.client.payloads import decode_response, encode_request
from broker.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from broker.wire.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.wire.api.describe_quorum import DescribeQuorumRequest, RequestedPartition, RequestedTopic
from broker.wire.api.elect_leaders import ElectLeadersRequest
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic

TOPIC: Final = "moves"
FACTOR: Final = 3
KILLS: Final = 4
MOVING_NODES: Final = 5
# A client with an idempotent producer has five requests of one partition each in flight to a broker, which wait for
# each other. This rate is far below what that allows, so the result shows for how long partitions are unavailable.
RECORDS_PER_SECOND: Final = 100
RECORD_BYTES: Final = 200
FILL_RECORD_BYTES: Final = 10_000
LOOK_SECONDS: Final = 0.5
WARM_UP_SECONDS: Final = 5.0
QUIET_SECONDS: Final = 10.0
TIMEOUT_SECONDS: Final = 300.0
_TOPIC_RESOURCE: Final = 2
_BROKER_RESOURCE: Final = 4


class Admin:
    """Sends requests to one node."""

    def __init__(self, port: int) -> None:
        self._connection = protocol.Connection(port, timeout_s=60)

    def ask(self, request: Any, version: int) -> Any:
        payload = encode_request(request, version, "bench-moves")
        reply = self._connection.ask(len(payload).to_bytes(4) + payload)
        return decode_response(request, version, reply)

    def close(self) -> None:
        self._connection.__exit__()

    def create(self, replicas: Sequence[Sequence[int]]) -> None:
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(each))
            for index, each in enumerate(replicas)
        ]
        configs = [CreatableTopicConfig(name="min.insync.replicas", value="2")]
        topic = CreatableTopic(
            name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=configs
        )
        result = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7).topics[0]
        assert result.error_code == 0, result.error_message

    def described(self) -> Any:
        """The topic's part of a Metadata response."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
        return self.ask(request, 9)

    def leaders(self) -> list[int]:
        return [partition.leader_id for partition in self.described().topics[0].partitions]

    def in_sync(self, factor: int = FACTOR) -> int:
        """The number of partitions with this many replicas, all of them in sync."""
        return sum(
            len(partition.isr_nodes) == len(partition.replica_nodes) == factor
            for partition in self.described().topics[0].partitions
        )

    def reassign(self, replicas: Sequence[Sequence[int]]) -> None:
        partitions = [
            ReassignablePartition(partition_index=index, replicas=list(each)) for index, each in enumerate(replicas)
        ]
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=TOPIC, partitions=partitions)])
        response = self.ask(request, 1)
        wrong = [each for each in response.responses[0].partitions if each.error_code]
        assert not response.error_code, response.error_message
        assert not wrong, wrong[0].error_message

    def moving(self) -> int:
        topics = self.ask(ListPartitionReassignmentsRequest(), 0).topics
        return sum(len(topic.partitions) for topic in topics)

    def throttle(self, nodes: int, bytes_per_second: int | None) -> None:
        """Throttle all replicas of the topic, as Kafka's tool does; None removes the throttle."""
        operation = 1 if bytes_per_second is None else 0

        def configs(names: str, value: str | None) -> list[AlterableConfig]:
            return [
                AlterableConfig(name=f"{side}.replication.throttled.{names}", config_operation=operation, value=value)
                for side in ("leader", "follower")
            ]

        rate = None if bytes_per_second is None else str(bytes_per_second)
        resources = [
            AlterConfigsResource(
                resource_type=_BROKER_RESOURCE, resource_name=str(node_id), configs=configs("rate", rate)
            )
            for node_id in range(1, nodes + 1)
        ]
        all_of_them = None if bytes_per_second is None else "*"
        resources.append(
            AlterConfigsResource(
                resource_type=_TOPIC_RESOURCE, resource_name=TOPIC, configs=configs("replicas", all_of_them)
            )
        )
        for outcome in self.ask(IncrementalAlterConfigsRequest(resources=resources), 1).responses:
            assert outcome.error_code == 0, outcome.error_message


@contextmanager
def admin_of(cluster: Cluster, node_id: int) -> Iterator[Admin]:
    admin = Admin(cluster.by_id(node_id).port)
    try:
        yield admin
    finally:
        admin.close()


def striped(partitions: int, nodes: int, shift: int = 0) -> list[list[int]]:
    return [[(index + shift + each) % nodes + 1 for each in range(FACTOR)] for index in range(partitions)]


def _until(what: str, condition: Any, seconds: float = TIMEOUT_SECONDS) -> float:
    """Wait until a condition holds. Returns the seconds."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() > began + seconds:
            raise TimeoutError(f"{what}: not after {seconds:.0f} s")
        time.sleep(0.05)
    return time.monotonic() - began


# A broker dies


@attrs.frozen
class Kill:
    """`first_ms` and `last_ms` are the times until the first and the last partition of the dead broker had a new
    leader.
    """

    is_controller: bool
    led: int
    first_ms: float
    last_ms: float
    in_sync_s: float


def measure_kills(partitions: int) -> list[Kill]:
    with kraft_cluster() as cluster:
        with admin_of(cluster, 1) as admin:
            admin.create(striped(partitions, FACTOR))
            print(f"in sync {_until('in sync', lambda: admin.in_sync() == partitions):.1f} s after they were created")
        return [_kill(cluster, partitions, number % 2 == 0) for number in range(KILLS)]


def _kill(cluster: Cluster, partitions: int, is_controller: bool) -> Kill:
    controller = _controller(cluster)
    victim = controller if is_controller else controller % FACTOR + 1
    with admin_of(cluster, victim % FACTOR + 1) as admin:
        led = admin.leaders().count(victim)
        first = None
        began = time.monotonic()
        cluster.by_id(victim).kill()
        while True:
            orphans = admin.leaders().count(victim)
            elapsed_ms = 1000 * (time.monotonic() - began)
            if first is None and orphans < led:
                first = elapsed_ms
            if not orphans:
                break
        assert first is not None, "the last one is the first one at the latest"
        cluster.by_id(victim).launch()
        in_sync_s = _until("in sync again", lambda: admin.in_sync() == partitions)
        leaders_back = [index % FACTOR + 1 for index in range(partitions)]
        _until("with their preferred leaders", lambda: _elected(admin, leaders_back))
    kill = Kill(is_controller, led, first, elapsed_ms, in_sync_s)
    print(
        f"killed {'the controller' if is_controller else 'another node'}, which led {led}: first leader after "
        f"{first:.0f} ms, last after {elapsed_ms:.0f} ms; all in sync again {in_sync_s:.1f} s after its restart"
    )
    return kill


def _elected(admin: Admin, wanted: Sequence[int]) -> bool:
    admin.ask(ElectLeadersRequest(topic_partitions=None, timeout_ms=10_000), 2)
    return admin.leaders() == list(wanted)


def _controller(cluster: Cluster) -> int:
    topic = RequestedTopic(topic_name="__cluster_metadata", partitions=[RequestedPartition(partition_index=0)])
    with admin_of(cluster, 1) as admin:
        return int(admin.ask(DescribeQuorumRequest(topics=[topic]), 2).topics[0].partitions[0].leader_id)


# All partitions move


@attrs.frozen
class MoveProgress:
    """The progress at one time of the move. `received_mb` has the data of new replicas by broker."""

    seconds: float
    moving: int
    received_mb: Mapping[int, float]


@attrs.frozen
class MoveResult:
    """The observations of a move. Moments are by `time.monotonic`; CPU time by broker, in seconds."""

    began: float
    decided_ms: float
    looks: Sequence[MoveProgress]
    cpu_seconds: Mapping[int, float]
    written: Scattered

    @property
    def seconds(self) -> float:
        return self.looks[-1].seconds

    def figures(self) -> dict[str, Any]:
        received = self.looks[-1].received_mb
        return {
            "decided_ms": round(self.decided_ms),
            "moved_s": round(self.seconds, 1),
            "received_mb_per_s": {node_id: round(size / self.seconds, 2) for node_id, size in received.items()},
            "cpu_seconds": {node_id: round(used, 2) for node_id, used in self.cpu_seconds.items()},
            "acknowledged": len(self.written.acknowledged),
            "failed": self.written.fates.count(-1),
            "latency_before_ms": _percentiles(self.written.latencies_ms(self.began - QUIET_SECONDS, self.began)),
            "latency_ms": _percentiles(self.written.latencies_ms(self.began, self.began + self.seconds)),
        }


def measure_moves(partitions: int, throttle_mb: float, fill_kb: int) -> tuple[dict[str, Any], int]:
    """Measure the move. Returns the figures and the exit code."""
    with kraft_cluster(nodes=MOVING_NODES) as cluster, admin_of(cluster, 1) as admin:
        before, after = striped(partitions, MOVING_NODES), striped(partitions, MOVING_NODES, FACTOR)
        admin.create(before)
        _until("in sync", lambda: admin.in_sync() == partitions)
        scattered_records.fill(cluster.bootstrap, TOPIC, partitions, 1000 * fill_kb, FILL_RECORD_BYTES)
        if throttle_mb:
            admin.throttle(MOVING_NODES, int(throttle_mb * 1e6))
        moved = _move(cluster, admin, before, after)
        _until("in sync", lambda: admin.in_sync() == partitions)
        found = scattered_records.read_all(cluster.bootstrap, TOPIC, partitions)
        lost = [f"record {each} is lost" for each in moved.written.acknowledged if each not in found.seen]
        wrongs = [*found.wrongs, *lost, *_misplaced(cluster, after)]
    for wrong in wrongs[:20]:
        print(f"WRONG: {wrong}")
    figures = {"partitions": partitions, "throttle_mb": throttle_mb, **moved.figures(), "wrong": len(wrongs)}
    return figures, 1 if wrongs else 0


def _move(
    cluster: Cluster, admin: Admin, before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]
) -> MoveResult:
    """Move all partitions while a writer runs, which starts some time before and ends some time after the move."""
    work = (cluster.bootstrap, TOPIC, len(before), RECORD_BYTES, RECORDS_PER_SECOND)
    with Worker[Scattered](scattered_records.write, *work) as writer:
        time.sleep(WARM_UP_SECONDS + QUIET_SECONDS)
        cpu, began = _cpu(cluster), time.monotonic()
        admin.reassign(after)
        decided_ms = 1000 * (time.monotonic() - began)
        looks = _follow(cluster, admin, began, before, after)
        used = {node_id: spent - cpu[node_id] for node_id, spent in _cpu(cluster).items()}
        time.sleep(3)
        return MoveResult(began, decided_ms, looks, used, writer.finish())


def _percentiles(latencies: Sequence[float]) -> dict[str, float]:
    """Percentiles of latencies, which are in ascending order."""
    places = {"p50": len(latencies) // 2, "p99": len(latencies) * 99 // 100, "max": len(latencies) - 1}
    return {name: round(latencies[place], 1) for name, place in places.items()}


def _follow(
    cluster: Cluster, admin: Admin, began: float, before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]
) -> list[MoveProgress]:
    new = {
        node_id: [
            index
            for index, (old, replicas) in enumerate(zip(before, after, strict=True))
            if node_id in replicas and node_id not in old
        ]
        for node_id in range(1, MOVING_NODES + 1)
    }
    looks: list[MoveProgress] = []
    while not looks or looks[-1].moving:
        moving = admin.moving()
        sizes = {
            node_id: sum(_size(cluster.by_id(node_id).data / f"{TOPIC}-{index}") for index in indexes) / 1e6
            for node_id, indexes in new.items()
        }
        looks.append(MoveProgress(time.monotonic() - began, moving, sizes))
        by_node = " ".join(f"{size:7.1f}" for size in sizes.values())
        print(f"{looks[-1].seconds:6.1f} s: {moving:5d} moving; received, MB: {by_node}")
        if looks[-1].seconds > TIMEOUT_SECONDS:
            raise TimeoutError("the partitions do not arrive")
        time.sleep(LOOK_SECONDS)
    return looks


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*.log"))


def _misplaced(cluster: Cluster, after: Sequence[Sequence[int]]) -> list[str]:
    """Directories of partitions that are missing, or that exist on a broker without this replica."""
    wrongs = []
    for node_id in range(1, MOVING_NODES + 1):
        there = {path.name for path in cluster.by_id(node_id).data.iterdir() if path.name.startswith(TOPIC)}
        wanted = {f"{TOPIC}-{index}" for index, replicas in enumerate(after) if node_id in replicas}
        wrongs += [f"{name} is on broker {node_id}" for name in sorted(there - wanted)]
        wrongs += [f"{name} is not on broker {node_id}" for name in sorted(wanted - there)]
    return wrongs


def _cpu(cluster: Cluster) -> dict[int, float]:
    return {member.place.node_id: member.cpu_seconds() for member in cluster.members}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_moves")
    parser.add_argument("parts", nargs="*", default=[], choices=[[], "kill", "move"], metavar="kill|move")
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--throttle-mb", type=float, default=5, help="per broker and second, each way; 0 for none")
    parser.add_argument("--fill-kb", type=int, default=100, help="what every partition holds beforehand")
    options = parser.parse_args(arguments)
    parts, code, data = options.parts or ["kill", "move"], 0, dict[str, object]()
    if "kill" in parts:
        data["kills"] = [attrs.asdict(kill) for kill in measure_kills(options.partitions)]
    if "move" in parts:
        figures, code = measure_moves(options.partitions, options.throttle_mb, options.fill_kb)
        data["move"] = figures
        for name, value in figures.items():
            print(f"{name:18} {value}")
    print(report.save("moves", data))
    return code


if __name__ == "__main__":
    sys.exit(main())
