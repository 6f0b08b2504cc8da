"""No record is lost, duplicated or reordered, for any behaviour of connections and brokers."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.client.producer.sequences import EPOCH_MAX, Identity, PartitionSequences
from broker.client.types import RecordMetadata, TopicPartition
from broker.wire.errors import ErrorCode
from tests.support.produce_model import LIMITS, ProduceModel

Step = tuple[str, int]

# Each step with a number, which selects a partition or a node, or is a count.
STEPS: dict[str, Callable[[ProduceModel, int], None]] = {
    "add": lambda model, number: model.add(number % 2, 1 + number % 5),
    "drain": lambda model, number: model.drain(),
    "serve": lambda model, number: model.serve(number % 2),
    "serve and answer": lambda model, number: (model.serve(number % 2), model.answer(number % 2)),  # type: ignore[func-returns-value]
    "answer": lambda model, number: model.answer(number % 2),
    "refuse": lambda model, number: model.serve(number % 2, ErrorCode.NOT_ENOUGH_REPLICAS),
    "append and refuse": lambda model, number: model.serve(
        number % 2, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, after_append=True
    ),
    "fail": lambda model, number: model.serve(number % 2, ErrorCode.INVALID_RECORD),
    "break": lambda model, number: model.break_connection(number % 2),
    "move": lambda model, number: model.move_leader(number % 2),
    "restart": lambda model, number: model.restart(number % 2),
    "lose": lambda model, number: model.lose_tail(number % 2),
    "wait": lambda model, number: wait(model, 0.2 * (1 + number % 8)),
    "expire": lambda model, number: wait(model, LIMITS.delivery_timeout_s / (1 + number % 2)),
}
# Most steps of a script make progress, so that faults meet many different states.
DISTURBED = ("add", "drain", "serve", "serve and answer", "answer", "wait", "refuse", "break", "move", "restart")
USUAL = ("add", "drain", "serve", "serve and answer", "answer", "wait")


def wait(model: ProduceModel, seconds: float) -> None:
    model.now += seconds


def steps(*names: str) -> st.SearchStrategy[list[Step]]:
    usual = st.sampled_from([name for name in names if name in USUAL])
    return st.lists(st.tuples(usual | st.sampled_from(names), st.integers(0, 15)), max_size=120)


def play(model: ProduceModel, script: list[Step]) -> ProduceModel:
    for name, number in script:
        STEPS[name](model, number)
    model.settle()
    return model


@given(steps(*DISTURBED, "append and refuse"))
@settings(max_examples=200)
def test_every_record_is_written_once_and_in_order_whatever_is_retried(script: list[Step]) -> None:
    model = play(ProduceModel(), script)
    model.check_logs()
    assert sorted(model.written) == sorted(model.partition_of)
    assert sum(len(log.numbers) for log in model.logs.values()) == len(model.written)


@given(steps(*DISTURBED, "append and refuse", "lose", "lose", "lose"))
@settings(max_examples=200)
def test_unclean_elections_lose_records_but_write_none_twice_or_out_of_order(script: list[Step]) -> None:
    model = play(ProduceModel(), script)
    model.check_order()
    assert sorted(model.written) == sorted(model.partition_of), "the records after the lost ones are written"


@given(steps(*(name for name in STEPS if name != "lose")))
@settings(max_examples=200)
def test_records_that_fail_or_expire_leave_the_others_once_and_in_order(script: list[Step]) -> None:
    play(ProduceModel(), script).check_logs()


@given(steps(*DISTURBED), st.integers(1, 2))
@settings(max_examples=200)
def test_batches_that_are_too_large_are_split_without_loss(script: list[Step], batch_max: int) -> None:
    model = play(ProduceModel(batch_max=batch_max), script)
    model.check_logs()
    assert sorted(model.written) == sorted(model.partition_of)


@given(steps(*DISTURBED))
@settings(max_examples=100)
def test_without_idempotence_no_record_is_lost(script: list[Step]) -> None:
    model = ProduceModel(is_idempotent=False)
    for name, number in script:
        STEPS[name](model, number)
    model.settle()
    assert sorted(model.written) == sorted(model.partition_of)
    assert model.memory.used == 0


def test_five_batches_are_in_flight_after_the_first_acknowledgement() -> None:
    model = ProduceModel(1)
    model.add(0, 3 * 12)
    model.drain()  # requests a producer id
    for _ in range(10):
        model.drain()
    assert model.on_wire_max == 1, "a leader without state of the producer would accept any sequence"
    model.serve(0)
    model.answer(0)
    for _ in range(10):
        model.drain()
    assert model.on_wire_max == 5
    model.settle()
    model.check_logs()


def test_five_batches_are_in_flight_at_once_without_idempotence() -> None:
    model = ProduceModel(1, is_idempotent=False)
    model.add(0, 6 * 3)
    for _ in range(10):
        model.drain()
    assert model.on_wire_max == 5


def test_partition_is_unproven_and_without_a_gap_under_another_identity() -> None:
    sequences = PartitionSequences(has_gap=True, is_proven=True)
    sequences.adopt(Identity(1, 1))
    assert sequences == PartitionSequences(Identity(1, 1))


def test_expired_batch_with_later_ones_to_ask_with_keeps_their_sequences() -> None:
    """Both were appended, and their responses were lost. Under another epoch the later one would be written twice."""
    model = ProduceModel(1)
    model.add(0, 3)
    model.settle()
    model.add(0, 3)
    model.drain()
    wait(model, LIMITS.delivery_timeout_s / 2)
    model.add(0, 3)
    model.drain()
    for _ in range(2):
        model.serve(0)
    model.break_connection(0)
    wait(model, LIMITS.delivery_timeout_s / 2 + 1)
    model.settle()
    model.check_logs()
    assert model.logs[TopicPartition("t", 0)].numbers == list(range(9))
    assert model.identity is not None
    assert model.identity.current == Identity(1, 0)


def test_kip_360_epoch_is_raised_after_the_leader_lost_acknowledged_records() -> None:
    model = ProduceModel(1)
    model.add(0, 3)
    model.settle()
    model.add(0, 3)
    model.settle()
    lost = model.logs[TopicPartition("t", 0)].lose_tail()
    model.add(0, 9)
    model.settle()
    assert lost == 3
    assert model.logs[TopicPartition("t", 0)].numbers == [0, 1, 2, *range(6, 15)]
    assert model.identity is not None
    assert model.identity.current == Identity(1, 1)


@pytest.mark.parametrize("appended", [0, 1, 2, 3])
def test_batch_that_a_restarted_leader_has_forgotten_is_not_written_again(appended: int) -> None:
    """A producer snapshot has only the last batch, so the leader rejects the retry of an earlier one as out
    of order.
    """
    model = ProduceModel(1)
    model.add(0, 3)
    model.settle()
    model.add(0, 9)
    for _ in range(3):
        model.drain()
    for _ in range(appended):
        model.serve(0)
    model.break_connection(0)
    model.restart(0)
    model.settle()
    assert model.logs[TopicPartition("t", 0)].numbers == list(range(12))
    assert all(isinstance(outcome, RecordMetadata) for outcome in model.outcomes.values())


def test_kip_360_last_epoch_is_followed_by_a_new_producer_id() -> None:
    model = ProduceModel(1)
    model.add(0, 3)
    model.settle()
    assert model.identity is not None
    model.identity.assigned(1, EPOCH_MAX)
    model.add(0, 3)
    model.settle()
    model.add(0, 3)
    model.settle()
    log = model.logs[TopicPartition("t", 0)]
    log.lose_tail()
    log.state = None
    model.add(0, 3)
    model.drain()
    model.serve(0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    model.answer(0)
    assert not model.identity.is_known
    model.settle()
    assert model.identity.current == Identity(2, 0)
    assert log.numbers == [0, 1, 2, 3, 4, 5, 9, 10, 11]


def test_batch_that_expired_unacknowledged_but_was_appended_leaves_no_gap() -> None:
    model = ProduceModel(1)
    model.add(0, 3)
    model.settle()
    model.add(0, 3)
    model.drain()
    model.serve(0)
    wait(model, LIMITS.delivery_timeout_s)
    model.add(0, 3)
    model.drain()
    assert isinstance(model.outcomes[3], Exception), "it has expired"
    model.answer(0)
    model.settle()
    assert model.logs[TopicPartition("t", 0)].numbers == list(range(9))
    assert model.identity is not None
    assert model.identity.current.epoch == 0, "the late response showed that nothing is missing"


def test_duplicate_sequence_number_is_a_success_without_an_offset() -> None:
    model = ProduceModel(1)
    model.add(0, 1)
    wait(model, LIMITS.linger_s)
    model.drain()
    model.drain()
    model.serve(0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    model.answer(0)
    assert model.outcomes[0] == RecordMetadata("t", 0, -1, 0)


@pytest.mark.parametrize(("count", "due_after_s"), [(1, LIMITS.linger_s), (4, 0.0)])
def test_batch_is_due_when_it_is_full_or_has_lingered(count: int, due_after_s: float) -> None:
    model = ProduceModel(1)
    assert model.identity is not None
    model.identity.assigned(1, 0)
    model.add(0, count)
    drained = model.accumulator.drain(0.0, lambda partition: None, lambda node: True)
    assert drained.is_leader_missing == (due_after_s == 0)
    if due_after_s:
        assert drained.next_at == due_after_s
    model.accumulator.is_urgent = True
    assert model.accumulator.drain(0.0, lambda partition: None, lambda node: True).is_leader_missing


def test_batch_expires_at_the_time_that_drain_returns_despite_rounding() -> None:
    # 1.3 + 60.0 - 60.0 is less than 1.3. A sender that waits for the time that `drain` returns must find the batch
    # expired then: otherwise it asks again and again, until the clock moves.
    model = ProduceModel(1)
    assert model.identity is not None
    model.identity.assigned(1, 0)
    model.now = 1.3
    model.add(0, 4)
    expires_at = model.accumulator.drain(model.now, lambda partition: None, lambda node: True).next_at
    assert expires_at == model.now + LIMITS.delivery_timeout_s
    assert len(model.accumulator.expired(expires_at)) == 2
