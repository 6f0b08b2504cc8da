"""A minimal coordinator on the nodes of a test. Its state maps each key to its last value."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import trio

from broker.coordinator.runtime.completion import Completion
from broker.coordinator.runtime.decision import CoordinatorRecord, Decision
from broker.coordinator.runtime.hosted_shard import Phase
from broker.coordinator.runtime.runtime import CoordinatorRuntime, RuntimeSettings
from broker.coordinator.runtime.shard import ShardContext
from broker.net.deadlines import Deadlines
from broker.node import Node
from broker.replication.partition import Partition
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import Compression, Record, encode_batch, patch
from metadata.image import MetadataDelta, MetadataImage
from tests.support.replicated_topics import create_replicated
from tests.support.requests import create_topic
from tests.support.running_cluster import COMBINED, RunningCluster, running_cluster
from tests.support.running_node import Traced, running_node
from tests.support.wire_client import connected

T = TypeVar("T")
# With one controller, the quorum remains available after the death of both followers.
ONE_CONTROLLER: Mapping[int, str] = {1: COMBINED, 2: "broker", 3: "broker"}
TOPIC = "topic"
WITHIN_S = 20.0


class Registers:
    """The coordinator's shard: texts by name. `replayed` counts replayed records, `loads` the loads of the state."""

    def __init__(self, context: ShardContext) -> None:
        self.context = context
        self.values: dict[str, str] = {}
        self.undecided: dict[str, str] = {}
        self.waiting: list[Completion[str]] = []
        self.replayed = self.loads = 0
        self.deleted_topics: list[str] = []

    def replay(self, key: bytes, value: bytes | None, offset: int, producer_id: int = -1) -> None:
        assert value != b"poison", "a bug in a state machine"
        self.replayed += 1
        values = self.values if producer_id < 0 else self.undecided
        if value is None:
            values.pop(key.decode(), None)
        else:
            values[key.decode()] = value.decode()

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        if committed:
            self.values.update(self.undecided)
        self.undecided.clear()

    def loaded(self, now_ms: int) -> None:
        self.loads += 1

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.deleted_topics += [topic.name for topic in delta.topics.deleted.values()]


def put(state: Registers, now_ms: int, *, name: str, value: str) -> Decision[str]:
    """Set a register. The response is its previous value."""
    return Decision([CoordinatorRecord(name.encode(), value.encode())], state.values.get(name, ""))


def get(state: Registers, now_ms: int, *, name: str) -> str:
    return state.values.get(name, "")


def wait_for_put(state: Registers, now_ms: int) -> Decision[Completion[str]]:
    """Return a response that `put_and_tell` completes."""
    parked: Completion[str] = state.context.park()
    return Decision((), parked, lambda: state.waiting.append(parked))


def put_and_tell(state: Registers, now_ms: int, *, name: str, value: str) -> Decision[str]:
    def tell() -> None:
        waiting, state.waiting = state.waiting, []
        for parked in waiting:
            parked.complete(value)

    return Decision([CoordinatorRecord(name.encode(), value.encode())], "told", tell)


class RegistersRuntime:
    """A runtime on one node, and a test's requests to it.

    These requests are outside of a connection's turn, so the test commits them: `outcome` does it.
    """

    def __init__(
        self,
        node: Node,
        traced: Traced,
        nursery: trio.Nursery,
        *,
        write_timeout_ms: int = 5_000,
        load_buffer_bytes: int = 1 << 20,
        append_linger_ms: int = 5,
    ) -> None:
        assert node.broker is not None, "only brokers coordinate"
        assert node.loader is not None, "the node serves"
        self.partitions = node.broker.partitions
        self.traced = traced
        deadlines, self._loader = Deadlines(), node.loader
        settings = RuntimeSettings(
            topic=TOPIC,
            partition_count=1,
            write_timeout_ms=write_timeout_ms,
            load_buffer_bytes=load_buffer_bytes,
            compression=Compression.NONE,
            append_linger_ms=append_linger_ms,
        )
        self.states: list[Registers] = []
        self.now_ms = 1_700_000_000_000
        self.runtime = CoordinatorRuntime(
            settings,
            self._make_state,
            partitions=self.partitions,
            deadlines=deadlines,
            now_ms=lambda: self.now_ms,
            image=lambda: self.image,
            trace=traced,
        )
        self.partitions.when_led(self.runtime.leadership_changed)
        local = self.partitions.topic(TOPIC)
        self.runtime.leadership_changed([] if local is None else list(local.partitions.values()))
        nursery.start_soon(deadlines.run)
        nursery.start_soon(self.runtime.run)

    def _make_state(self, context: ShardContext) -> Registers:
        self.states.append(Registers(context))
        return self.states[-1]

    @property
    def image(self) -> MetadataImage:
        return self._loader.image

    @property
    def state(self) -> Registers:
        return self.states[-1]

    @property
    def partition(self) -> Partition:
        return self.partitions.get(TOPIC, 0)

    def write(self, decide: Callable[..., Decision[T]], **fields: Any) -> Completion[T]:
        return self.runtime.write(0, partial(decide, **fields))

    def read(self, name: str) -> Completion[str]:
        return self.runtime.read(0, partial(get, name=name))

    async def put(self, name: str, value: str) -> str:
        """Raises KafkaError."""
        return await self.outcome(self.write(put, name=name, value=value))

    async def get(self, name: str) -> str:
        """Raises KafkaError."""
        return await self.outcome(self.read(name))

    async def outcome(self, completion: Completion[T]) -> T:
        """End the turn, which commits appended records, and wait for the response. Raises KafkaError."""
        self.partitions.end_turn()
        done = trio.Event()
        completion.then(lambda outcome: done.set())
        with trio.fail_after(WITHIN_S):
            await done.wait()
        if isinstance(completion.outcome, KafkaError):
            raise completion.outcome
        return completion.outcome

    async def active(self) -> None:
        """Wait until this runtime coordinates the partition."""
        await self.until(lambda: self.runtime.phase(0) is Phase.ACTIVE)

    async def until(self, holds: Callable[[], bool]) -> None:
        with trio.fail_after(WITHIN_S):
            while not holds():
                await trio.sleep(0.005)


def code_of(completion: Completion[Any]) -> ErrorCode:
    """The error of a completion that has failed."""
    assert completion.done, "it is not known yet"
    assert isinstance(completion.outcome, KafkaError), completion.outcome
    return completion.outcome.code


@asynccontextmanager
async def registers(
    directory: Path, *, configs: dict[str, str] | None = None, **settings: Any
) -> AsyncIterator[RegistersRuntime]:
    """A coordinator on a node that keeps running when the coordinator's log directory fails."""
    placed = {"metadata_log_dir": str(directory / "metadata"), "log_dirs": f"{directory}/a,{directory}/b"}
    async with running_node(directory, **placed) as running, trio.open_nursery() as nursery:
        runtime = RegistersRuntime(running.node, running.traced, nursery, **settings)
        async with connected(running.port) as client:
            await create_topic(client, TOPIC, configs={"cleanup.policy": "compact", **(configs or {})})
        await runtime.active()
        yield runtime
        nursery.cancel_scope.cancel()


def append(runtime: RegistersRuntime, *batches: bytes) -> None:
    """Append to the coordinator's partition as another writer does. `batches` may include end markers of
    transactions.
    """
    partition = runtime.partition
    log = partition.leader_log()
    for each in batches:
        written = bytearray(each)
        patch(written, 0, log.log_end_offset, partition.leader_epoch)
        log.append_as_follower(memoryview(written), partition.leader_epoch, runtime.now_ms)
    partition.log_appended()


def reload(runtime: RegistersRuntime) -> None:
    """End the leadership of the partition, and start it again."""
    runtime.runtime._unload(0)
    runtime.runtime.leadership_changed([runtime.partition])


def state_of(text: str) -> bytes:
    name, _, value = text.partition("=")
    return encode_batch([Record(timestamp=0, key=name.encode(), value=value.encode())])


@asynccontextmanager
async def coordinated(
    directory: Path,
    roles: Mapping[int, str] | int = 3,
    write_timeout_ms: int = 10_000,
    append_linger_ms: int = 5,
) -> AsyncIterator[tuple[RunningCluster, dict[int, RegistersRuntime]]]:
    """A topic with three replicas, led by broker 1, and a runtime on each broker."""
    async with running_cluster(directory, roles) as cluster, trio.open_nursery() as nursery:
        await create_replicated(cluster, configs={"cleanup.policy": "compact", "min.insync.replicas": "2"})
        runtimes = {
            node_id: runtime_on(
                cluster, node_id, nursery, write_timeout_ms=write_timeout_ms, append_linger_ms=append_linger_ms
            )
            for node_id in cluster.nodes
        }
        await runtimes[1].active()
        yield cluster, runtimes
        nursery.cancel_scope.cancel()


def runtime_on(
    cluster: RunningCluster,
    node_id: int,
    nursery: trio.Nursery,
    *,
    write_timeout_ms: int = 10_000,
    append_linger_ms: int = 5,
) -> RegistersRuntime:
    node = cluster.nodes[node_id]
    assert node.node is not None, "it runs"
    return RegistersRuntime(
        node.node, node.traced, nursery, write_timeout_ms=write_timeout_ms, append_linger_ms=append_linger_ms
    )
