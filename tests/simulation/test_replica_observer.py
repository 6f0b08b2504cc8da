"""The replica observer traces all committed records of simulated nodes, whatever happens to the nodes."""

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import trio

from broker.wire.errors import ErrorCode
from jepsen.simulation import Simulation
from jepsen.simulation.invariants.committed import Committed
from jepsen.simulation.replica_observer import ReplicaObserver
from jepsen.simulation.subjects.node_plan import LOG_DIRECTORIES
from jepsen.simulation.trace import Event
from jepsen.workloads.connection import Connection, ConnectionLost
from metadata.image import MetadataImage
from metadata.image.metadata_loader import MetadataLoader
from tests.simulation.scripted_clients import PRODUCE_VERSION
from tests.simulation.scripted_replicas import DIRECTORY, ScriptedReplicas, play


async def write(stage: ScriptedReplicas, connection: Connection) -> None:
    with suppress(ConnectionLost):
        await stage.ask_over(connection, stage.produce_request("third"), PRODUCE_VERSION)


def test_records_committed_just_before_the_log_directory_fails_count() -> None:
    """At the same time, the leader learns that all replicas have a record, notifies one of them, and its writes start
    to fail.

    The order of these is random.
    """
    committed_by_leader: list[bool] = []

    async def script(stage: ScriptedReplicas) -> None:
        a, b, c = stage.brokers
        await stage.lay_out(a, b, c, min_insync_replicas=2)
        assert await stage.produce(a, "first") is ErrorCode.NONE
        connection = await stage.connect(a)
        stage.start_soon(stage.produce, a, "second")
        await stage.has(b, "second")
        await stage.has(c, "second")
        stage.host(a).pause()
        await trio.sleep(0.1)
        stage.start_soon(write, stage, connection)
        await trio.sleep(0.1)
        stage.host(a).volume.broken = (DIRECTORY,)
        stage.host(a).resume()
        await stage.leads(b)
        told = [event.fields["high_watermark"] == 2 for event in stage.traced("replica_committed", by=a)]
        committed_by_leader.append(any(told))
        stage.kill(a)

    for seed in range(1, 30):
        assert play(script, seed=seed, is_watched=True, log_directories=LOG_DIRECTORIES).violation is None
        if committed_by_leader[-1]:
            return
    pytest.fail("it always writes first")


def test_metadata_that_a_node_has_applied_is_seen_when_its_process_ends() -> None:
    """The node may have committed records because the ISR became smaller: without its image they seem to be lacking."""
    simulation = Simulation("1")
    host = simulation.add_host("n1")
    loader = MetadataLoader()
    node: Any = SimpleNamespace(loader=loader, broker=None)
    committed = Committed({"n1": 1})
    observer = ReplicaObserver(simulation.trace, lambda _: node, committed, ())
    seen: list[Event] = []
    simulation.trace.listeners.append(seen.append)
    observer.observe([host])
    loader.image = attrs.evolve(MetadataImage(), offset=5)
    observer.observe_last(host)
    assert committed.image.offset == 5
    assert [(event.kind, event.fields) for event in seen] == [("metadata_seen", {"offset": 5})]
