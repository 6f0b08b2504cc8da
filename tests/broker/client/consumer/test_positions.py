"""Positions of one partition: seeks, resets, validation by new leaders (KIP-320), preferred replicas (KIP-392)."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker.client.consumer.errors import LogTruncation
from broker.client.consumer.offset_reset import EARLIEST, LATEST
from broker.client.consumer.positions import AssignedPartition, Leader, Position, PositionState
from broker.client.types import OffsetAndMetadata, TopicPartition

ORDERS = TopicPartition("orders", 0)


def fetching_at(consumed: int, fetched: int | None = None, epoch: int | None = 1) -> AssignedPartition:
    """A partition that is read under the leader of epoch 1, and fetched in advance up to `fetched`."""
    assigned = AssignedPartition(ORDERS)
    assigned.update_leader(Leader(1, 1))
    assigned.seek(Position(consumed))
    assigned.consume(Position(consumed, epoch))
    assigned.fetch_from(Position(consumed if fetched is None else fetched, epoch))
    return assigned


def test_a_new_partition_has_no_position() -> None:
    assigned = AssignedPartition(ORDERS)
    assert assigned.state is PositionState.INITIALIZING
    assert not assigned.may_fetch(0)


def test_a_sought_offset_without_an_epoch_is_fetched_at_once() -> None:
    assigned = AssignedPartition(ORDERS)
    assigned.seek(Position(7))
    assert assigned.may_fetch(0)
    assert assigned.consumed == assigned.fetched == Position(7)


def test_a_sought_offset_with_an_epoch_is_validated_first_kip_320() -> None:
    assigned = AssignedPartition(ORDERS)
    assigned.update_leader(Leader(1, 4))
    assigned.seek(Position(7, 3))
    assert assigned.state is PositionState.AWAIT_VALIDATION
    assert assigned.validated(assigned.snapshot(), 3, 7, None) is None
    assert assigned.may_fetch(0)


def test_a_new_leader_validates_prefetched_records_kip_320() -> None:
    assigned = fetching_at(5, fetched=9)
    assigned.update_leader(Leader(2, 2))
    assert assigned.state is PositionState.AWAIT_VALIDATION
    assert assigned.snapshot().position == Position(9, 1)
    assert assigned.validated(assigned.snapshot(), 1, 9, None) is None
    assert assigned.fetched == Position(9, 1)
    assert assigned.is_fetching


def test_a_leader_whose_epochs_are_not_known_is_believed() -> None:
    assigned = fetching_at(5)
    assigned.update_leader(Leader(2, -1))
    assert assigned.is_fetching


def test_truncation_of_prefetched_records_only_rewinds() -> None:
    assigned = fetching_at(5, fetched=9)
    before = assigned.generation
    assigned.update_leader(Leader(2, 2))
    assert assigned.validated(assigned.snapshot(), 1, 7, None) is None
    assert assigned.fetched == assigned.consumed == Position(5, 1)
    assert assigned.generation != before
    assert assigned.validated(assigned.snapshot(), 1, 7, None) is None
    assert assigned.is_fetching


def test_log_that_ends_exactly_at_the_position_has_lost_nothing_that_was_returned_kip_320() -> None:
    assigned = fetching_at(5, fetched=9)
    assigned.update_leader(Leader(2, 2))
    assert assigned.validated(assigned.snapshot(), 1, 5, None) is None
    assert assigned.fetched == assigned.consumed == Position(5, 1)


def test_position_of_the_first_leader_epoch_is_validated_kip_320() -> None:
    assigned = fetching_at(9, epoch=0)
    assigned.update_leader(Leader(2, 2))
    assert assigned.validated(assigned.snapshot(), 0, 9, None) is None
    assert assigned.is_fetching


def test_leader_change_ends_the_pause_after_a_failure() -> None:
    """The pause is for the earlier leader."""
    assigned = fetching_at(5, epoch=None)
    assigned.retry_at = 10.0
    assigned.update_leader(Leader(1, 1))
    assert not assigned.may_fetch(9.0), "the same leader"
    assigned.update_leader(Leader(2, 2))
    assert assigned.may_fetch(9.0)


def test_truncation_before_the_position_moves_to_where_the_log_diverges() -> None:
    assigned = fetching_at(9)
    assigned.update_leader(Leader(2, 2))
    assert assigned.validated(assigned.snapshot(), 1, 6, LATEST) is None
    assert assigned.consumed == assigned.fetched == Position(6, 1)
    assert assigned.is_fetching


def test_truncation_without_a_reset_policy_is_an_error_that_names_the_offset() -> None:
    assigned = fetching_at(9)
    assigned.update_leader(Leader(2, 2))
    error = assigned.validated(assigned.snapshot(), 1, 6, None)
    assert isinstance(error, LogTruncation)
    assert (error.offset, error.divergent_offset) == (9, OffsetAndMetadata(6, 1))
    assert "offset 6" in str(error)
    assert assigned.state is PositionState.AWAIT_VALIDATION


def test_a_log_without_any_common_epoch_resets_the_position() -> None:
    assigned = fetching_at(9)
    assigned.update_leader(Leader(2, 2))
    assert assigned.validated(assigned.snapshot(), -1, -1, EARLIEST) is None
    assert (assigned.state, assigned.reset, assigned.consumed) == (PositionState.AWAIT_RESET, EARLIEST, None)


def test_a_stale_validation_changes_nothing() -> None:
    assigned = fetching_at(9)
    assigned.update_leader(Leader(2, 2))
    stale = assigned.snapshot()
    assigned.update_leader(Leader(3, 3))
    assert assigned.validated(stale, 1, 6, LATEST) is None
    assert (assigned.state, assigned.consumed) == (PositionState.AWAIT_VALIDATION, Position(9, 1))


def test_a_reset_is_overtaken_by_a_seek() -> None:
    assigned = AssignedPartition(ORDERS)
    assigned.request_reset(EARLIEST)
    assigned.seek(Position(5))
    assigned.complete_reset(EARLIEST, 0)
    assert assigned.consumed == Position(5)


def test_a_reset_is_overtaken_by_another_one() -> None:
    assigned = AssignedPartition(ORDERS)
    assigned.request_reset(EARLIEST)
    assigned.request_reset(LATEST)
    assigned.complete_reset(EARLIEST, 0)
    assert assigned.state is PositionState.AWAIT_RESET
    assigned.complete_reset(LATEST, 8)
    assert assigned.consumed == Position(8)


def test_a_preferred_replica_is_read_until_its_time_is_over_kip_392() -> None:
    assigned = fetching_at(0)
    assigned.prefer_replica(3, until=10.0)
    assert assigned.replica_to_read(9.0) == 3
    assert assigned.next_attempt(9.0) == 10.0
    assert assigned.replica_to_read(10.0) is None
    assert not assigned.clear_preferred_replica()


def test_an_expired_preference_can_be_renewed_kip_392() -> None:
    assigned = fetching_at(0)
    assigned.prefer_replica(3, until=10.0)
    assigned.replica_to_read(10.0)
    assigned.prefer_replica(3, until=20.0)
    assert assigned.replica_to_read(19.0) == 3
    assert assigned.clear_preferred_replica()
    assert not assigned.clear_preferred_replica()


def test_a_new_leader_ends_the_preference_kip_392() -> None:
    assigned = fetching_at(0)
    assigned.prefer_replica(3, until=10.0)
    assigned.update_leader(Leader(2, 2))
    assert assigned.replica_to_read(0.0) is None


def test_lag_is_the_distance_to_the_end_that_may_be_read() -> None:
    assigned = fetching_at(5)
    assert assigned.lag(read_committed=False) is None
    assigned.update_ends(12, 9)
    assert assigned.lag(read_committed=False) == 7
    assert assigned.lag(read_committed=True) == 4


offsets = st.integers(0, 20)
epochs = st.integers(0, 5)


class Positions(RuleBasedStateMachine):
    """Any order of calls keeps positions ordered, and every state has the data that it needs."""

    def __init__(self) -> None:
        super().__init__()
        self.assigned = AssignedPartition(ORDERS)
        self.seen: set[tuple[int, Position]] = set()

    @rule(offset=offsets, epoch=st.none() | epochs)
    def seek(self, offset: int, epoch: int | None) -> None:
        before = self.assigned.generation
        self.assigned.seek(Position(offset, epoch))
        assert self.assigned.generation > before
        assert self.assigned.consumed == Position(offset, epoch)

    @rule(policy=st.sampled_from([EARLIEST, LATEST]))
    def request_reset(self, policy: object) -> None:
        self.assigned.request_reset(policy)  # type: ignore[arg-type]

    @rule(policy=st.sampled_from([EARLIEST, LATEST]), offset=offsets)
    def complete_reset(self, policy: object, offset: int) -> None:
        was_awaited = self.assigned.state is PositionState.AWAIT_RESET and self.assigned.reset is policy
        self.assigned.complete_reset(policy, offset)  # type: ignore[arg-type]
        assert not was_awaited or self.assigned.consumed == Position(offset)

    @rule(node=st.integers(1, 3), epoch=st.integers(-1, 5))
    def update_leader(self, node: int, epoch: int) -> None:
        self.assigned.update_leader(Leader(node, epoch))

    @precondition(lambda self: self.assigned.may_fetch(0))
    @rule(count=st.integers(0, 5), epoch=epochs)
    def fetch(self, count: int, epoch: int) -> None:
        assert self.assigned.fetched is not None
        self.assigned.fetch_from(Position(self.assigned.fetched.offset + count, epoch))

    @precondition(lambda self: self.assigned.is_fetching)
    @rule(epoch=epochs)
    def consume_all(self, epoch: int) -> None:
        assert self.assigned.fetched is not None
        self.assigned.consume(self.assigned.fetched)

    @precondition(lambda self: self.assigned.state is PositionState.AWAIT_VALIDATION and self.assigned.leader)
    @rule(end=st.integers(-1, 20), epoch=st.integers(-1, 5), policy=st.sampled_from([EARLIEST, None]))
    def validate(self, end: int, epoch: int, policy: object) -> None:
        consumed = self.assigned.consumed
        assert consumed is not None
        error = self.assigned.validated(self.assigned.snapshot(), epoch, end, policy)  # type: ignore[arg-type]
        if error is not None:
            assert policy is None
            assert self.assigned.consumed == consumed
        elif self.assigned.is_fetching:
            assert self.assigned.consumed is not None
            assert self.assigned.consumed.offset <= end

    @invariant()
    def positions_are_ordered(self) -> None:
        consumed, fetched = self.assigned.consumed, self.assigned.fetched
        has_position = self.assigned.state in (PositionState.AWAIT_VALIDATION, PositionState.FETCHING)
        assert (consumed is not None) == (fetched is not None) == has_position
        if consumed is not None and fetched is not None:
            assert consumed.offset <= fetched.offset

    @invariant()
    def a_reset_is_known_while_it_is_awaited(self) -> None:
        assert (self.assigned.reset is not None) == (self.assigned.state is PositionState.AWAIT_RESET)


TestPositions = Positions.TestCase
TestPositions.settings = settings(max_examples=60, stateful_step_count=30)
