"""A coordinator's partition with several replicas: when responses are sent, and how state follows leadership."""

from pathlib import Path

import trio

from broker.coordinator.runtime.decision import Decision
from broker.coordinator.runtime.hosted_shard import Phase
from broker.wire.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from broker.wire.errors import ErrorCode
from tests.support.coordinator_harness import (
    ONE_CONTROLLER,
    TOPIC,
    Registers,
    code_of,
    coordinated,
    put,
    put_and_tell,
    runtime_on,
    wait_for_put,
)
from tests.support.replicated_topics import until_described, until_led_by_another
from tests.support.running_cluster import RunningCluster
from tests.support.wire_client import connected

PREFERRED = 0


async def test_response_waits_for_the_in_sync_replicas(tmp_path: Path) -> None:
    async with coordinated(tmp_path, write_timeout_ms=1_000) as (cluster, runtimes):
        runtime = runtimes[1]
        assert await runtime.put("a", "1") == ""
        parked = runtime.write(wait_for_put)
        for node_id in (2, 3):  # and with them the quorum, so that the leader and its ISR do not change
            await cluster.nodes[node_id].crash()
        written = runtime.write(put, name="a", value="2")
        asked = runtime.read("a")
        told = runtime.write(put_and_tell, name="b", value="3")
        runtime.partitions.end_turn()
        assert runtime.state.values == {"a": "2", "b": "3"}
        for completion in (written, asked, parked, told):
            assert not completion.done
        for completion in (written, asked, parked, told):
            await runtime.until(lambda completion=completion: completion.done)
            assert code_of(completion) == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_callback_of_a_commit_waits_longer_than_the_response(tmp_path: Path) -> None:
    async with coordinated(tmp_path, ONE_CONTROLLER, write_timeout_ms=500) as (cluster, runtimes):
        runtime, followed = runtimes[1], list[str]()

        def decide(state: Registers, now_ms: int) -> Decision[None]:
            records = put(state, now_ms, name="a", value="1").records
            return Decision(records, None, committed=lambda: followed.append(state.values["a"]))

        for node_id in (2, 3):
            await cluster.nodes[node_id].crash()
        written = runtime.write(decide)
        runtime.partitions.end_turn()
        await runtime.until(lambda: written.done)
        assert code_of(written) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert followed == []
        await cluster.start(2)
        await runtime.until(lambda: followed == ["1"])


async def test_decisions_are_refused_while_too_few_replicas_are_in_sync(tmp_path: Path) -> None:
    async with coordinated(tmp_path, ONE_CONTROLLER) as (cluster, runtimes):
        runtime = runtimes[1]
        await runtime.put("a", "1")
        for node_id in (2, 3):
            await cluster.nodes[node_id].crash()
        await until_described(cluster, 1, isr=[1])
        assert code_of(runtime.write(put, name="a", value="2")) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert runtime.state.values == {"a": "1"}
        runtime.runtime.schedule(0, "timer", 0, put_by_timer)
        await runtime.until(lambda: bool(runtime.traced.of("coordinator_timer_repeated")))
        assert runtime.state.values == {"a": "1"}
        await cluster.start(2)
        await runtime.until(lambda: runtime.state.values == {"a": "1", "timer": "1"})
        assert await runtime.get("timer") == "1"


def put_by_timer(state: Registers, now_ms: int) -> Decision[None]:
    return Decision(put(state, now_ms, name="timer", value="1").records, None)


async def test_state_moves_with_leadership(tmp_path: Path) -> None:
    async with coordinated(tmp_path) as (cluster, runtimes), trio.open_nursery() as nursery:
        for at in range(20):
            await runtimes[1].put(f"name-{at % 5}", str(at))
        expected = dict(runtimes[1].state.values)
        await cluster.nodes[1].crash()
        leader = (await until_led_by_another(cluster, 2, 1)).leader_id
        await runtimes[leader].active()
        assert runtimes[leader].state.values == expected
        assert await runtimes[leader].put("name-0", "new") == "15"

        await cluster.start(1)
        await until_described(cluster, leader, isr=[1, 2, 3])
        runtimes[1] = runtime_on(cluster, 1, nursery)
        assert code_of(runtimes[1].read("name-0")) == ErrorCode.NOT_COORDINATOR
        parked = runtimes[leader].write(wait_for_put)
        await elect_preferred(cluster)
        await runtimes[1].active()
        assert await runtimes[1].get("name-0") == "new"
        await runtimes[leader].until(lambda: parked.done)
        assert code_of(parked) == ErrorCode.NOT_COORDINATOR
        assert runtimes[leader].runtime.phase(0) is Phase.CLOSED
        nursery.cancel_scope.cancel()


async def elect_preferred(cluster: RunningCluster) -> None:
    named = [TopicPartitions(topic=TOPIC, partitions=[0])]
    async with connected(cluster.port(1)) as client:
        response = await client.call(ElectLeadersRequest(election_type=PREFERRED, topic_partitions=named), 2)
    assert response.error_code == 0
