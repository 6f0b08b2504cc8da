"""Dead-letter topics of share groups on a node: which records get there, and what they look like (KIP-1191)."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from broker.client import Producer
from broker.share_partitions.manager import SharePartitionManager
from broker.wire.errors import ErrorCode
from broker.wire.records import Compression, Record, encode_batch
from metadata.protocol import ConfigResourceType
from tests.support.requests import batch, create_topic, fetch, produce, records_of
from tests.support.running_node import RunningNode, running_node
from tests.support.share_member import GROUP, ShareMember, enable_share_groups, initialize, set_config, set_group_config
from tests.support.wire_client import WireClient, connected

DEAD_LETTERS = "dlq.topic"
NAME, COPY = "errors.deadletterqueue.topic.name", "errors.deadletterqueue.copy.record.enable"
ENABLE = {"errors.deadletterqueue.group.enable": "true"}
WITHIN_S = 20.0
REJECTED, TOO_OFTEN = b"Offset rejected by client.", b"Offset delivery count exceeded the threshold."
ACCEPT, RELEASE, REJECT = 1, 2, 3
LOCK_MS = 1_000
SETTINGS = {
    "errors_deadletterqueue_auto_create_topics_enable": "true",
    "group_share_min_record_lock_duration_ms": LOCK_MS,
    "group_share_delivery_count_limit": 2,
    "share_coordinator_state_topic_num_partitions": 1,
}


@attrs.frozen
class Shares:
    """A node with a topic, and a member of the group whose dead-letter topic is `dlq.topic`."""

    node: RunningNode
    client: WireClient
    topic_id: bytes
    member: ShareMember

    @property
    def manager(self) -> SharePartitionManager:
        return manager_of(self.node)

    async def dead_letters(self, count: int) -> list[Record]:
        return await dead_letters(self.client, count)

    async def until_finished(self, end: int) -> None:
        """Wait until the group has finished all records before the offset `end`."""
        await until_finished(self.node, end)


@asynccontextmanager
async def shares_on(
    directory: Path, topic_configs: Mapping[str, str] | None = None, **settings: Any
) -> AsyncIterator[Shares]:
    async with running_node(directory, **{**SETTINGS, **settings}) as node, connected(node.port) as client:
        topic_id = await create_topic(client, configs=topic_configs)
        await initialize(node, topic_id)
        await set_group_config(client, NAME, DEAD_LETTERS)
        yield Shares(node, client, topic_id, ShareMember(client, topic_id))
        assert not node.traced.of("handler_failed")


@pytest.fixture
async def shares(tmp_path: Path) -> AsyncIterator[Shares]:
    async with shares_on(tmp_path) as shares:
        yield shares


async def dead_letters(client: WireClient, count: int, name: str = DEAD_LETTERS) -> list[Record]:
    """The records of the dead-letter topic, once there are `count`."""
    with trio.fail_after(WITHIN_S):
        while True:
            partition = await fetch(client, topic=name)
            found = [] if partition.error_code else records_of(partition)
            if len(found) >= count:
                return found
            await trio.sleep(0.02)


def manager_of(node: RunningNode) -> SharePartitionManager:
    broker = node.node.broker
    assert broker is not None
    assert broker.dispatcher is not None
    return broker.dispatcher.services.shares.partitions


async def until_finished(node: RunningNode, end: int) -> None:
    with trio.fail_after(WITHIN_S):
        while not any(state.start_offset >= end for _, state in manager_of(node).loaded_states()):
            await trio.sleep(0.02)


def context(
    offset: int, delivery_count: int, cause: bytes, *, topic: bytes = b"topic"
) -> tuple[tuple[str, bytes], ...]:
    """The headers that name a record."""
    return (
        ("__dlq.errors.topic", topic),
        ("__dlq.errors.partition", b"0"),
        ("__dlq.errors.offset", b"%d" % offset),
        ("__dlq.errors.group", GROUP.encode()),
        ("__dlq.errors.delivery.count", b"%d" % delivery_count),
        ("__dlq.errors.message", cause),
    )


async def test_rejected_and_too_often_delivered_records_are_named_in_a_created_topic(shares: Shares) -> None:
    await produce(shares.client, batch(b"0", b"1", b"2", b"3"))
    assert await shares.member.acquire() == [(0, 3, 1)]
    await shares.member.acknowledge((0, 3, [ACCEPT, REJECT, RELEASE, RELEASE]))
    assert await shares.member.acquire() == [(2, 3, 2)]
    await shares.member.acknowledge((2, 3, [RELEASE, ACCEPT]))
    found = await shares.dead_letters(2)
    assert [(each.key, each.value, each.headers) for each in found] == [
        (None, None, context(1, 1, REJECTED)),
        (None, None, context(2, 2, TOO_OFTEN)),
    ]
    await shares.until_finished(4)
    assert len(await shares.dead_letters(2)) == 2
    assert not shares.node.traced.of("dead_letters_lost")
    counts = shares.manager.dead_letters.counts[GROUP]
    assert (counts.records, counts.failed_requests) == (2, 0)
    assert counts.requests >= 1
    await set_group_config(shares.client, NAME, "")
    assert not shares.manager.dead_letters.counts, "a group without a dead-letter topic has no metrics"


@pytest.mark.parametrize("compression", Compression)
async def test_copies_have_keys_values_headers_and_the_time_of_the_copy(
    shares: Shares, compression: Compression
) -> None:
    await set_group_config(shares.client, COPY, "true")
    original = Record(timestamp=1_000, key=b"key", value=b"value", headers=(("a", b"b"), ("a", None)))
    await produce(shares.client, encode_batch([original, attrs.evolve(original, value=None)], compression=compression))
    await shares.member.acquire()
    await shares.member.accept(0, 1, REJECT)
    found = await shares.dead_letters(2)
    assert [(each.key, each.value) for each in found] == [(b"key", b"value"), (b"key", None)]
    assert found[0].headers == (*original.headers, *context(0, 1, REJECTED))
    assert found[0].timestamp > 1_000_000_000_000


async def test_record_whose_lock_expires_in_its_last_delivery_is_a_dead_letter(shares: Shares) -> None:
    await set_group_config(shares.client, "share.record.lock.duration.ms", str(LOCK_MS))
    await produce(shares.client, batch(b"0"))
    for _ in range(2):
        assert await shares.member.acquire(max_wait_ms=60_000)
    assert [each.headers for each in await shares.dead_letters(1)] == [context(0, 2, TOO_OFTEN)]


async def test_records_of_a_member_that_is_gone_are_dead_letters_after_their_last_delivery(shares: Shares) -> None:
    await produce(shares.client, batch(b"0", b"1"))
    for _ in range(2):
        async with connected(shares.node.port) as client:
            assert await ShareMember(client, shares.topic_id, "gone").acquire(max_wait_ms=60_000)
    assert [each.headers for each in await shares.dead_letters(2)] == [
        context(0, 2, TOO_OFTEN),
        context(1, 2, TOO_OFTEN),
    ]


async def test_offsets_without_a_record_get_no_dead_letter(shares: Shares) -> None:
    server = f"127.0.0.1:{shares.node.port}"
    async with Producer(server, transactional_id="id", linger_ms=0) as producer, producer.transaction():
        await producer.send("topic", b"committed")
    await produce(shares.client, batch(b"after"))
    assert await shares.member.acquire() == [(0, 2, 1)]
    await shares.member.accept(0, 2, REJECT)
    found = await shares.dead_letters(2)
    await shares.until_finished(3)
    assert [each.headers for each in found] == [context(0, 1, REJECTED), context(2, 1, REJECTED)]


async def test_many_records_take_several_batches_and_a_record_too_large_for_the_topic_is_only_named(
    tmp_path: Path,
) -> None:
    async with shares_on(tmp_path) as shares:
        await set_group_config(shares.client, COPY, "true")
        await create_topic(shares.client, DEAD_LETTERS, configs={**ENABLE, "max.message.bytes": "5000"})
        for _ in range(10):
            await produce(shares.client, batch(*(b"%d" % number * 50 for number in range(100))))
        await produce(shares.client, batch(b"x" * 6000))
        end = 0
        while end < 1001:
            for first, last, _ in await shares.member.acquire(max_records=1001):
                await shares.member.accept(first, last, REJECT)
                end = last + 1
        found = await shares.dead_letters(1001)
        await shares.until_finished(1001)
        assert [dict(each.headers)["__dlq.errors.offset"] for each in found] == [
            b"%d" % offset for offset in range(1001)
        ]
        assert [each.value for each in found[-2:]] == [b"99" * 50, None]


@pytest.mark.parametrize(
    ("name", "configs", "reason"),
    [
        ("letters", ENABLE, "INVALID_CONFIG: the name of a dead-letter topic has to begin with dlq."),
        ("dlq.no", {}, "INVALID_CONFIG: errors.deadletterqueue.group.enable of the topic is not true"),
        (
            "dlq.none",
            None,
            "INVALID_CONFIG: the topic does not exist, and dead-letter topics are not created automatically",
        ),
        ("dlq.compact", {**ENABLE, "cleanup.policy": "compact"}, "INVALID_RECORD: "),
    ],
)
async def test_records_are_finished_without_a_dead_letter_if_the_topic_cannot_get_it(
    tmp_path: Path, name: str, configs: Mapping[str, str] | None, reason: str
) -> None:
    async with shares_on(tmp_path, errors_deadletterqueue_auto_create_topics_enable="false") as shares:
        if configs is not None:
            await create_topic(shares.client, name, configs=configs)
        await set_group_config(shares.client, NAME, name)
        await produce(shares.client, batch(b"0", b"1"))
        await shares.member.acquire()
        await shares.member.accept(0, 1, REJECT)
        await shares.until_finished(2)
        (lost,) = shares.node.traced.of("dead_letters_lost")
        assert str(lost.pop("error")).startswith(reason)
        assert lost == {
            "group": GROUP,
            "topic": "topic",
            "partition": 0,
            "first_offset": 0,
            "last_offset": 1,
            "count": 2,
            "dead_letter_topic": name,
        }


async def test_level_1_of_share_version_has_no_dead_letters(shares: Shares) -> None:
    await enable_share_groups(shares.client, level=1)
    await produce(shares.client, batch(b"0"))
    await shares.member.acquire()
    await shares.member.accept(0, 0, REJECT)
    await shares.until_finished(1)
    assert (await fetch(shares.client, topic=DEAD_LETTERS)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not shares.node.traced.of("dead_letters_lost")


async def test_records_that_wait_for_their_copy_get_it_after_a_restart_and_are_not_delivered_again(
    tmp_path: Path,
) -> None:
    async with shares_on(tmp_path) as shares:
        await set_group_config(shares.client, COPY, "true")
        await create_topic(shares.client, DEAD_LETTERS, configs={**ENABLE, "min.insync.replicas": "2"})
        await produce(shares.client, batch(b"0", b"1", b"2"))
        await shares.member.acquire()
        await shares.member.accept(1, 2, REJECT)
        assert await shares.member.acquire() == []
        shares.node.crash()
    async with running_node(tmp_path, **SETTINGS) as node, connected(node.port) as client:
        member = ShareMember(client, shares.topic_id)
        assert await member.acquire() == [(0, 0, 1)]
        assert await dead_letters(client, 0) == []
        await set_config(client, ConfigResourceType.TOPIC, DEAD_LETTERS, "min.insync.replicas", "1")
        found = await dead_letters(client, 2)
        assert [(each.value, each.headers) for each in found] == [
            (b"1", context(1, 1, REJECTED)),
            (b"2", context(2, 1, REJECTED)),
        ]
        await member.accept(0, 0)
        await until_finished(node, 3)
    async with running_node(tmp_path, **SETTINGS) as node, connected(node.port) as client:
        assert await ShareMember(client, shares.topic_id).acquire(max_wait_ms=0) == []
        await until_finished(node, 3)
        assert len(await dead_letters(client, 2)) == 2, "nothing is copied again"
