"""Each promise in histories that keep it, break it, and do not decide it."""

from collections.abc import Callable

import pytest

from jepsen.history import Outcome
from jepsen.testing.histories import ExactlyOnce, Promise, PromiseBroken, Status, check
from tests.support.application_histories import ApplicationHistory

LOST, TWICE, ORDER, BACK = (
    Promise.NOTHING_LOST,
    Promise.NOTHING_TWICE,
    Promise.ORDER_PER_KEY,
    Promise.OFFSETS_NEVER_BACK,
)
COPIED = ExactlyOnce("orders", "invoices")

Story = Callable[[ApplicationHistory], object]


def sent_and_read(app: ApplicationHistory) -> None:
    app.send("a", 0, key="k")
    app.send("b", 1, key="k")
    app.scan((0, "a"), (1, "b"))


def equal_values_are_two_records(app: ApplicationHistory) -> None:
    app.send("a", 0, key="k")
    app.send("b", 1, key="k")
    app.send("a", 2, key="k")
    app.scan((0, "a"), (1, "b"), (2, "a"))


def acknowledged_record_is_overwritten(app: ApplicationHistory) -> None:
    app.send("a", 0)
    app.scan((0, "b"))


def acknowledged_record_is_missing(app: ApplicationHistory) -> None:
    app.send("a", 0)
    app.send("b", 1)
    app.scan((0, "a"), end=2)


def partition_ends_before_the_record(app: ApplicationHistory) -> None:
    app.send("a", 5)
    app.scan((0, "x"))


def acknowledged_record_is_not_read(app: ApplicationHistory) -> None:
    app.send("a", 0)


def record_lies_after_an_open_transaction(app: ApplicationHistory) -> None:
    app.send("a", 7)
    app.scan(end=8, stop=5)


def group_skips_a_record(app: ApplicationHistory) -> None:
    for offset, name in enumerate("abc"):
        app.send(name, offset)
    app.assign()
    app.poll((0, "a"))
    app.poll((2, "c"))
    app.commit(3)
    app.scan((0, "a"), (1, "b"), (2, "c"))


def group_has_not_read_all(app: ApplicationHistory) -> None:
    app.send("a", 0)
    app.send("b", 1)
    app.assign()
    app.poll((0, "a"))
    app.commit(1)
    app.scan((0, "a"), (1, "b"))


def group_that_began_later_is_promised_nothing_earlier(app: ApplicationHistory) -> None:
    app.send("a", 0)
    app.send("b", 1)
    app.assign()
    app.poll((1, "b"))
    app.commit(2)
    app.scan((0, "a"), (1, "b"))


def commit_comes_before_the_work(app: ApplicationHistory) -> None:
    app.send("a", 0)
    app.send("b", 1)
    app.assign()
    app.poll((0, "a"), (1, "b"))
    app.process(0)
    app.commit(2)
    app.scan((0, "a"), (1, "b"))


def work_is_done_before_the_commit(app: ApplicationHistory) -> None:
    app.send("a", 0)
    app.assign()
    app.poll((0, "a"))
    app.process(0)
    app.commit(1)
    app.scan((0, "a"))


def work_has_no_known_end(app: ApplicationHistory) -> None:
    app.send("a", 0)
    app.assign()
    app.poll((0, "a"))
    app.process(0, Outcome.INFO)
    app.commit(1)
    app.scan((0, "a"))


def work_is_done_twice(app: ApplicationHistory) -> None:
    app.send("a", 0)
    app.assign()
    for _ in range(2):
        app.poll((0, "a"))
        app.process(0)
    app.scan((0, "a"))


def retry_writes_a_double(app: ApplicationHistory) -> None:
    app.send("a", 1)
    app.scan((0, "a"), (1, "a"))


def unknown_send_is_written(app: ApplicationHistory) -> None:
    app.send("a", None, outcome=Outcome.INFO)
    app.send("a", 1)
    app.scan((0, "a"), (1, "a"))


def unknown_send_is_written_twice(app: ApplicationHistory) -> None:
    app.send("a", None, outcome=Outcome.INFO)
    app.send("b", 2)
    app.scan((0, "a"), (1, "a"), (2, "b"))


def refused_send_is_written_beside_its_repetition(app: ApplicationHistory) -> None:
    app.send("a", None, outcome=Outcome.FAIL)
    app.send("a", 1)
    app.scan((0, "a"), (1, "a"))


def aborted_record_is_seen_by_a_dirty_reader(app: ApplicationHistory) -> None:
    app.send("a", None, outcome=Outcome.FAIL, transaction="t1")
    app.send("a", 2, transaction="t2")
    app.read((0, "a"), (2, "a"))
    app.scan((2, "a"), end=4)


def aborted_record_is_sent_again(app: ApplicationHistory) -> None:
    app.send("a", None, outcome=Outcome.FAIL, transaction="t1")
    app.send("a", 2, transaction="t2")
    app.send("b", None, outcome=Outcome.INFO, transaction="t3")
    app.poll((2, "a"), (4, "b"))
    app.scan((2, "a"), (4, "b"), end=6)


def partition_grows_after_its_read(app: ApplicationHistory) -> None:
    app.scan()
    app.send("a", 0)
    app.read((0, "a"))


def unrecorded_batch(app: ApplicationHistory) -> None:
    sent_and_read(app)
    app.unrecorded()


def key_is_out_of_order(app: ApplicationHistory) -> None:
    app.send("a", 1, key="k")
    app.send("b", 0, key="k")
    app.scan((0, "b"), (1, "a"))


def keys_are_independent(app: ApplicationHistory) -> None:
    app.send_together(("a", 1, "k"), ("b", 0, "l"))


def acknowledged_first_and_stored_later(app: ApplicationHistory) -> None:
    app.send("a", 1, client="producer@1")
    app.send("b", 0, client="producer@2")


def member_goes_on(app: ApplicationHistory) -> None:
    app.assign()
    app.poll((0, "a"))
    app.commit(1)
    app.poll((1, "b"))
    app.commit(2)
    app.revoke()
    app.assign("consumer@4")
    app.poll((2, "c"), client="consumer@4")
    app.commit(3, client="consumer@4")


def member_gets_a_record_again(app: ApplicationHistory) -> None:
    app.assign()
    app.poll((0, "a"), (1, "b"))
    app.poll((1, "b"))


def redelivery_after_a_rebalance_is_no_step_back(app: ApplicationHistory) -> None:
    app.assign()
    app.poll((0, "a"), (1, "b"))
    app.commit(1)
    app.revoke()
    app.assign("consumer@4")
    app.poll((1, "b"), client="consumer@4")


def commit_goes_back(app: ApplicationHistory) -> None:
    app.commit(5)
    app.commit(3, client="consumer@4")


def member_begins_before_the_commit(app: ApplicationHistory) -> None:
    app.assign()
    app.poll((0, "a"))
    app.commit(1)
    app.revoke()
    app.assign("consumer@4")
    app.poll((0, "a"), client="consumer@4")


def member_begins_at_an_unknown_commit(app: ApplicationHistory) -> None:
    app.assign()
    app.poll((0, "a"), (1, "b"))
    app.commit(2)
    app.commit(0, Outcome.INFO)
    app.revoke()
    app.assign("consumer@4")
    app.poll((0, "a"), client="consumer@4")


def reader_goes_back(app: ApplicationHistory) -> None:
    app.read((4, "e"))
    app.read((2, "c"))


def copied(app: ApplicationHistory, *outputs: int, committed: int = 1) -> None:
    app.send("a", 0)
    app.assign()
    app.poll((0, "a"))
    for offset in outputs:
        app.send("a", offset, topic="invoices", client="producer@2")
    if committed:
        app.commit(committed)
    app.scan((0, "a"))
    app.scan(*((offset, "a") for offset in outputs), topic="invoices")


def copied_once(app: ApplicationHistory) -> None:
    copied(app, 0)


def copied_twice(app: ApplicationHistory) -> None:
    copied(app, 0, 1)


def committed_and_not_copied(app: ApplicationHistory) -> None:
    copied(app)


def not_yet_copied(app: ApplicationHistory) -> None:
    copied(app, committed=0)


def output_is_not_read(app: ApplicationHistory) -> None:
    app.send("a", 0)
    app.poll((0, "a"))
    app.send("a", 0, topic="invoices")
    app.commit(1)


def output_is_read_before_the_commit(app: ApplicationHistory) -> None:
    app.send("a", 0)
    app.scan(topic="invoices")
    app.poll((0, "a"))
    app.commit(1)


def output_comes_from_nowhere(app: ApplicationHistory) -> None:
    app.send("b", 0, topic="invoices")
    app.scan((0, "b"), topic="invoices")


KEPT: list[tuple[Promise | ExactlyOnce, Story]] = [
    (LOST, sent_and_read),
    (LOST, equal_values_are_two_records),
    (LOST, group_that_began_later_is_promised_nothing_earlier),
    (LOST, work_is_done_before_the_commit),
    (TWICE, sent_and_read),
    (TWICE, equal_values_are_two_records),
    (TWICE, unknown_send_is_written),
    (TWICE, aborted_record_is_seen_by_a_dirty_reader),
    (Promise.EACH_IDENTITY_ONCE, sent_and_read),
    (Promise.NOTHING_ABORTED, aborted_record_is_sent_again),
    (ORDER, sent_and_read),
    (ORDER, equal_values_are_two_records),
    (ORDER, keys_are_independent),
    (BACK, member_goes_on),
    (BACK, redelivery_after_a_rebalance_is_no_step_back),
    (BACK, member_begins_at_an_unknown_commit),
    (COPIED, copied_once),
]
BROKEN: list[tuple[Promise | ExactlyOnce, Story, str]] = [
    (LOST, acknowledged_record_is_overwritten, "a was acknowledged at 0 of orders-0, where there is b"),
    (LOST, acknowledged_record_is_missing, "b was acknowledged at 1 of orders-0, and nothing is there"),
    (LOST, partition_ends_before_the_record, "a was acknowledged at 5 of orders-0, and the partition ends at 1"),
    (LOST, group_skips_a_record, "billing has committed 3 of orders-0, and no member of it has received b at 1"),
    (LOST, commit_comes_before_the_work, "billing has committed 2 of orders-0, and has not processed b at 1"),
    (TWICE, retry_writes_a_double, "a was sent once to orders, and is at 0, 1 of orders-0"),
    (TWICE, unknown_send_is_written_twice, "a was sent once to orders, and is at 0, 1 of orders-0"),
    (TWICE, refused_send_is_written_beside_its_repetition, "a was sent once to orders, and is at 0, 1 of orders-0"),
    (TWICE, work_is_done_twice, "billing has processed offset 0 of orders-0 twice"),
    (Promise.EACH_IDENTITY_ONCE, equal_values_are_two_records, "a is at 0, 2 of orders-0"),
    (
        Promise.NOTHING_ABORTED,
        aborted_record_is_seen_by_a_dirty_reader,
        "a of orders was sent in t1, which was aborted, and is read at 0 of orders-0",
    ),
    (ORDER, key_is_out_of_order, "b is at 0 of orders-0, and a, which was sent before it, at 1"),
    (ORDER, acknowledged_first_and_stored_later, "orders-0 gave offset 0 after 1 had been acknowledged"),
    (BACK, member_gets_a_record_again, "consumer@2 gets 1 of orders-0 after 1"),
    (BACK, commit_goes_back, "billing commits 3 of orders-0 after 5 was committed"),
    (BACK, member_begins_before_the_commit, "consumer@4 begins orders-0 at 0, after billing had committed 1"),
    (BACK, reader_goes_back, "reader@3 gets 2 of orders-0 after 4"),
    (COPIED, copied_twice, "a is in orders once, and has 2 outputs: 0, 1 of invoices-0"),
    (COPIED, committed_and_not_copied, "a is at 0 of orders-0, which was committed, and has no output in invoices"),
]
UNKNOWN: list[tuple[Promise | ExactlyOnce, Story, str]] = [
    (LOST, acknowledged_record_is_not_read, "a record of orders-0, from offset 0 on: in no recorded read"),
    (LOST, record_lies_after_an_open_transaction, "a record of orders-0, from offset 7 on: in no recorded read"),
    (LOST, group_has_not_read_all, "a record of orders-0, from offset 1 on: not received by billing yet"),
    (LOST, work_has_no_known_end, "whether billing has processed offset 0 of orders-0 is not known"),
    (LOST, unrecorded_batch, "producer@1 called produce_batch, whose records are not in the history"),
    (LOST, member_goes_on, "the history has no send that succeeded"),
    (TWICE, acknowledged_record_is_not_read, "orders-0 was not read to its end after the last acknowledged send"),
    (TWICE, partition_grows_after_its_read, "orders-0 was not read to its end after the last acknowledged send"),
    (TWICE, record_lies_after_an_open_transaction, "orders-0 was not read to its end after the last acknowledged send"),
    (
        Promise.NOTHING_ABORTED,
        partition_grows_after_its_read,
        "orders-0 was not read to its end after the last acknowledged send",
    ),
    (BACK, sent_and_read, "the history has no commit or poll-group or poll that succeeded"),
    (COPIED, not_yet_copied, "a has no output yet, as far as the history tells"),
    (COPIED, output_is_not_read, "a: invoices was not read to its end after the commits"),
    (COPIED, output_is_read_before_the_commit, "a has no output yet, as far as the history tells"),
    (COPIED, output_comes_from_nowhere, "b is in invoices, and not in orders"),
]


def written(story: Story) -> ApplicationHistory:
    app = ApplicationHistory()
    story(app)
    return app


@pytest.mark.parametrize(("promise", "story"), KEPT)
def test_promise_is_kept(promise: Promise | ExactlyOnce, story: Story) -> None:
    verdict = check(written(story).history, [promise])
    assert verdict, verdict
    assert verdict[promise].status is Status.KEPT
    verdict.raise_if_broken()


@pytest.mark.parametrize(("promise", "story", "sentence"), BROKEN)
def test_promise_is_broken(promise: Promise | ExactlyOnce, story: Story, sentence: str) -> None:
    verdict = check(written(story).history, [promise])
    assert not verdict
    assert verdict[promise].status is Status.BROKEN
    finding, *_ = verdict[promise].findings
    assert finding.sentence == sentence
    assert finding.operations
    assert finding.around
    with pytest.raises(PromiseBroken, match="broken"):
        verdict.raise_if_broken()
    assert f"> [{finding.operations[0].invoked_at:.3f}" in str(verdict)


@pytest.mark.parametrize(("promise", "story", "sentence"), UNKNOWN)
def test_promise_is_unknown(promise: Promise | ExactlyOnce, story: Story, sentence: str) -> None:
    verdict = check(written(story).history, [promise])
    assert not verdict
    assert verdict[promise].status is Status.UNKNOWN
    assert sentence in [doubt.sentence for doubt in verdict[promise].doubts]
    verdict.raise_if_broken()
    assert sentence in str(verdict)


def test_promises_have_names() -> None:
    app = written(copied_once)
    named = [*(each.value for each in Promise), "exactly once from orders to invoices by billing"]
    verdict = check(app.history, named)
    assert [each.promise.value for each in verdict.promises] == named
    assert verdict["exactly once from orders to invoices by billing"].status is Status.KEPT


@pytest.mark.parametrize("promise", ["nothing is lost", "exactly once from orders", ""])
def test_unknown_names_are_refused(promise: str) -> None:
    with pytest.raises(ValueError, match="is no promise: nothing lost, nothing twice"):
        check(ApplicationHistory().history, [promise])


def test_a_text_in_place_of_a_list_is_refused() -> None:
    with pytest.raises(TypeError, match="promises are a list"):
        check(ApplicationHistory().history, "nothing lost")


def test_copies_of_two_groups_need_the_group() -> None:
    app = written(committed_and_not_copied)
    other = app.history.operations[-3].value
    operation = app.history.invoke("audit@9", "commit", type(other)("audit", "audit@9", -1, other.offsets))
    app.history.ok(operation, None)
    assert check(app.history, [COPIED])[COPIED].status is Status.UNKNOWN
    named = ExactlyOnce("orders", "invoices", "billing")
    assert check(app.history, [named])[named].status is Status.BROKEN
