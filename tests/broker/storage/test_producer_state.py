"""The rules for producers' sequence numbers and epochs (KIP-98, KIP-360), and the replay of transactions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.producer_snapshots import ProducerEntry, ProducerSnapshots
from broker.storage.producer_state import CompletedTransaction, Duplicate, ProducerStates
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import BatchHeader
from kraft.env import RealDisk

SEQUENCE_MAX = 2**31 - 1
TRANSACTIONAL = 0x10
DAY_MS = 86_400_000


def ignore(kind: str, /, **fields: object) -> None:
    pass


def batch(
    offset: int,
    sequence: int,
    *,
    count: int = 1,
    epoch: int = 0,
    producer_id: int = 1,
    timestamp: int = 1000,
    txn: bool = False,
) -> BatchHeader:
    return BatchHeader(
        base_offset=offset,
        length=100,
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=TRANSACTIONAL if txn else 0,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        count=count,
    )


def open_states(directory, expiration_ms=DAY_MS) -> ProducerStates:
    disk = RealDisk()
    discarded: list[str] = []
    snapshots = ProducerSnapshots(
        disk, str(directory), disk.list(str(directory)), discard=discarded.append, trace=ignore
    )
    return ProducerStates(snapshots, partition="topic-0", expiration_ms=expiration_ms)


@pytest.fixture
def states(tmp_path) -> ProducerStates:
    return open_states(tmp_path)


def append(states: ProducerStates, header: BatchHeader) -> Duplicate | None:
    duplicate = states.check(header)
    if duplicate is None:
        states.update(header)
    return duplicate


def refused(states: ProducerStates, header: BatchHeader) -> ErrorCode:
    before = [state.entry() for state in states.active()]
    with pytest.raises(KafkaError) as caught:
        states.check(header)
    assert [state.entry() for state in states.active()] == before
    return caught.value.code


class TestSequenceNumbers:
    def test_kip_98_batches_in_sequence_are_accepted(self, states):
        for first in range(0, 30, 3):
            assert append(states, batch(first, first, count=3)) is None
        assert states.get(1).last_sequence == 29

    def test_kip_98_a_gap_is_out_of_order(self, states):
        append(states, batch(0, 0))
        assert refused(states, batch(1, 2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_out_of_order_message_names_both_sequence_numbers(self, states):
        append(states, batch(0, 0, count=5))
        with pytest.raises(KafkaError, match=r"producer 1 at offset 5 in partition topic-0: 9 .*, 4 \(current end"):
            states.check(batch(5, 9))

    @pytest.mark.parametrize("retried", range(5))
    def test_kip_98_any_of_the_last_five_batches_is_answered_with_its_first_offset(self, states, retried):
        for number in range(7):
            append(states, batch(100 + 2 * number, 2 * number, count=2, timestamp=number))
        number = 2 + retried
        duplicate = states.check(batch(999, 2 * number, count=2))
        assert duplicate == Duplicate(100 + 2 * number, 101 + 2 * number, timestamp=number)

    def test_kip_98_a_retry_older_than_five_batches_is_out_of_order(self, states):
        for number in range(6):
            append(states, batch(number, number))
        assert refused(states, batch(6, 0)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_only_the_same_range_of_sequences_is_a_duplicate(self, states):
        append(states, batch(0, 0, count=4))
        assert refused(states, batch(4, 0, count=3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert refused(states, batch(4, 1, count=3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_sequences_wrap_from_2_31_minus_1_to_0(self, states):
        append(states, batch(0, SEQUENCE_MAX - 1, count=2))
        assert append(states, batch(2, 0)) is None

    def test_batch_with_a_sequence_wrap_is_recognized_as_a_duplicate(self, states):
        append(states, batch(0, SEQUENCE_MAX - 1, count=4))
        assert states.get(1).last_sequence == 1
        assert states.check(batch(9, SEQUENCE_MAX - 1, count=4)) == Duplicate(0, 3, 1000)
        assert append(states, batch(4, 2)) is None

    def test_unknown_producer_may_begin_with_any_sequence_kip_360(self, states):
        # Its records were deleted, or it expired: by KIP-360 it continues instead of failing with UNKNOWN_PRODUCER_ID.
        assert append(states, batch(0, 4711, epoch=3)) is None
        assert refused(states, batch(1, 4711 + 2, epoch=3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_producers_have_separate_states(self, states):
        append(states, batch(0, 0, producer_id=1))
        append(states, batch(1, 50, producer_id=2))
        assert append(states, batch(2, 1, producer_id=1)) is None
        assert append(states, batch(3, 51, producer_id=2)) is None


class TestEpochs:
    def test_kip_360_a_bumped_epoch_begins_at_sequence_0(self, states):
        append(states, batch(0, 0, count=10))
        assert refused(states, batch(10, 10, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert append(states, batch(10, 0, epoch=1)) is None

    def test_bumped_epoch_forgets_the_batches_of_the_old_one(self, states):
        append(states, batch(0, 0))
        append(states, batch(1, 0, epoch=1))
        assert states.check(batch(2, 0, epoch=1)) == Duplicate(1, 1, 1000)

    def test_lower_epoch_is_fenced(self, states):
        append(states, batch(0, 0, epoch=2))
        assert refused(states, batch(1, 1, epoch=1)) == ErrorCode.INVALID_PRODUCER_EPOCH

    def test_coordinators_append_is_checked_by_epoch_only(self, states):
        states.update(batch(0, -1, epoch=2))
        states.check_epoch(batch(1, -1, epoch=2))
        with pytest.raises(KafkaError) as caught:
            states.check_epoch(batch(1, -1, epoch=1))
        assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert states.get(1).last_sequence == -1


class TestExpiration:
    def test_producer_id_expiration_ms_counts_from_the_last_records_timestamp(self, states):
        append(states, batch(0, 0, timestamp=1000))
        states.expire(1000 + DAY_MS - 1)
        assert len(states) == 1
        states.expire(1000 + DAY_MS)
        assert len(states) == 0

    def test_producer_with_an_open_transaction_does_not_expire(self, states):
        append(states, batch(0, 0, txn=True))
        states.expire(10 * DAY_MS)
        assert len(states) == 1

    def test_kip_890_no_verification_begins_for_a_fenced_epoch(self, states):
        """The coordinator is not asked about it, and the batch is refused with an error that is final."""
        append(states, batch(0, 0, epoch=2))
        with pytest.raises(KafkaError) as caught:
            states.begin_verification(1, 1, 0, has_own_epoch=True)
        assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert not states.verifications
        assert states.begin_verification(1, 2, 0, has_own_epoch=True) is not None

    def test_kip_890_verification_whose_batch_never_comes_expires(self, states):
        """Its age counts from the first check after it began."""
        unused = states.begin_verification(7, 0, 0, has_own_epoch=True)
        states.expire(1000)
        states.expire(1000 + DAY_MS - 1)
        states.check_verified(7, 0, 0, unused)
        states.expire(1000 + DAY_MS)
        with pytest.raises(KafkaError) as caught:
            states.check_verified(7, 0, 0, unused)
        assert caught.value.code == ErrorCode.INVALID_TXN_STATE
        assert not states.verifications

    def test_expired_producer_is_not_loaded_from_a_snapshot(self, states, tmp_path):
        append(states, batch(0, 0, timestamp=1000))
        states.take_snapshot(1)
        again = open_states(tmp_path)
        assert again.truncate_and_reload(0, 1, now_ms=1000 + DAY_MS) == 1
        assert len(again) == 0


class TestTransactions:
    def end(self, states, offset, *, epoch=0, producer_id=1, aborted=False, coordinator_epoch=1):
        marker = batch(offset, -1, epoch=epoch, producer_id=producer_id, txn=True)
        return states.end_transaction(marker, coordinator_epoch=coordinator_epoch, aborted=aborted, timestamp=2000)

    def test_first_unstable_offset_is_the_start_of_the_oldest_open_transaction(self, states):
        assert states.first_unstable_offset is None
        append(states, batch(5, 0, producer_id=1, txn=True))
        append(states, batch(6, 0, producer_id=2, txn=True))
        append(states, batch(7, 1, producer_id=1, txn=True))
        assert states.first_unstable_offset == 5

    def test_ended_transaction_stays_unstable_until_its_marker_is_replicated(self, states):
        append(states, batch(5, 0, txn=True))
        completed = self.end(states, 6, aborted=True)
        assert completed == CompletedTransaction(1, 5, 6, aborted=True)
        states.complete(completed)
        states.advance_high_watermark(6)
        assert states.first_unstable_offset == 5
        states.advance_high_watermark(7)
        assert states.first_unstable_offset is None

    def test_last_stable_offset_of_an_aborted_transaction_is_the_next_open_one(self, states):
        append(states, batch(0, 0, producer_id=1, txn=True))
        append(states, batch(1, 0, producer_id=2, txn=True))
        assert states.last_stable_offset_after(self.end(states, 2, producer_id=1)) == 1
        completed = self.end(states, 3, producer_id=2)
        states.complete(CompletedTransaction(1, 0, 2, aborted=False))
        assert states.last_stable_offset_after(completed) == 4

    def test_marker_without_records_completes_no_transaction(self, states):
        assert self.end(states, 0) is None
        assert states.first_unstable_offset is None
        assert append(states, batch(1, 0, txn=True)) is None

    def test_sequences_continue_after_a_marker_of_the_same_epoch(self, states):
        append(states, batch(0, 0, txn=True))
        states.complete(self.end(states, 1))
        assert append(states, batch(2, 1, txn=True)) is None
        assert states.first_unstable_offset == 0

    def test_marker_with_a_bumped_epoch_fences_and_resets_sequences(self, states):
        append(states, batch(0, 0, txn=True))
        self.end(states, 1, epoch=1, aborted=True)
        assert refused(states, batch(2, 1, txn=True)) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert refused(states, batch(2, 1, epoch=1, txn=True)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert append(states, batch(2, 0, epoch=1, txn=True)) is None

    def test_non_transactional_batch_within_a_transaction_is_refused(self, states):
        append(states, batch(0, 0, txn=True))
        assert refused(states, batch(1, 1)) == ErrorCode.INVALID_TXN_STATE

    def test_marker_of_a_fenced_coordinator_is_refused(self, states):
        append(states, batch(0, 0, txn=True))
        self.end(states, 1, coordinator_epoch=5)
        states.check_marker(batch(2, -1, txn=True), coordinator_epoch=5)
        with pytest.raises(KafkaError) as caught:
            states.check_marker(batch(2, -1, txn=True), coordinator_epoch=4)
        assert caught.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED

    def test_open_transactions_are_kept_in_a_snapshot(self, states, tmp_path):
        append(states, batch(3, 0, producer_id=9, txn=True))
        append(states, batch(4, 0, producer_id=8, txn=True))
        states.take_snapshot(5)
        again = open_states(tmp_path)
        again.truncate_and_reload(0, 5, now_ms=0)
        assert again.first_unstable_offset == 3
        self.end(again, 5, producer_id=9)
        again.complete(CompletedTransaction(9, 3, 5, aborted=False))
        again.advance_high_watermark(6)
        assert again.first_unstable_offset == 4


def rebuilt(states: ProducerStates, log: list[BatchHeader], log_end: int) -> ProducerStates:
    """The states after a truncation or restart: load a snapshot, and replay the later batches."""
    replay_from = states.truncate_and_reload(0, log_end, now_ms=0)
    for header in log:
        if replay_from <= header.base_offset < log_end:
            states.update(header)
    return states


def remembered(states: ProducerStates) -> dict[int, ProducerEntry]:
    return {state.producer_id: state.entry() for state in states.active()}


@given(
    appends=st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 4), st.booleans(), st.booleans(), st.booleans()),
        min_size=1,
        max_size=30,
    ),
    cut=st.integers(0, 30),
)
def test_truncation_and_replay_equal_a_replay_from_the_start(tmp_path_factory, appends, cut):
    directory = tmp_path_factory.mktemp("model")
    states = open_states(directory)
    log: list[BatchHeader] = []
    offset = 0
    epochs: dict[int, int] = {}
    for producer_id, count, bump, txn, snapshot in appends:
        state = states.get(producer_id)
        epochs[producer_id] = epochs.get(producer_id, 0) + bump
        sequence = 0 if state is None or bump else state.next_sequence
        in_txn = state is not None and state.current_txn_first_offset >= 0
        header = batch(
            offset, sequence, count=count, epoch=epochs[producer_id], producer_id=producer_id, txn=txn or in_txn
        )
        assert append(states, header) is None
        log.append(header)
        offset += count
        if snapshot:
            states.take_snapshot(offset)
    log_end = log[cut].base_offset if cut < len(log) else offset

    truncated = rebuilt(states, log, log_end)
    fresh = rebuilt(open_states(tmp_path_factory.mktemp("fresh")), log, log_end)

    assert remembered(truncated) == remembered(fresh)
    assert truncated.first_unstable_offset == fresh.first_unstable_offset
    assert all(0 < snapshot <= log_end for snapshot in truncated.snapshots.offsets)


def test_snapshot_with_two_transactions_at_one_offset_survives_the_end_of_both(states) -> None:
    """No log leads to this state, but a snapshot is a file, and the checksum of this one is correct."""
    snapshot = [ProducerEntry(number, 0, 0, 3, 0, 1000, 0, 3) for number in (1, 2)]
    states.snapshots.write(4, snapshot)
    states.truncate_and_reload(0, 4, now_ms=1000)
    for number in (1, 2):
        states.complete(CompletedTransaction(number, 3, 5, aborted=False))
    states.advance_high_watermark(6)
    assert states.first_unstable_offset is None


def test_unknown_producer_may_begin_with_any_epoch_from_minus_1_on(states: ProducerStates) -> None:
    """Kafka compares the epoch of an unknown producer with that of none, which is -1."""
    for producer_id, epoch in enumerate((-1, 0, 2**15 - 1)):
        assert append(states, batch(producer_id, 0, producer_id=producer_id, epoch=epoch)) is None
    assert refused(states, batch(3, 0, producer_id=3, epoch=-2)) is ErrorCode.INVALID_PRODUCER_EPOCH
