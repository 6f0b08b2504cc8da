"""Who looks on sees all that nodes of a simulation have committed, whatever becomes of them."""

from contextlib import suppress

import trio

from broker.wire.errors import ErrorCode
from jepsen.simulation.subjects.node_plan import KAFKA_PORT, LOG_DIRECTORIES
from jepsen.workloads.connection import Connection, ConnectionLost
from tests.simulation.client_staging import PRODUCE_VERSION
from tests.simulation.replication_staging import DIRECTORY, ReplicaStage, play


def test_what_a_leader_commits_and_tells_just_before_its_log_directory_fails_counts() -> None:
    """It wakes to find that all have what it wrote, tells one of them, and cannot write any more, all at once."""
    committed: list[int] = []

    async def produces_when(sends: trio.Event, stage: ReplicaStage, name: str) -> None:
        """Over a connection of before."""
        connection = await Connection.open((name, KAFKA_PORT), 0)
        await sends.wait()
        with suppress(ConnectionLost):
            await connection.call(stage.produce_request("third"), PRODUCE_VERSION)
        await connection.aclose()

    async def script(stage: ReplicaStage) -> None:
        a, b, c = stage.brokers
        await stage.lay_out(a, b, c, min_insync_replicas=2)
        assert await stage.produce(a, "first") is ErrorCode.NONE
        sends = trio.Event()
        stage.start_soon(stage.simulation.on, stage.client, produces_when, sends, stage, a)
        stage.start_soon(stage.produce, a, "second")
        await stage.has(b, "second")
        await stage.has(c, "second")
        stage.host(a).pause()
        await trio.sleep(0.1)
        sends.set()
        await trio.sleep(0.1)
        stage.host(a).volume.broken = (DIRECTORY,)
        stage.host(a).resume()
        await stage.leads(b)
        told = [event for event in stage.traced("replica-committed") if event.fields["high_watermark"] == 2]
        committed.extend(stage.ids[event.host] for event in told)
        stage.kill(a)

    stage = play(script, is_watched=True, log_directories=LOG_DIRECTORIES)
    assert stage.violation is None
    assert committed[0] == stage.ids[stage.brokers[0]]
