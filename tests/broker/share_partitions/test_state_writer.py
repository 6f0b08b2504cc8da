"""The order in which changes of a share-partition are stored (KIP-932)."""

from collections.abc import Sequence

from broker.coordinator.runtime.completion import Completion, completed
from broker.coordinator.share.share_state import StateBatch
from broker.net.completion import Completion as OwnCompletion
from broker.share_partitions.in_flight import StateWrite
from broker.share_partitions.state_writer import QueuedWrite, StateWriter
from broker.wire.errors import ErrorCode, KafkaError


def write_of(*offsets: int) -> StateWrite:
    write = StateWrite()
    write.batches = [StateBatch(offset, offset, 2, 1) for offset in offsets]
    return write


class Coordinator:
    """Collects the requests; the test answers them."""

    def __init__(self) -> None:
        self.requests: list[tuple[list[int], Completion[None]]] = []

    def store(self, batches: tuple[StateBatch, ...]) -> Completion[None]:
        answer: Completion[None] = OwnCompletion()
        self.requests.append(([batch.first_offset for batch in batches], answer))
        return answer


def pass_on(_: Sequence[QueuedWrite], error: KafkaError | None) -> KafkaError | None:
    return error


def test_writes_share_a_request_while_another_is_under_way_unless_their_offsets_overlap() -> None:
    coordinator = Coordinator()
    writer = StateWriter(coordinator.store, pass_on)
    stored = [writer.add(write_of(*offsets)) for offsets in ((1, 2), (3,), (5, 6), (6,), (7,))]
    for expected in ([1, 2], [3, 5, 6], [6, 7]):
        offsets, answer = coordinator.requests[-1]
        assert offsets == expected
        answer.complete(None)
    assert [each.done for each in stored] == [True] * 5
    assert writer.is_idle


def test_failed_request_fails_its_own_writes_only() -> None:
    coordinator = Coordinator()
    writer = StateWriter(coordinator.store, pass_on)
    first, second = writer.add(write_of(1)), writer.add(write_of(2))
    drained = writer.drained()
    error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    coordinator.requests[0][1].complete(error)
    assert first.outcome is error
    assert not drained.done
    coordinator.requests[1][1].complete(None)
    assert second.outcome is None
    assert drained.done


def test_store_that_answers_at_once_gets_all_writes() -> None:
    stored: list[int] = []

    def store(batches: tuple[StateBatch, ...]) -> Completion[None]:
        stored.extend(batch.first_offset for batch in batches)
        return completed(None)

    writer = StateWriter(store, pass_on)
    assert all(writer.add(write_of(offset)).done for offset in range(3))
    assert stored == [0, 1, 2]
