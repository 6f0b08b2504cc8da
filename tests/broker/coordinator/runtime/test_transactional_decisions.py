"""Decisions whose records belong to a producer's transaction, and the markers that end it."""

from pathlib import Path

from broker.coordinator.runtime.decision import CoordinatorRecord, Decision, Producer
from broker.coordinator.runtime.transaction_marker import TransactionMarker
from broker.wire.errors import ErrorCode
from tests.support.coordinator_harness import Registers, RegistersRuntime, code_of, put, registers, reload

PRODUCER = Producer(7, 0)


def put_within(state: Registers, now_ms: int, *, name: str, value: str) -> Decision[str]:
    return Decision([CoordinatorRecord(name.encode(), value.encode())], "pending", producer=PRODUCER)


def marker(*, commit: bool, epoch: int = 0, coordinator_epoch: int = 1) -> TransactionMarker:
    return TransactionMarker(PRODUCER.producer_id, epoch, commit, coordinator_epoch, 0)


async def end(runtime: RegistersRuntime, **fields: int) -> None:
    await runtime.outcome(runtime.runtime.complete_transaction(0, marker(**fields)))  # type: ignore[arg-type]


async def test_records_of_a_transaction_take_effect_when_it_is_committed(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        await runtime.put("a", "before")
        assert await runtime.outcome(runtime.write(put_within, name="a", value="within")) == "pending"
        assert await runtime.get("a") == "before"
        await end(runtime, commit=True)
        assert await runtime.get("a") == "within"
        await runtime.outcome(runtime.write(put_within, name="a", value="aborted"))
        await end(runtime, commit=False)
        assert await runtime.get("a") == "within"

        reload(runtime)
        await runtime.active()
        assert await runtime.get("a") == "within"


async def test_open_transaction_is_open_after_the_shard_was_loaded_again(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        await runtime.outcome(runtime.write(put_within, name="a", value="within"))
        reload(runtime)
        await runtime.active()
        assert await runtime.get("a") == ""
        await end(runtime, commit=True)
        assert await runtime.get("a") == "within"


async def test_decisions_and_markers_of_one_turn_keep_their_order(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        for decide, value in ((put, "1"), (put_within, "2"), (put, "3")):
            runtime.write(decide, name="a", value=value)
        ended = runtime.runtime.complete_transaction(0, marker(commit=True))
        assert not ended.done
        await runtime.outcome(ended)
        assert await runtime.get("a") == "2"
        before = await runtime.get("a")
        reload(runtime)
        await runtime.active()
        assert await runtime.get("a") == before


async def test_marker_of_a_fenced_producer_or_coordinator_is_refused(tmp_path: Path) -> None:
    async with registers(tmp_path) as runtime:
        await end(runtime, commit=True, epoch=3, coordinator_epoch=5)
        refused = runtime.runtime.complete_transaction(0, marker(commit=True, epoch=2))
        assert code_of(refused) == ErrorCode.INVALID_PRODUCER_EPOCH
        refused = runtime.runtime.complete_transaction(0, marker(commit=True, epoch=3, coordinator_epoch=4))
        assert code_of(refused) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert await runtime.put("a", "1") == "", "the shard goes on"
        assert code_of(runtime.runtime.complete_transaction(9, marker(commit=True))) == ErrorCode.NOT_COORDINATOR
