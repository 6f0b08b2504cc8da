"""The promises to share groups, each kept and broken (KIP-932)."""

from collections.abc import Callable
from typing import Final

import pytest

from broker.coordinator.share.share_state import ACKNOWLEDGED, ARCHIVED, AVAILABLE
from jepsen.checkers import SHARE_CHECKERS
from jepsen.history import Operation
from jepsen.share_values import (
    GONE,
    UNKNOWN_EPOCH,
    Acknowledging,
    Acquired,
    Acquiring,
    ShareGroupSettings,
    StoredWrite,
    StoredWrites,
)
from metadata.protocol import AcknowledgeType
from tests.support.sample_history import SampleHistory, broken

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


class SampleShareHistory(SampleHistory):
    """The group "g" consumes "t" with a limit of two deliveries and locks of 30 s. Operations are a second apart.

    `said` also stores the acknowledgement, with `store` for the delivery that `got` gave last.
    """

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[StoredWrite] = []
        self.counts: dict[int, int] = {}
        self.did("share-group", ShareGroupSettings("g", 2, 30_000), None)

    def got(self, member: str, offset: int, count: int = 1, epoch: int = 1, value: str | None = None) -> Operation:
        operation = self.asks(member)
        record = offset, value or f"s/t-0/{offset}", count
        self.ok(operation, Acquired((record,), 30_000, epoch))
        self.counts[offset] = count
        return operation

    def asks(self, member: str) -> Operation:
        """A request with an unknown outcome."""
        self.time += 2
        operation = self.invoke(member, "acquire", Acquiring("g", member, f"{member}/1", "t", 0))
        self.time += 1
        return operation

    def got_nothing(self, member: str, epoch: int = 1) -> None:
        self.ok(self.asks(member), Acquired((), 30_000, epoch))

    def says(self, member: str, offset: int, kind: AcknowledgeType) -> Operation:
        """An acknowledgement with an unknown outcome."""
        self.time += 2
        value = Acknowledging("g", member, f"{member}/1", "t", 0, ((offset, offset, int(kind)),))
        operation = self.invoke(member, "acknowledge", value)
        self.time += 1
        return operation

    def said(self, member: str, offset: int, kind: AcknowledgeType, epoch: int = 1) -> None:
        self.ok(self.says(member, offset, kind), epoch)
        self.store(offset, kind)

    def store(self, offset: int, kind: AcknowledgeType) -> None:
        """The share coordinator stores an acknowledgement of the delivery that was given last."""
        count = self.counts.get(offset, 0)
        state = {ACCEPT: ACKNOWLEDGED, REJECT: ARCHIVED, RELEASE: ARCHIVED if count >= 2 else AVAILABLE}[kind]
        self.writes.append(("g", "t", 0, -1, ((offset, offset, state, count),)))

    def passed(self, start_offset: int) -> None:
        """The share coordinator stores the start offset, with no record."""
        self.writes.append(("g", "t", 0, start_offset, ()))

    def ends(self, *sequences: int, topic: str = "t", incarnation: int = 0, offset: int = 0) -> None:
        super().ends(*sequences, topic=topic, incarnation=incarnation, offset=offset)
        self.did("read-share-states", 0, StoredWrites(tuple(self.writes)))

    def refused(self, member: str, offset: int, kind: AcknowledgeType) -> None:
        self.fail(self.says(member, offset, kind), "INVALID_RECORD_STATE")


def kept(history: SampleShareHistory) -> None:
    """Record 0 is accepted at its second delivery, 1 is rejected, 2 reaches the limit."""
    history.got("a", 0)
    history.said("a", 0, RELEASE)
    history.got("b", 0, count=2)
    history.said("b", 0, ACCEPT)
    history.got("a", 1)
    history.said("a", 1, REJECT)
    for count in (1, 2):
        history.got("a", 2, count)
        history.said("a", 2, RELEASE)


def kept_by_an_empty_group(history: SampleShareHistory) -> None:
    kept(history)
    history.did("describe-empty-share-group", "g", "Empty")


def kept_with_unknown_outcomes(history: SampleShareHistory) -> None:
    """The answer to an acceptance is lost. So is the last delivery of record 2, whose lock expires."""
    history.got("a", 0)
    history.says("a", 0, ACCEPT)
    history.store(0, ACCEPT)
    history.got("b", 0, count=2)
    history.got("a", 1)
    history.said("a", 1, ACCEPT)
    history.got("a", 2)
    history.said("a", 2, RELEASE)
    history.asks("a")
    history.passed(3)


def kept_by_a_lock_that_expires_at_the_limit(history: SampleShareHistory) -> None:
    """The write after that only moves the start offset. A late acceptance has no effect, and is no error."""
    for offset in (0, 1):
        history.got("a", offset)
        history.said("a", offset, ACCEPT)
    history.got("a", 2)
    history.said("a", 2, RELEASE)
    history.got("b", 2, count=2)
    history.passed(3)
    history.ok(history.says("b", 2, ACCEPT), 1)


def kept_by_a_leader_that_fails_before_it_stores_the_end_of_a_lock(history: SampleShareHistory) -> None:
    """Its successor delivers the record once more, although the leader has answered a late release without an error."""
    history.got("a", 0)
    history.said("a", 0, RELEASE)
    history.got("a", 0, count=2)
    history.time += 30
    history.ok(history.says("a", 0, RELEASE), 1)
    history.got("b", 0, count=2, epoch=2)
    history.said("b", 0, ACCEPT, epoch=2)
    for offset in (1, 2):
        history.got("b", offset, epoch=2)
        history.said("b", offset, ACCEPT, epoch=2)


def kept_with_a_late_repetition(history: SampleShareHistory) -> None:
    """The write of a release is carried out once more after the acceptance, without effect."""
    history.got("a", 0)
    history.said("a", 0, RELEASE)
    history.got("a", 0, count=2)
    history.said("a", 0, ACCEPT)
    history.writes.append(history.writes[0])
    for offset in (1, 2):
        history.got("a", offset)
        history.said("a", offset, ACCEPT)


def kept_by_a_deposed_leader(history: SampleShareHistory) -> None:
    """It delivers what its successor has delivered, and what was accepted there; the coordinator stores none of it."""
    history.got("a", 0, epoch=2)
    history.got("b", 0, epoch=1)
    history.said("a", 0, ACCEPT, epoch=2)
    history.got("c", 0, epoch=1)
    history.refused("b", 0, RELEASE)
    for offset in (1, 2):
        history.got("a", offset)
        history.said("a", offset, ACCEPT)


def kept_after_the_session(history: SampleShareHistory) -> None:
    """The member's session has ended, perhaps before the other one acquired the record."""
    history.got("a", 0)
    history.got("b", 0, count=2)
    history.said("b", 0, ACCEPT)
    for offset in (1, 2):
        history.got("b", offset)
        history.said("b", offset, ACCEPT)


@pytest.mark.parametrize(
    "play",
    [
        kept,
        kept_with_unknown_outcomes,
        kept_by_an_empty_group,
        kept_by_a_lock_that_expires_at_the_limit,
        kept_by_a_leader_that_fails_before_it_stores_the_end_of_a_lock,
        kept_with_a_late_repetition,
        kept_by_a_deposed_leader,
        kept_after_the_session,
    ],
)
def test_promises_are_kept(play: Callable[[SampleShareHistory], None]) -> None:
    history = SampleShareHistory()
    play(history)
    history.ends(0, 1, 2)
    assert broken(history, SHARE_CHECKERS) == []


def test_record_that_is_appended_after_the_final_read_may_be_delivered() -> None:
    history = SampleShareHistory()
    history.got("a", 0)
    history.said("a", 0, ACCEPT)
    history.ends(0)
    history.got("a", 1)
    assert broken(history, SHARE_CHECKERS) == []


def deliver_a_record_beyond_the_end(history: SampleShareHistory) -> None:
    history.got("a", 0)
    history.said("a", 0, ACCEPT)
    history.got("a", 1)


def deliver_another_record(history: SampleShareHistory) -> None:
    history.got("a", 0, value="s/t-0/1")
    history.said("a", 0, ACCEPT)


def skip_a_record(history: SampleShareHistory) -> None:
    history.got_nothing("a")


def skip_a_record_beside_requests_without_an_answer(history: SampleShareHistory) -> None:
    """They may have been deliveries of it, but no lock of them expired: that would have been stored."""
    history.asks("a")
    history.asks("a")
    history.passed(1)


def leave_an_acceptance_without_an_answer_unfinished(history: SampleShareHistory) -> None:
    history.got("a", 0)
    history.says("a", 0, ACCEPT)


def pass_a_record_below_the_limit(history: SampleShareHistory) -> None:
    history.got("a", 0)
    history.passed(1)


def archive_a_released_record(history: SampleShareHistory) -> None:
    history.got("a", 0)
    history.ok(history.says("a", 0, RELEASE), 1)
    history.store(0, REJECT)


def accept_for_a_member(history: SampleShareHistory) -> None:
    history.got("a", 0)
    history.refused("a", 0, ACCEPT)
    history.store(0, ACCEPT)


def open_a_finished_record_again(history: SampleShareHistory) -> None:
    history.got("a", 0)
    history.said("a", 0, ACCEPT)
    history.writes.append(("g", "t", 0, -1, ((0, 0, AVAILABLE, 2),)))
    history.asks("a")


def store_a_delivery_that_was_none(history: SampleShareHistory) -> None:
    history.got("a", 0)
    history.ok(history.says("a", 0, ACCEPT), 1)
    history.counts[0] = 2
    history.store(0, ACCEPT)


def give_up_below_the_limit(history: SampleShareHistory) -> None:
    history.got("a", 0)
    history.said("a", 0, RELEASE)


def count_beyond_the_limit(history: SampleShareHistory) -> None:
    for count in (1, 2, 3):
        history.got("a", 0, count)
        history.said("a", 0, RELEASE)
    history.writes.pop()  # a state of it would break another promise as well


def forget_a_count(history: SampleShareHistory) -> None:
    history.got("a", 0)
    history.said("a", 0, RELEASE)
    history.got("b", 0, count=1, epoch=2)
    history.said("b", 0, ACCEPT, epoch=2)


def count_what_was_not_delivered(history: SampleShareHistory) -> None:
    history.got("a", 0, count=2)
    history.ok(history.says("a", 0, ACCEPT), 1)
    history.counts[0] = 1
    history.store(0, ACCEPT)


def deliver_after_acceptance(history: SampleShareHistory) -> None:
    history.got("a", 0)
    history.said("a", 0, ACCEPT)
    history.got("b", 0, count=2, epoch=2)


def deliver_after_acceptance_by_an_unknown_leader(history: SampleShareHistory) -> None:
    """The second acknowledgement shows that the share coordinator had lost the first one."""
    history.got("a", 0, epoch=UNKNOWN_EPOCH)
    history.said("a", 0, ACCEPT, epoch=UNKNOWN_EPOCH)
    history.got("b", 0, count=2, epoch=UNKNOWN_EPOCH)
    history.said("b", 0, ACCEPT, epoch=UNKNOWN_EPOCH)


def deliver_to_two_at_once(history: SampleShareHistory) -> None:
    history.got("a", 0)
    history.got("b", 0, count=2)
    history.got_nothing("a")
    history.said("b", 0, ACCEPT)


def let_two_acknowledge_at_once(history: SampleShareHistory) -> None:
    history.got("a", 0, epoch=UNKNOWN_EPOCH)
    history.got("b", 0, count=2, epoch=UNKNOWN_EPOCH)
    history.said("b", 0, RELEASE, epoch=UNKNOWN_EPOCH)
    history.said("a", 0, ACCEPT, epoch=UNKNOWN_EPOCH)


def lose_an_empty_group(history: SampleShareHistory) -> None:
    history.got("a", 0)
    history.said("a", 0, ACCEPT)
    history.did("describe-empty-share-group", "g", GONE)


BREAKS: Final = {
    lose_an_empty_group: "EmptyGroupsStay",
    deliver_a_record_beyond_the_end: "DeliveredRecordsAreOfTheLog",
    deliver_another_record: "DeliveredRecordsAreOfTheLog",
    skip_a_record: "EveryRecordIsFinished",
    skip_a_record_beside_requests_without_an_answer: "EveryRecordIsFinished",
    leave_an_acceptance_without_an_answer_unfinished: "EveryRecordIsFinished",
    pass_a_record_below_the_limit: "EveryRecordIsFinished",
    archive_a_released_record: "FinalStatesHaveReasons",
    accept_for_a_member: "FinalStatesHaveReasons",
    open_a_finished_record_again: "FinalStatesStay",
    store_a_delivery_that_was_none: "StoredCountsAreOfDeliveries",
    give_up_below_the_limit: "EveryRecordIsFinished",
    count_beyond_the_limit: "DeliveriesStayWithinTheLimit",
    forget_a_count: "DeliveriesAreCounted",
    count_what_was_not_delivered: "NothingElseIsCounted",
    deliver_after_acceptance: "NothingIsDeliveredAfterItIsFinished",
    deliver_after_acceptance_by_an_unknown_leader: "NothingIsDeliveredAfterItIsFinished",
    deliver_to_two_at_once: "LocksAreExclusive",
    let_two_acknowledge_at_once: "LocksAreExclusive",
}


@pytest.mark.parametrize("play", BREAKS)
def test_a_broken_promise_is_found_alone(play: Callable[[SampleShareHistory], None]) -> None:
    history = SampleShareHistory()
    play(history)
    history.ends(0)
    assert broken(history, SHARE_CHECKERS) == [BREAKS[play]]
