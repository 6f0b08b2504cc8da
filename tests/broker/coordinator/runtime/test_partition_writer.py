"""Several decisions share a batch without affecting the runtime's guarantees."""

from pathlib import Path

import attrs

from broker.coordinator.runtime.completion import Completion
from broker.coordinator.runtime.decision import CoordinatorRecord, Decision
from broker.coordinator.runtime.hosted_shard import Phase
from broker.wire.errors import ErrorCode
from broker.wire.records import iter_headers
from tests.support.coordinator_harness import (
    ONE_CONTROLLER,
    Registers,
    RegistersRuntime,
    append,
    code_of,
    coordinated,
    put,
    registers,
    reload,
    state_of,
)
from tests.support.replicated_topics import until_described

FOREVER_MS = 60_000


def batches(runtime: RegistersRuntime) -> list[int]:
    """The number of records in each batch of the coordinator's log."""
    log = runtime.partition.leader_log()
    part = log.read(0, 1 << 20, upper_bound=log.readable_end_offset, min_one_batch=True)
    return [header.count for _, header in iter_headers(part.file.read(part.position, part.size))]


async def until_all(runtime: RegistersRuntime, *completions: Completion[str]) -> None:
    await runtime.until(lambda: all(each.done for each in completions))


async def test_decisions_of_a_turn_are_one_batch(tmp_path: Path) -> None:
    async with registers(tmp_path, append_linger_ms=FOREVER_MS) as runtime:
        written = [runtime.write(put, name=f"name-{at}", value=str(at)) for at in range(5)]
        assert runtime.partition.leader_log().log_end_offset == 0
        runtime.partitions.end_turn()
        assert [each.outcome for each in written] == [""] * 5
        assert batches(runtime) == [5]


async def test_a_batch_is_no_larger_than_the_topic_allows(tmp_path: Path) -> None:
    async with registers(tmp_path, configs={"max.message.bytes": "500"}) as runtime:
        written = [runtime.write(put, name=f"name-{at}", value="x" * 100) for at in range(10)]
        runtime.partitions.end_turn()
        assert [each.outcome for each in written] == [""] * 10
        assert batches(runtime) == [3, 3, 3, 1]
        values = runtime.state.values
        reload(runtime)
        await runtime.active()
        assert runtime.state.values == values


async def test_large_decision_is_appended_after_earlier_ones(tmp_path: Path) -> None:
    async with registers(tmp_path, configs={"max.message.bytes": "500"}) as runtime:

        def decide(state: Registers, now_ms: int) -> Decision[str]:
            records = [CoordinatorRecord(b"a", b"%d" % at + b"x" * 100) for at in range(20)]
            return Decision(records, "done", atomic=False)

        first, many, last = (
            runtime.write(put, name="a", value="first"),
            runtime.write(decide),
            runtime.write(put, name="a", value="last"),
        )
        runtime.partitions.end_turn()
        assert (first.outcome, many.outcome, last.outcome) == ("", "done", "19" + "x" * 100)
        reload(runtime)
        await runtime.active()
        assert runtime.state.values == {"a": "last"}


async def test_shard_is_loaded_again_after_a_part_of_a_decision_was_appended(tmp_path: Path) -> None:
    async with registers(tmp_path, configs={"max.message.bytes": "500"}) as runtime:

        def decide(state: Registers, now_ms: int) -> Decision[str]:
            records = [CoordinatorRecord(b"small", b"x" * 300), CoordinatorRecord(b"large", b"x" * 500)]
            return Decision(records, "done", atomic=False)

        assert code_of(runtime.write(decide)) == ErrorCode.UNKNOWN_SERVER_ERROR
        assert runtime.runtime.phase(0) is Phase.LOADING
        runtime.partitions.end_turn()
        await runtime.active()
        assert runtime.state.values == {"small": "x" * 300}
        assert await runtime.put("small", "1") == "x" * 300


async def test_closed_shard_writes_nothing(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        written = runtime.write(put, name="a", value="1")
        reload(runtime)
        runtime.partitions.end_turn()
        assert code_of(written) == ErrorCode.NOT_COORDINATOR
        await runtime.active()
        assert runtime.state.values == {}


async def test_nothing_is_appended_after_another_writers_batch(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        written = runtime.write(put, name="a", value="1")
        append(runtime, state_of("a=2"))
        runtime.partitions.end_turn()
        assert code_of(written) == ErrorCode.NOT_COORDINATOR
        await runtime.active()
        assert await runtime.get("a") == "2"


async def test_decisions_are_held_while_followers_fetch_earlier_ones(tmp_path: Path) -> None:
    async with coordinated(tmp_path, append_linger_ms=FOREVER_MS) as (_, runtimes):
        runtime = runtimes[1]
        before = len(batches(runtime))
        first = runtime.write(put, name="a", value="1")
        runtime.partitions.end_turn()
        others = [runtime.write(put, name="a", value=str(at)) for at in (2, 3)]
        runtime.partitions.end_turn()
        assert batches(runtime)[before:] == [1]
        await until_all(runtime, first, *others)
        assert [each.outcome for each in (first, *others)] == ["", "1", "2"]
        assert batches(runtime)[before:] == [1, 2]


async def test_linger_0_appends_at_once(tmp_path: Path) -> None:
    async with coordinated(tmp_path, append_linger_ms=0) as (_, runtimes):
        runtime = runtimes[1]
        for at in range(3):
            runtime.write(put, name="a", value=str(at))
            runtime.partitions.end_turn()
        assert batches(runtime) == [1, 1, 1]


async def test_decision_is_appended_although_too_few_replicas_are_in_sync_by_then(tmp_path: Path) -> None:
    async with coordinated(tmp_path, ONE_CONTROLLER, append_linger_ms=1_500) as (cluster, runtimes):
        runtime = runtimes[1]
        for node_id in (2, 3):
            await cluster.nodes[node_id].crash()
        first = runtime.write(put, name="a", value="1")
        runtime.partitions.end_turn()
        second = runtime.write(put, name="a", value="2")
        runtime.partitions.end_turn()
        await until_described(cluster, 1, isr=[1])
        assert code_of(runtime.write(put, name="a", value="3")) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await runtime.until(lambda: batches(runtime) == [1, 1])
        assert not first.done
        assert not second.done
        await cluster.start(2)
        await until_all(runtime, first, second)
        assert (first.outcome, second.outcome) == ("", "1")


async def test_a_batch_may_be_as_large_as_the_topic_allows(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:

        def written_together() -> tuple[int, int]:
            """The number of batches and the size of two decisions of one turn."""
            log = runtime.partition.leader_log()
            count, size = len(batches(runtime)), log.segments.active.written
            for name in ("a", "b"):
                runtime.write(put, name=name, value="x" * 100)
            runtime.partitions.end_turn()
            return len(batches(runtime)) - count, log.segments.active.written - size

        count, size = written_together()
        assert count == 1
        log = runtime.partition.leader_log()
        for size_max, expected in ((size, 1), (size - 1, 2)):
            log.configure(attrs.evolve(log.config, max_message_bytes=size_max))
            assert written_together()[0] == expected
