"""The decisions of the share coordinator, compared with those of Apache Kafka 4.4's, and their replay (KIP-932)."""

from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.coordinator.runtime.decision import Decision
from broker.coordinator.share import batch_merging as merging
from broker.coordinator.share import requests
from broker.coordinator.share.batch_merging import merged
from broker.coordinator.share.record_formats import ShareSnapshot, ShareUpdate, decode_snapshot, decode_update
from broker.coordinator.share.requests import Write
from broker.coordinator.share.shard import ShareCoordinatorShard
from broker.coordinator.share.share_state import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    UNINITIALIZED,
    PartitionState,
    PartitionSummary,
    SharePartitionKey,
    StateBatch,
)
from broker.coordinator.share.state_updates import with_updates
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.uuids import decode_uuid
from tests.support import kafka_facts
from tests.support.share_states import GROUP, KEY, ShareShard, by_offset

FACTS = kafka_facts.read("share_state")


def batch(text: str) -> StateBatch:
    """Reads a batch such as "3-5:2:1"."""
    offsets, state, count = text.split(":")
    first, last = offsets.split("-")
    return StateBatch(int(first), int(last), int(state), int(count))


def decision_of(api: str, arguments: list[str]) -> Any:
    topic_id, partition, *numbers = arguments
    key = SharePartitionKey(GROUP, decode_uuid(topic_id), int(partition))
    match api:
        case "initialize":
            state_epoch, start_offset = map(int, numbers)
            return partial(requests.initialize, key=key, state_epoch=state_epoch, start_offset=start_offset)
        case "read":
            return partial(requests.read, key=key, leader_epoch=int(numbers[0]))
        case "delete":
            return partial(requests.delete, key=key)
        case "write":
            epochs, batches = map(int, numbers[:4]), tuple(map(batch, numbers[4:]))
            return partial(requests.write, key=key, written=Write(*epochs, batches))
    assert api == "read_summary"
    return lambda state, now_ms: Decision((), requests.read_summary(state, now_ms, key=key))


def text_of(response: Any) -> str:
    match response:
        case PartitionState():
            batches = [f"{each[0]}-{each[1]}:{each[2]}:{each[3]}" for each in response.batches]
            return " ".join([str(response.state_epoch), str(response.start_offset), *batches])
        case PartitionSummary():
            return (
                f"{response.state_epoch} {response.leader_epoch} {response.start_offset} "
                f"{response.delivery_complete_count}"
            )
    return ""


@pytest.mark.parametrize("sequence", sorted({row["sequence"] for row in FACTS}))
def test_decisions_records_and_responses_are_those_of_kafka(sequence: str) -> None:
    shard = ShareShard()
    for row in (each for each in FACTS if each["sequence"] == sequence):
        shard.now_ms = int(row["at_ms"])
        before, code, response = len(shard.log), ErrorCode.NONE, None
        try:
            response = shard.write(decision_of(row["api"], row["arguments"].split()))
        except KafkaError as error:
            code = error.code
        assert (int(row["error_code"]), row["response"]) == (code, text_of(response)), row
        appended = [(each.key.hex(), "null" if each.value is None else each.value.hex()) for each in shard.log[before:]]
        assert appended == ([(row["key"], row["value"])] if row["key"] else []), row


BATCHES = st.lists(
    st.builds(
        lambda first, length, state, count: StateBatch(first, first + length, state, count),
        st.integers(0, 40),
        st.integers(0, 8),
        st.sampled_from([AVAILABLE, ACKNOWLEDGED, ARCHIVED]),
        st.integers(1, 3),
    ),
    max_size=6,
)


@given(st.lists(st.tuples(BATCHES, st.integers(UNINITIALIZED, 40)), min_size=1, max_size=6))
def test_merging_agrees_with_merging_offset_by_offset(writes: list[tuple[list[StateBatch], int]]) -> None:
    state: tuple[StateBatch, ...] = ()
    offsets: dict[int, tuple[int, int]] = {}
    for batches, start_offset in writes:
        state = merged(state, batches, start_offset)
        for each in batches:
            for offset, (delivery_state, count) in by_offset([each]).items():
                current = offsets.get(offset, (0, 0))
                offsets[offset] = max((delivery_state, count), current, key=lambda found: (found[1], found[0]))
        offsets = {offset: found for offset, found in offsets.items() if offset >= start_offset}
        assert by_offset(state) == offsets
        for before, after in pairwise(state):
            assert before.last_offset < after.first_offset
            assert before[2:] != after[2:] or before.last_offset + 1 < after.first_offset, "they are one batch"


def prepared_in_steps(written: Write) -> tuple[Write, int]:
    """The prepared write, and the number of steps that it took."""
    steps, count = requests.prepared(written), 0
    while True:
        try:
            next(steps)
        except StopIteration as stopped:
            return stopped.value, count
        count += 1


@given(BATCHES)
def test_prepared_write_has_the_same_effect(batches: list[StateBatch]) -> None:
    written = Write(0, 0, 3, 0, tuple(batches))
    ordered, _ = prepared_in_steps(written)
    assert by_offset(ordered.batches) == by_offset(merged((), batches, UNINITIALIZED))
    states = []
    for each in (written, ordered):
        shard = ShareShard()
        shard.write(requests.initialize, key=KEY, state_epoch=0, start_offset=0)
        shard.write(requests.write, key=KEY, written=each)
        states.append(shard.state.state_of(KEY))
    assert states[0] == states[1]


def test_batches_that_overlap_are_prepared_in_steps_and_only_once() -> None:
    nested = tuple(StateBatch(number, 20_000 - number, AVAILABLE, 1 + number) for number in range(10_000))
    ordered, steps = prepared_in_steps(Write(0, 0, 0, 0, nested))
    assert steps > 50
    assert prepared_in_steps(ordered) == (ordered, 0)


def test_coordinator_neither_decodes_nor_orders_the_10_000_batches_of_its_own_records() -> None:
    """Each would take some ms, in which the event loop serves nothing else."""
    written = tuple(StateBatch(2 * number, 2 * number, AVAILABLE, 1) for number in range(10_000))
    ordered, _ = prepared_in_steps(Write(0, 0, 0, 0, written))
    update = ShareUpdate(0, 0, 0, 0, merged((), ordered.batches, 0))
    snapshot = ShareSnapshot(1, 0, 0, 0, 0, update.batches, created_ms=1, written_ms=2)
    for batches in (ordered.batches, update.batches):
        assert merging.ordered(batches) is batches
    for source, decode in ((update, decode_update), (snapshot, decode_snapshot)):
        value = source.record(KEY).value
        assert value is not None
        assert decode(value) is source
        assert decode(bytes(value)) == source, "other brokers decode it"


def test_prepared_write_keeps_the_batches_that_are_refused() -> None:
    backwards = Write(0, 0, 0, 0, (StateBatch(0, 5, AVAILABLE, 1), StateBatch(3, 2, AVAILABLE, 1)))
    assert prepared_in_steps(backwards) == (backwards, 0)


@given(st.lists(st.tuples(BATCHES, st.integers(UNINITIALIZED, 40)), min_size=1, max_size=6))
def test_writes_that_are_repeated_late_have_no_effect(writes: list[tuple[list[StateBatch], int]]) -> None:
    shard = ShareShard(updates_per_snapshot=2)
    shard.write(requests.initialize, key=KEY, state_epoch=0, start_offset=0)
    written = [Write(0, 0, start, len(batches), tuple(batches)) for batches, start in writes]
    for each in written:
        shard.write(requests.write, key=KEY, written=each)
    before = shard.state.states[KEY]
    for each in written:
        shard.write(requests.write, key=KEY, written=each)
        after = shard.state.states[KEY]
        assert (after.start_offset, after.delivery_complete_count) == (
            before.start_offset,
            before.delivery_complete_count,
        )
        assert after.batches == before.batches


UPDATES = st.builds(
    lambda leader_epoch, start, count, batches: ShareUpdate(0, leader_epoch, start, count, merged((), batches, start)),
    st.integers(-1, 2),
    st.integers(UNINITIALIZED, 40),
    st.integers(-1, 5),
    BATCHES,
)


@given(st.lists(UPDATES, min_size=1, max_size=6), st.booleans(), st.booleans())
def test_updates_that_are_merged_together_equal_those_merged_one_by_one(
    updates: list[ShareUpdate], has_state: bool, moves_on: bool
) -> None:
    """Start offsets that move back stand in logs of Kafka before 4.4."""
    if moves_on:
        updates = sorted(updates, key=lambda each: each.start_offset)
    state = ShareSnapshot(0, 0, 0, 7, 0, (StateBatch(7, 20, AVAILABLE, 1),), 0, 0) if has_state else None
    one_by_one = state
    for each in updates:
        one_by_one = with_updates(one_by_one, [each])
    assert with_updates(state, updates) == one_by_one


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), BATCHES, st.integers(UNINITIALIZED, 40)),
        st.tuples(st.just("read"), st.integers(0, 3)),
        st.tuples(st.just("initialize"), st.integers(0, 3)),
        st.sampled_from([("delete",), ("fire",), ("prune",), ("reload",)]),
    ),
    max_size=30,
)


@given(ACTIONS)
def test_state_that_is_loaded_from_a_pruned_log_equals_the_state_before(actions: list[tuple[Any, ...]]) -> None:
    """The leader epochs may be lower after loading: an initialization records 0, as in Kafka, and prunes the rest."""
    shard = ShareShard(cold_interval_ms=1)
    shard.write(requests.initialize, key=KEY, state_epoch=0, start_offset=0)
    other = KEY._replace(partition=1)
    shard.write(requests.initialize, key=other, state_epoch=0, start_offset=0)
    for at, (name, *values) in enumerate(actions):
        shard.now_ms += 1
        key = KEY if at % 3 else other
        try:
            match name:
                case "write":
                    current = shard.state.states[key]
                    written = Write(current.state_epoch, 9, values[1], 0, tuple(values[0]))
                    shard.write(requests.write, key=key, written=written)
                case "read":
                    shard.write(requests.read, key=key, leader_epoch=values[0])
                case "initialize":
                    shard.write(requests.initialize, key=key, state_epoch=values[0], start_offset=5)
                case "delete":
                    shard.write(requests.delete, key=other)
                case "fire":
                    shard.fire()
                case "prune":
                    shard.prune()
                case "reload":
                    shard.state = shard.loaded()
        except (KafkaError, KeyError):
            continue
        loaded = shard.loaded()
        for each in shard.state.states:
            assert loaded.state_of(each) == shard.state.state_of(each), each
        for attribute in ("states", "state_epochs", "snapshot_offsets", "requested"):
            assert getattr(loaded, attribute) == getattr(shard.state, attribute), attribute
        assert all(loaded.leader_epochs[each] <= epoch for each, epoch in shard.state.leader_epochs.items())


def test_redundant_offset_follows_the_oldest_of_the_last_snapshots() -> None:
    shard = ShareShard(updates_per_snapshot=1, cold_interval_ms=1000)
    other = KEY._replace(partition=1)
    assert shard.state.redundant_offset is None
    for key in (KEY, other):
        shard.write(requests.initialize, key=key, state_epoch=0, start_offset=0)
    for _ in range(4):  # offsets 2 to 5: two updates and two snapshots
        shard.write(
            requests.write, key=KEY, written=Write(0, 0, UNINITIALIZED, 0, (StateBatch(1, 1, ACKNOWLEDGED, 1),))
        )
    assert shard.state.snapshot_offsets == {other: 1, KEY: 5}
    assert shard.state.redundant_offset == 1, "the other share-partition has no later snapshot"
    shard.now_ms += 1000
    shard.fire()
    assert shard.state.redundant_offset == 6, "both have cold snapshots, at the offsets 6 and 7"
    shard.write(requests.delete, key=other)
    assert shard.state.redundant_offset == shard.state.snapshot_offsets[KEY]
    shard.now_ms += 1000
    written = len(shard.log)
    shard.fire()
    assert len(shard.log) == written, "nothing was written since the last cold snapshots"
    shard.write(requests.delete, key=KEY)
    assert shard.state.redundant_offset == written, "the tombstone's"


def test_many_cold_share_partitions_get_snapshots_in_portions() -> None:
    shard = ShareShard(cold_interval_ms=1000)
    groups = [KEY._replace(group_id=f"group-{number}") for number in range(450)]
    for key in groups:
        shard.write(requests.initialize, key=key, state_epoch=0, start_offset=0)
    shard.now_ms += 1000
    portions = []
    for _ in range(4):
        before = len(shard.log)
        shard.fire()
        portions.append(len(shard.log) - before)
    assert portions == [200, 200, 50, 0]
    assert shard.state.redundant_offset == len(groups)


def test_states_of_a_deleted_topic_are_removed() -> None:
    shard = ShareShard()
    for key in (KEY, KEY._replace(partition=1), KEY._replace(group_id="another")):
        shard.write(requests.initialize, key=key, state_epoch=0, start_offset=0)
    shard.due.clear()
    shard.delete_topic()
    with pytest.raises(KafkaError) as refused:
        shard.write(requests.read, key=KEY, leader_epoch=0)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    shard.fire()
    assert shard.state.states == {} == shard.loaded().states


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b""),
        (b"\0", b""),
        (b"\0\0\0\x05gro", b""),
        (b"\0\x09", b""),
        (b"\0\0\0\1g" + bytes(20), b"\0"),
        (b"\0\0\0\1g" + bytes(20), b"\0\7" + bytes(60)),
        (b"\0\1\0\1g" + bytes(20), b"\0\0" + bytes(3)),
        (b"\0\1\0\1g" + bytes(20), b"\0\0" + bytes(16) + b"\xff\xff\xff\xff\x0f\0"),
    ],
)
def test_unreadable_records_are_skipped(key: bytes, value: bytes) -> None:
    shard = ShareShard()
    shard.state.replay(key, value, 0)
    assert (shard.state.states, shard.state.skipped_records) == ({}, 1)
    loading = ShareCoordinatorShard(shard, shard.config)
    loading.replay(key, value, 0)
    assert (loading.state_of(SharePartitionKey("g", bytes(16), 0)), loading.skipped_records) == (None, 1)


@pytest.mark.parametrize(
    "written",
    [(StateBatch(5, 4, 2, 1),), (StateBatch(-2, 4, 2, 1),), tuple(StateBatch(at, at, 2, 1) for at in range(10_001))],
    ids=["no offset", "negative", "too many"],
)
def test_batches_that_no_state_can_have_are_refused(written: tuple[StateBatch, ...]) -> None:
    shard = ShareShard()
    shard.write(requests.initialize, key=KEY, state_epoch=0, start_offset=0)
    with pytest.raises(KafkaError) as refused:
        shard.write(requests.write, key=KEY, written=Write(0, 0, 0, 0, written))
    assert refused.value.code is ErrorCode.INVALID_REQUEST
