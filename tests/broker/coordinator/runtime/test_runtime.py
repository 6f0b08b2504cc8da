"""The runtime's guarantees: when state changes, when responses are sent, and how shards are loaded and closed."""

import gc
import weakref
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from broker.coordinator.runtime.completion import Completion, completed, failed, gather
from broker.coordinator.runtime.decision import CoordinatorRecord, Decision
from broker.coordinator.runtime.hosted_shard import Phase
from broker.coordinator.runtime.java_hash import java_hash
from broker.coordinator.runtime.timers import ShardTimers
from broker.net.deadlines import Deadlines
from broker.replication.role_changes import apply_image
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import EndTransactionMarker, Record, encode_batch, encode_end_transaction_marker
from metadata.image import MetadataDelta, PartitionImage
from metadata.records import RemoveTopicRecord
from tests.support.coordinator_harness import (
    TOPIC,
    Registers,
    append,
    code_of,
    get,
    put,
    put_and_tell,
    registers,
    reload,
    state_of,
    wait_for_put,
)


async def test_decision_is_replayed_at_once_and_answered_when_committed(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        written = runtime.write(put, name="a", value="1")
        assert runtime.state.values == {"a": "1"}
        assert not written.done
        runtime.partitions.end_turn()
        assert written.outcome == ""
        assert await runtime.put("a", "2") == "1"


async def test_uncommitted_state_is_not_answered(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        runtime.write(put, name="a", value="1")
        asked, refused = runtime.read("a"), runtime.write(refuse)
        assert not asked.done
        assert not refused.done
        runtime.partitions.end_turn()
        assert asked.outcome == "1"
        assert code_of(refused) == ErrorCode.ILLEGAL_GENERATION


def refuse(state: Registers, now_ms: int) -> Decision[None]:
    raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


async def test_refusal_is_freed_without_the_garbage_collector(tmp_path: Path) -> None:
    """The error's traceback held the frame that refers to the response: a reference cycle for each refused request."""
    async with registers(tmp_path) as runtime:
        gc.disable()
        try:
            refused = runtime.write(refuse)
            error = weakref.ref(refused.outcome)
            assert code_of(refused) == ErrorCode.ILLEGAL_GENERATION
            del refused
            assert error() is None
        finally:
            gc.enable()


async def test_read_of_committed_state_is_answered_at_once(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        await runtime.put("a", "1")
        assert runtime.read("a").outcome == "1"
        assert code_of(runtime.write(refuse)) == ErrorCode.ILLEGAL_GENERATION


async def test_responses_keep_the_order_of_requests(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        told: list[object] = []
        for at in range(3):
            runtime.write(put, name="a", value=str(at)).then(told.append)
            runtime.read("a").then(told.append)
        runtime.partitions.end_turn()
        assert told == ["", "0", "0", "1", "1", "2"]


async def test_a_decision_that_cannot_be_appended_changes_nothing(tmp_path: Path) -> None:
    async with registers(tmp_path, configs={"max.message.bytes": "500"}) as runtime:
        await runtime.put("a", "1")
        applied: list[int] = []

        def decide(state: Registers, now_ms: int) -> Decision[None]:
            records = [CoordinatorRecord(b"a", b"2"), CoordinatorRecord(b"b", b"x" * 500)]
            return Decision(records, None, lambda: applied.append(1))

        assert code_of(runtime.write(decide)) == ErrorCode.UNKNOWN_SERVER_ERROR
        assert (runtime.state.values, applied) == ({"a": "1"}, [])
        assert await runtime.put("a", "3") == "1"


async def test_decision_that_is_not_atomic_may_be_several_batches(tmp_path: Path) -> None:
    async with registers(tmp_path, configs={"max.message.bytes": "500"}) as runtime:

        def decide(state: Registers, now_ms: int) -> Decision[str]:
            records = [CoordinatorRecord(b"%d" % at, b"x" * 100) for at in range(20)]
            return Decision(records, "done", atomic=False)

        assert await runtime.outcome(runtime.write(decide)) == "done"
        assert len(runtime.state.values) == 20
        reload(runtime)
        await runtime.active()
        assert len(runtime.state.values) == 20


# Delayed responses


async def test_parked_response_leaves_when_the_completing_decision_is_committed(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        waiting = runtime.write(wait_for_put)
        runtime.partitions.end_turn()
        assert not waiting.done
        runtime.write(put_and_tell, name="a", value="1")
        assert not waiting.done
        runtime.partitions.end_turn()
        assert waiting.outcome == "1"


async def test_waiting_requests_fail_when_the_shard_is_closed(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        parked, written = runtime.write(wait_for_put), runtime.write(put, name="a", value="1")
        asked = runtime.read("a")
        runtime.runtime._unload(0)
        assert [code_of(each) for each in (parked, written, asked)] == [ErrorCode.NOT_COORDINATOR] * 3
        assert code_of(runtime.read("a")) == ErrorCode.NOT_COORDINATOR


async def test_shard_of_a_deposed_leader_completes_nothing_when_the_new_leaders_records_are_committed(
    tmp_path: Path,
) -> None:
    """Other records may be at the offsets of its own."""
    async with registers(tmp_path) as runtime:
        partition, other = runtime.partition, 9
        log, me = partition.leader_log(), partition.context.local_id
        # The controller may have recorded the log directory of the partition already, or not yet.
        shared = PartitionImage((me, other), (me, other), me, partition.leader_epoch, partition.partition_epoch + 1)
        apply_image(partition, shared)
        written = runtime.write(put, name="a", value="1")
        runtime.partitions.end_turn()
        assert (log.log_end_offset, partition.high_watermark) == (1, 0)
        apply_image(partition, attrs.evolve(shared, leader=other, leader_epoch=shared.leader_epoch + 1))
        partition.move_high_watermark(log, 1)
        assert not written.done
        assert code_of(runtime.read("a")) == ErrorCode.NOT_COORDINATOR, (
            "also before the runtime knows of the new leader"
        )
        runtime.runtime.leadership_changed([partition])
        assert code_of(written) == ErrorCode.NOT_COORDINATOR


async def test_shard_is_closed_when_its_log_directory_fails(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        parked = runtime.write(wait_for_put)
        written = runtime.write(put, name="a", value="1")
        partition = runtime.partition
        runtime.partitions.log_failed(partition, OSError("no disk any more"))
        assert code_of(written) == code_of(parked) == ErrorCode.NOT_COORDINATOR
        assert code_of(runtime.write(put, name="a", value="1")) == ErrorCode.NOT_COORDINATOR


async def test_response_may_lead_to_the_next_request_at_once(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        asked: list[Completion[str]] = []
        runtime.write(put, name="a", value="1").then(lambda _: asked.append(runtime.read("a")))
        runtime.write(put, name="b", value="2").then(lambda _: asked.append(runtime.write(put, name="c", value="3")))
        runtime.partitions.end_turn()
        assert asked[0].outcome == "1"
        assert not asked[1].done
        runtime.partitions.end_turn()
        assert asked[1].outcome == ""


# Loading


async def test_shard_is_loaded_from_the_log_and_refuses_requests_until_then(tmp_path: Path) -> None:
    async with registers(tmp_path, load_buffer_bytes=100) as runtime:
        for at in range(1, 100):
            await runtime.put(f"name-{at % 10}", str(at))
        former = runtime.state
        reload(runtime)
        assert code_of(runtime.read("name-1")) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await runtime.active()
        assert runtime.state is not former
        assert runtime.state.values == former.values
        assert runtime.state.loads == 1
        assert await runtime.put("name-1", "100") == "91"
        told = runtime.traced.of("coordinator_loaded")[-1]
        assert told["records"] == 99


async def test_records_with_a_later_one_of_the_same_key_are_not_replayed(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        for at in range(100):
            await runtime.put(f"name-{at % 10}", str(at))
        reload(runtime)
        await runtime.active()
        assert runtime.state.replayed == 10


async def test_transactions_are_replayed_in_their_order(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        append(
            runtime,
            state_of("a=before"),
            _transactional("a=within", sequence=0),
            state_of("a=between"),
            _end(is_commit=True),
            _transactional("a=aborted", sequence=1),
            _end(is_commit=False),
        )
        reload(runtime)
        await runtime.active()
        assert runtime.state.values == {"a": "within"}


def _transactional(text: str, *, sequence: int) -> bytes:
    name, _, value = text.partition("=")
    record = Record(timestamp=0, key=name.encode(), value=value.encode())
    return encode_batch([record], producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)


def _end(*, is_commit: bool) -> bytes:
    marker = EndTransactionMarker(is_commit, coordinator_epoch=0)
    return encode_end_transaction_marker(marker, timestamp=0, producer_id=7, producer_epoch=0)


async def test_metadata_changes_reach_a_shard_after_it_is_loaded(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        await runtime.put("a", "1")
        image = runtime.image
        delta = MetadataDelta(image)
        delta.replay([RemoveTopicRecord(topic_id=image.topics.by_name[TOPIC].topic_id)])
        runtime.runtime.publish(delta, image)
        assert runtime.state.deleted_topics == [TOPIC]
        reload(runtime)
        runtime.runtime.publish(delta, image)
        assert (runtime.state.loads, runtime.state.deleted_topics) == (0, [])
        await runtime.active()
        assert runtime.state.deleted_topics == [TOPIC]


async def test_shard_is_closed_if_its_log_cannot_be_replayed(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        append(runtime, state_of("a=poison"))
        reload(runtime)
        await runtime.until(lambda: bool(runtime.traced.of("coordinator_load_failed")))
        assert code_of(runtime.read("a")) == ErrorCode.NOT_COORDINATOR


async def test_shard_is_loaded_again_after_another_writers_append(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        await runtime.put("a", "1")
        append(runtime, state_of("a=2"))
        assert code_of(runtime.write(put, name="a", value="3")) == ErrorCode.NOT_COORDINATOR
        await runtime.active()
        assert await runtime.get("a") == "2"


async def test_shard_is_loaded_again_when_its_state_fails(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        await runtime.put("a", "1")

        def decide(state: Registers, now_ms: int) -> Decision[None]:
            return Decision([CoordinatorRecord(b"a", b"2")], None, _fail)

        with pytest.raises(ZeroDivisionError):
            runtime.write(decide)
        runtime.partitions.end_turn()
        await runtime.active()
        assert await runtime.get("a") == "1"


def _fail() -> None:
    raise ZeroDivisionError


# Timers


def put_by_timer(value: str) -> Any:
    return lambda state, now_ms: Decision(put(state, now_ms, name="timer", value=value).records, None)


async def test_a_timer_decides_in_a_turn_of_its_own(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        runtime.runtime.schedule(0, "key", 20, put_by_timer("due"))
        await runtime.until(lambda: runtime.state.values == {"timer": "due"})
        assert runtime.read("timer").outcome == "due"


async def test_shard_is_loaded_again_when_a_timer_fails(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        await runtime.put("a", "1")
        runtime.runtime.schedule(0, "key", 0, lambda state, now_ms: Decision((), None, _fail))
        await runtime.until(lambda: len(runtime.states) == 2)
        assert runtime.traced.of("coordinator_timer_failed")
        await runtime.active()
        assert await runtime.get("a") == "1"


async def test_timers_end_with_their_shard(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        runtime.runtime.schedule(0, "key", 30, put_by_timer("late"))
        reload(runtime)
        await runtime.active()
        runtime.runtime.schedule(0, "other", 60, lambda state, now_ms: put_by_timer("later")(state, now_ms))
        await runtime.until(lambda: bool(runtime.state.values))
        assert runtime.state.values == {"timer": "later"}
        assert runtime.state.replayed == 1


async def test_timers(autojump_clock: object) -> None:
    fired: list[tuple[object, object, float]] = []
    began = trio.current_time()
    deadlines = Deadlines()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.run)
        timers = ShardTimers(deadlines, lambda key, decide: fired.append((key, decide, trio.current_time() - began)))
        first, later, sooner = (put_by_timer(value) for value in ("first", "later", "sooner"))
        timers.schedule("put off", 1_000, first)
        timers.schedule("put off", 3_000, later)
        timers.schedule("sooner", 5_000, first)
        timers.schedule("sooner", 2_000, sooner)
        timers.schedule("cancelled", 1_000, first)
        timers.cancel("cancelled")
        timers.cancel("never scheduled")
        await trio.sleep(10)
        assert fired == [("sooner", sooner, 2.0), ("put off", later, 3.0)]
        timers.schedule("again", 1_000, first)
        timers.cancel_all()
        await trio.sleep(10)
        assert (len(fired), len(timers)) == (2, 0)
        nursery.cancel_scope.cancel()


# Parts


def test_the_partition_of_a_key_is_that_of_java() -> None:
    assert java_hash("") == 0
    assert java_hash("hello") == 99162322
    assert java_hash("console-consumer-39416") == abs(_slow_java_hash("console-consumer-39416"))
    assert java_hash("polygenelubricants") == 0  # Integer.MIN_VALUE, which has no absolute value
    assert java_hash("grüße-😀") == abs(_slow_java_hash("grüße-😀"))
    for length in (255, 256, 257, 1_000):
        assert java_hash("ß€z" * length) == abs(_slow_java_hash("ß€z" * length))


def _slow_java_hash(text: str) -> int:
    units = text.encode("utf-16-be")
    hashed = sum(
        int.from_bytes(units[at : at + 2]) * 31 ** ((len(units) - at) // 2 - 1) for at in range(0, len(units), 2)
    )
    return (hashed + 2**31) % 2**32 - 2**31


def test_completions() -> None:
    told: list[object] = []
    completion: Completion[int] = Completion()
    completion.then(told.append)
    completion.complete(1)
    completion.complete(2)
    completion.then(told.append)
    assert told == [1, 1]
    error = KafkaError(ErrorCode.NOT_COORDINATOR)
    late: Completion[int] = Completion()
    gathered = gather([completed(3), late, failed(error)])
    assert not gathered.done
    late.complete(4)
    assert gathered.outcome == [3, 4, error]
    assert gather([]).outcome == []


async def test_phases(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        assert runtime.runtime.led_partitions == [0]
        assert runtime.runtime.phase(0) is Phase.ACTIVE
        assert runtime.runtime.phase(1) is Phase.CLOSED
        assert get(runtime.state, 0, name="a") == ""
