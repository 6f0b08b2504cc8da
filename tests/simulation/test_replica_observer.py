"""The replica observer traces all committed records of simulated nodes, whatever happens to the nodes."""

from contextlib import suppress

import pytest
import trio

from broker.client import ConnectionLost
from broker.wire.errors import ErrorCode
from jepsen.simulation.subjects.data import node_on
from jepsen.simulation.subjects.node_plan import LOG_DIRECTORIES
from jepsen.simulation.trace import Event
from jepsen.workloads.connection import Connection
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


IGNORED = "log.retention.ms"


def test_metadata_that_a_node_has_applied_is_seen_when_its_process_ends() -> None:
    """The node may have committed records because the ISR became smaller: without its image they seem to be lacking.

    The only controller is killed while it publishes a change: no node has published the change before, and no observer
    sees the controller's image afterwards.
    """
    published: list[int] = []

    async def script(stage: ScriptedReplicas) -> None:
        controller = stage.host(stage.controller)

        def kill_within_publication(event: Event) -> None:
            if (event.kind, event.host) == ("dynamic_configs_ignored", stage.controller) and not published:
                node = node_on(controller)
                assert node is not None
                assert node.loader is not None
                assert offsets_seen(stage)[-1] < node.loader.image.offset, "it is seen already"
                published.append(node.loader.image.offset)
                stage.kill(stage.controller)

        await stage.lay_out(*stage.brokers)
        stage.simulation.trace.listeners.append(kill_within_publication)
        stage.start_soon(set_ignored_config, stage)
        await stage.until(lambda: bool(published), "the config is not published")
        assert not controller.is_serving
        await trio.sleep(0.1)
        assert stage.traced("metadata_seen")[-1].host == stage.controller
        assert offsets_seen(stage)[-1] == published[0]
        await stage.start(stage.controller)

    stage = play(script, is_watched=True, overrides={"dynamic.configs.ignored": IGNORED})
    assert stage.violation is None
    ended = stage.events.index(stage.traced("process_killed", by=stage.controller)[0])
    assert stage.events[ended - 1] is seen_at(stage, published[0]), "it is the last that is seen of the process"


def offsets_seen(stage: ScriptedReplicas) -> list[int]:
    return [int(str(event.fields["offset"])) for event in stage.traced("metadata_seen")]


def seen_at(stage: ScriptedReplicas, offset: int) -> Event:
    return stage.traced("metadata_seen")[offsets_seen(stage).index(offset)]


async def set_ignored_config(stage: ScriptedReplicas) -> None:
    with suppress(ConnectionLost):
        await stage.set_config_of_all_brokers(stage.brokers[0], IGNORED, "1000")
