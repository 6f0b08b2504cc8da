"""Bits flip in the logs of running replicas: no acknowledged record is lost, and no wrong value is read."""

from collections.abc import Collection
from random import Random

import pytest
import trio

from broker.replication.partition import Partition
from broker.wire.records import iter_headers
from jepsen.history import History, Outcome
from jepsen.simulation.disk.tree import Directory, Inode
from jepsen.simulation.subjects.node_plan import KAFKA_PORT, FormattedNode
from jepsen.workloads.client import Client
from jepsen.workloads.committed_reader import read_committed_up_to
from tests.simulation.scenarios import Breach, Scenario, ScenarioRun, scenario_runs
from tests.simulation.scripted_clients import TOPIC
from tests.simulation.scripted_replicas import DIRECTORY, TIMEOUT_SECONDS, ScriptedReplicas, play

# The leader epoch in a batch, which no checksum covers: an epoch that is too low is not noticed.
LEADER_EPOCH_BYTES = range(12, 16)
# The bytes of a header that tell where the next batch is, and which offsets this one has.
PLACE_BYTES = (*range(12), 16, *range(23, 27))
BATCHES = 24
FLIPS = 4


def partition_of(stage: ScriptedReplicas, name: str) -> Partition:
    process = stage.host(name).process
    assert isinstance(process, FormattedNode)
    assert process.node is not None
    assert process.node.broker is not None
    return process.node.broker.partitions.get(TOPIC, 0)


def flip(stage: ScriptedReplicas, name: str, number: int, rng: Random, among: Collection[int] = range(1 << 20)) -> int:
    """Flip a bit of a batch, in the page cache and on the disk. Returns the offset of the batch.

    `among` are the bytes of a batch in which the bit may be.
    """
    directory = stage.host(name).volume.find(DIRECTORY)
    assert isinstance(directory, Directory)
    batches = [
        (file, at, header)
        for path, file in sorted(directory.entries.items())
        if path.endswith(".log") and isinstance(file, Inode)
        for at, header in iter_headers(bytes(file.cached))
    ]
    file, at, header = batches[number]
    bytes_allowed = [each for each in range(header.size) if each in among and each not in LEADER_EPOCH_BYTES]
    byte = at + rng.choice(bytes_allowed)
    bit = 1 << rng.randrange(8)
    for content in (file.cached, file.durable):
        if byte < len(content):
            content[byte] ^= bit
    return header.base_offset


async def bits_flip_one_after_the_other(stage: ScriptedReplicas) -> None:
    """Leaders and followers are hit, in closed and active segments, while records are produced and consumed."""
    await stage.lay_out(*stage.brokers, min_insync_replicas=2, internal_segment_bytes=800, index_interval_bytes=200)
    rng = stage.simulation.rng("flips")
    for number in range(BATCHES):
        await stage.produce(stage.brokers[0], f"m{number}")
    await read_all(stage)
    for number in range(FLIPS):
        await _flip_and_repair(stage, stage.brokers[rng.randrange(3)], rng.randrange(BATCHES), rng)
        assert stage.leader is not None
        await stage.in_sync(*stage.brokers, by=stage.leader)
        await stage.produce(stage.leader, f"after{number}")
        await read_all(stage)


async def _flip_and_repair(stage: ScriptedReplicas, name: str, number: int, rng: Random) -> None:
    before = {kind: len(stage.traced(kind, by=name)) for kind in ("partition_damaged", "partition_repaired")}

    def is_traced(kind: str) -> bool:
        return len(stage.traced(kind, by=name)) > before[kind]

    offset = flip(stage, name, number, rng)
    partition = partition_of(stage, name)
    while not is_traced("partition_damaged"):
        partition.tasks.check_log(partition, offset)
        await trio.sleep(1)  # the checks of what `read_all` has read come first
    await read_all(stage)
    await stage.until(lambda: is_traced("partition_repaired"), f"the damage at {offset} of {name} is not repaired")


async def read_all(stage: ScriptedReplicas) -> None:
    """Consume from each offset of each replica; `consume` compares the values with those of earlier reads."""
    for name in stage.brokers:
        for offset in range(0, BATCHES, 3):
            await stage.consume(name, offset)


async def a_deposed_leader_truncates_after_damage(stage: ScriptedReplicas) -> None:
    """Its log has a record that the new leader lacks. A batch before that is damaged, so that its place is hidden."""
    a, b, c = stage.brokers
    await stage.lay_out(a, b, c, min_insync_replicas=2)
    for number in range(8):
        await stage.produce(a, f"m{number}")
    stage.part(a, b, c)
    await stage.produce(a, "lost", acks=1)
    stage.part(a, stage.controller)
    await stage.until(lambda: stage.leader in (b, c), "no other broker leads")
    assert stage.leader is not None
    await stage.produce(stage.leader, "later")
    rng = stage.simulation.rng("flips")
    flip(stage, a, rng.randrange(8), rng, PLACE_BYTES)
    stage.mend(a, b, c, stage.controller)
    await stage.until(lambda: stage.traced("partition_truncated", by=a) != [], "the log is not truncated")
    await stage.in_sync(a, b, c, by=stage.leader)
    partition = partition_of(stage, a)
    while not stage.traced("partition_repaired", by=a):
        partition.tasks.check_log(partition, 0)
        await trio.sleep(1)


async def a_replica_that_is_behind_is_reachable(stage: ScriptedReplicas) -> None:
    """A follower in sync is damaged where another follower has no records yet."""
    a, b, c = stage.brokers
    await stage.lay_out(a, b, c, min_insync_replicas=2)
    for number in range(10):
        await stage.produce(a, f"m{number}")
    stage.kill(c)
    await stage.in_sync(a, b, by=a)
    for number in range(10, 20):
        await stage.produce(a, f"m{number}")
    stage.part(a, c)
    await stage.start(c)
    await stage.until(lambda: partition_of(stage, b).high_watermark == 20, f"{b} does not know what is committed")
    offset = flip(stage, b, 15, stage.simulation.rng("flips"))
    partition = partition_of(stage, b)
    partition.tasks.check_log(partition, offset)
    await stage.until(lambda: bool(stage.traced("partition_repaired", by=b)), "the damage is not repaired")
    stage.kill(a)
    await stage.leads(b)


@scenario_runs(
    Scenario(
        a_replica_that_is_behind_is_reachable,
        {"followers repair their logs from a replica that is behind": Breach("AcknowledgedRecordsStay")},
        is_watched=False,
    )
)
def test_repair_of_a_follower(scenario_run: ScenarioRun) -> None:
    assert scenario_run.violation() in scenario_run.expected


def test_reader_of_committed_records_refuses_a_flipped_bit_and_goes_on() -> None:
    """It records the damaged poll, so that a checker sees it, and reads the record once it is repaired."""
    polls: list[History] = []

    async def script(stage: ScriptedReplicas) -> None:
        a, b, _ = stage.brokers
        await stage.lay_out(a, b)
        for number in range(4):
            await stage.produce(a, f"m{number}")
        await stage.in_sync(a, b, by=a)
        flip(stage, a, 2, stage.simulation.rng("flips"))
        history = History(stage.simulation.clock.current_time, stage.simulation.trace.operation)
        servers = [(name, KAFKA_PORT) for name in (a, b)]
        rng, wall = stage.simulation.rng("reader"), stage.client.wall
        client = Client("reader", servers, history, rng, wall, lambda host: 0, lambda *where: 0)
        with trio.move_on_after(TIMEOUT_SECONDS):
            await stage.simulation.on(stage.client, read_committed_up_to, client, TOPIC, 0, 0, "m3")
        await stage.until(lambda: bool(stage.traced("partition_repaired", by=a)), "the damage is not repaired")
        polls.append(history)

    assert play(script).violation is None
    (history,) = polls
    assert list(history.of("poll", outcome=Outcome.FAIL)) != []
    values = [value for poll in history.of("poll", outcome=Outcome.OK) for _, value in poll.result]
    assert sorted(dict.fromkeys(values)) == ["m0", "m1", "m2", "m3"]


@pytest.mark.seeds(8)
def test_follower_truncates_its_log_after_damage_and_repairs_itself(seed: int) -> None:
    """It is neither restarted nor told to lose anything."""
    stage = play(a_deposed_leader_truncates_after_damage, seed=seed, is_watched=True)
    assert stage.violation is None
    assert len(stage.traced("process_started", by=stage.brokers[0])) == 1


@pytest.mark.seeds(8)
def test_flipped_bits_lose_and_change_nothing(seed: int) -> None:
    assert play(bits_flip_one_after_the_other, seed=seed).violation is None
