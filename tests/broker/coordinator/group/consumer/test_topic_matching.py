"""Topics of regular expressions: matched at once if that is cheap, otherwise in slices, and never matched twice."""

import sys
import time
from typing import Any

import pytest

from broker.coordinator.group.consumer.topic_matching import SLICE, TopicMatcher
from broker.wire.errors import ErrorCode, KafkaError
from metadata.image import MetadataDelta, MetadataImage
from metadata.records import RemoveTopicRecord, TopicRecord
from metadata.regex.matching import LENGTH_MAX, RegexError, compile_regex
from tests.support.consumer_clients import ConsumerClient, ConsumerGroups, settle

# Every character reaches all 3,000 states of the automaton, which makes this the most expensive expression.
EXPENSIVE = ".*" * 1_500


def image_of(*names: str, base: MetadataImage | None = None, deleted: tuple[str, ...] = ()) -> MetadataImage:
    before = base or MetadataImage()
    delta = MetadataDelta(before)
    delta.replay([TopicRecord(name=name, topic_id=name.encode()[:16].rjust(16)) for name in names])
    delta.replay([RemoveTopicRecord(topic_id=before.topics.by_name[name].topic_id) for name in deleted])
    return delta.apply(before.offset + 1)


def many(count: int) -> list[str]:
    return [f"orders-{number}" for number in range(count)]


def finish(matcher: TopicMatcher) -> int:
    """Finish matching. Returns the number of slices."""
    slices = 0
    while matcher.is_busy:
        matcher.advance()
        slices += 1
    return slices


def work_of(matcher: TopicMatcher, expression: str) -> int:
    regex = matcher._searches[expression].regex
    assert regex is not None
    return regex.work


def test_a_usual_expression_is_resolved_at_once() -> None:
    matcher = TopicMatcher()
    found = matcher.find(["orders-1.*", "nothing"], image_of(*many(500)))
    assert len(found["orders-1.*"]) == 111
    assert found["nothing"] == ()
    assert not matcher.is_busy


def test_an_expensive_expression_is_resolved_by_slices_of_bounded_work() -> None:
    matcher = TopicMatcher()
    image = image_of(*many(200))
    matcher.check(EXPENSIVE)
    assert matcher.find([EXPENSIVE], image) == {}
    slices = 0
    while matcher.is_busy:
        before = work_of(matcher, EXPENSIVE)
        matcher.advance()
        slices += 1
        assert work_of(matcher, EXPENSIVE) - before < 2 * SLICE
    assert slices > 3
    assert matcher.find([EXPENSIVE], image) == {EXPENSIVE: tuple(sorted(many(200)))}


def test_only_new_topics_are_matched_when_topics_change() -> None:
    matcher = TopicMatcher()
    image = image_of(*many(300))
    assert len(matcher.find(["orders-.*"], image)["orders-.*"]) == 300
    before = work_of(matcher, "orders-.*")
    image = image_of("orders-new", "other", base=image, deleted=("orders-7",))
    found = matcher.find(["orders-.*"], image)["orders-.*"]
    assert "orders-new" in found
    assert "orders-7" not in found
    assert len(found) == 300
    assert work_of(matcher, "orders-.*") - before < 100


def test_topics_that_change_while_an_expression_is_resolved_count_at_the_end() -> None:
    matcher = TopicMatcher()
    image = image_of(*many(200))
    matcher.find([EXPENSIVE], image)
    matcher.advance()
    image = image_of("added", base=image, deleted=("orders-0", "orders-199"))
    while EXPENSIVE not in (found := matcher.find([EXPENSIVE], image)):
        matcher.advance()
    assert set(found[EXPENSIVE]) == {*many(200), "added"} - {"orders-0", "orders-199"}


def test_many_expensive_expressions_share_one_slice() -> None:
    matcher = TopicMatcher()
    expressions = [EXPENSIVE + str(number) for number in range(100)]
    image = image_of(*many(50))
    started = time.thread_time()
    assert matcher.find(expressions, image) == {}
    assert time.thread_time() - started < 1, "all of them would take 20 s"
    for _ in range(100):
        finish(matcher)
        if len(matcher.find(expressions, image)) == len(expressions):
            break
    else:
        pytest.fail("it never comes to an end")


def test_invalid_expression_matches_no_topics() -> None:
    assert TopicMatcher().find(["(", "a"], image_of("a")) == {"(": (), "a": ("a",)}


@pytest.mark.parametrize(
    "expression",
    [
        "x" * 1_000_000,
        "x" * (LENGTH_MAX + 1),
        ".*" * 3_000,
        "(((){1000}){1000}){1000}",
        "(?:(?:(?:|){1000}){1000}){1000}",
        "a{1000}" * 6,
        "{" * 1_000_000,
        "(?i)" * 300_000,
        "a{" + "0" * 4_000 + "1}",
    ],
    ids=[
        "a literal",
        "a character more",
        "dots",
        "nothing",
        "choices of nothing",
        "repeats",
        "braces",
        "flags",
        "digits",
    ],
)
def test_expressions_beyond_a_length_or_compiled_size_are_refused_cheaply(expression: str) -> None:
    started = time.thread_time()
    if expression.endswith("1}"):
        compile_regex(expression)  # matches itself, as in RE2
    else:
        with pytest.raises(RegexError):
            compile_regex(expression)
    assert time.thread_time() - started < 0.5, "once it took seconds, or did not end"


@pytest.mark.parametrize("size", [LENGTH_MAX + 1, 1_000_000])
def test_a_heartbeat_with_a_huge_expression_is_refused_without_repeating_it(size: int) -> None:
    shard = ConsumerGroups()
    shard.create_topic("a", 1)
    with pytest.raises(KafkaError) as refused:
        ConsumerClient(shard, "m", regex="x" * size).heartbeat()
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(str(refused.value)) < 500


def expensive_shard() -> ConsumerGroups:
    shard = ConsumerGroups()
    for name in many(30):
        shard.create_topic(name, 1)
    shard.create_topic("literal", 1)
    return shard


def joined(shard: ConsumerGroups, **fields: Any) -> tuple[ConsumerClient, int]:
    client = ConsumerClient(shard, "m", **fields)
    response = client.heartbeat()
    assert response is not None
    return client, response.heartbeat_interval_ms


def test_member_has_its_literal_topics_first_and_those_of_an_expensive_expression_later() -> None:
    """As in Kafka, which resolves every expression separately from the heartbeat."""
    shard = expensive_shard()
    client, interval_ms = joined(shard, topics=["literal"], regex=EXPENSIVE)
    assert set(client.names()) == {"literal"}
    assert interval_ms < 1_000, "it is to ask again soon"
    shard.pass_ms(5_000)
    for _ in range(3):
        client.heartbeat()
    assert set(client.names()) == {"literal", *many(30)}
    assert "consumer-topic-matching" not in shard.timers.due


def test_unfinished_expression_is_accepted_and_ends_with_its_member() -> None:
    shard = expensive_shard()
    client, _ = joined(shard, topics=[], regex=EXPENSIVE)
    client.heartbeat()
    client.subscribe(["literal"])
    client.heartbeat()
    shard.pass_ms(5_000)
    client.heartbeat()
    assert set(client.names()) == {"literal"}
    assert not shard.state.topic_matcher.is_busy


def test_next_coordinator_resolves_unfinished_expressions_again() -> None:
    shard = expensive_shard()
    client, _ = joined(shard, topics=[], regex=EXPENSIVE)
    shard.load()
    client.heartbeat()
    shard.pass_ms(5_000)
    for _ in range(3):
        client.heartbeat()
    assert set(client.names()) == {"literal", *many(30)}


def calls_of_heartbeat(members: int, regex: str | None) -> int:
    """How many functions a heartbeat calls in a group of so many members with one subscription."""
    shard = ConsumerGroups()
    shard.create_topic("a", members)
    clients = [ConsumerClient(shard, f"m{number}", None if regex else ["a"], regex) for number in range(members)]
    settle(clients)
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        clients[0].heartbeat()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("regex", [None, "a.*"])
def test_heartbeats_cost_the_same_however_many_members_share_a_subscription(regex: str | None) -> None:
    assert calls_of_heartbeat(40, regex) == calls_of_heartbeat(2, regex)
