"""Dead letters that a destination refuses, throttles or delays (KIP-1191)."""

from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import attrs
import trio
import trio.testing

from broker.client import Producer
from broker.config import read_config
from broker.config.effective import EffectiveConfig
from broker.server.session import Session
from broker.share_partitions.dead_letter_batch import Source
from broker.share_partitions.dead_letter_queue import DeadLetterQueue, DeadLetterWriter
from broker.share_partitions.dead_letter_topics import DeadLetterTopics
from broker.share_partitions.in_flight import DeadLetterCause, DeadLetters
from broker.share_partitions.settings import DeliverySettings
from broker.wire.api.produce import ProduceRequest
from broker.wire.records import Record, encode_batch
from metadata.image import MetadataDelta, MetadataImage
from metadata.protocol import AclOperation, ConfigResourceType, ResourceType
from metadata.records import ConfigRecord, PartitionRecord, TopicRecord
from tests.broker.share_partitions.test_dead_letters import (
    COPY,
    DEAD_LETTERS,
    ENABLE,
    NAME,
    REJECT,
    SETTINGS,
    Shares,
    shares_on,
)
from tests.support.access import TestAuthorizer, install_access
from tests.support.partition_harness import LOCAL, Harness
from tests.support.requests import batch, create_topic, produce
from tests.support.running_node import running_node
from tests.support.share_member import ShareMember, initialize, set_group_config
from tests.support.wire_client import connected

BROKERS_CLIENT_ID = "broker-1-dlq"
PRODUCE = 0


def offsets_of(records: list[Record]) -> list[int]:
    """The offsets that dead letters name."""
    return [int(dict(each.headers)["__dlq.errors.offset"] or b"-1") for each in records]


async def reject_all(shares: Shares, end: int) -> None:
    done = 0
    while done < end:
        for first, last, _ in await shares.member.acquire():
            await shares.member.accept(first, last, REJECT)
            done = last + 1
    await shares.until_finished(end)


def lost(shares: Shares) -> list[tuple[object, object, object]]:
    return [
        (each["first_offset"], each["last_offset"], each["count"])
        for each in shares.node.traced.of("dead_letters_lost")
    ]


async def test_compacted_topic_gets_the_records_with_keys_and_only_the_others_are_lost(tmp_path: Path) -> None:
    """One record without a key had the dead letters of all others of its batch given up."""
    async with shares_on(tmp_path) as shares:
        await set_group_config(shares.client, COPY, "true")
        await create_topic(shares.client, DEAD_LETTERS, configs={**ENABLE, "cleanup.policy": "compact"})
        keys = (b"a", None, None, b"b", None, b"c")
        await produce(shares.client, encode_batch([Record(timestamp=1, key=key, value=b"value") for key in keys]))
        await reject_all(shares, len(keys))
        assert offsets_of(await shares.dead_letters(3)) == [0, 3, 5]
        assert lost(shares) == [(1, 4, 3)]


async def test_records_of_the_dead_letter_topic_itself_get_no_dead_letter(tmp_path: Path) -> None:
    """The group got the dead letter, which failed as the record had: rejected records went round without an end."""
    async with running_node(tmp_path, **SETTINGS) as node, connected(node.port) as client:
        topic_id = await create_topic(client, DEAD_LETTERS, configs=ENABLE)
        await initialize(node, topic_id)
        await set_group_config(client, NAME, DEAD_LETTERS)
        shares = Shares(node, client, topic_id, ShareMember(client, topic_id))
        await produce(client, batch(b"0", b"1"), topic=DEAD_LETTERS)
        await reject_all(shares, 2)
        assert lost(shares) == [(0, 1, 2)]
        assert len(await shares.dead_letters(2)) == 2


async def test_aborted_records_get_no_dead_letter_in_a_group_that_reads_committed_records(tmp_path: Path) -> None:
    async with shares_on(tmp_path) as shares:
        await set_group_config(shares.client, "share.isolation.level", "read_committed")
        async with Producer(f"127.0.0.1:{shares.node.port}", transactional_id="id", linger_ms=0) as producer:
            with suppress(ZeroDivisionError):
                async with producer.transaction():
                    await producer.send("topic", b"aborted")
                    raise ZeroDivisionError
            async with producer.transaction():
                await producer.send("topic", b"committed")
        await produce(shares.client, batch(b"after"))
        await reject_all(shares, 5)
        assert offsets_of(await shares.dead_letters(2)) == [2, 4]
        assert not lost(shares)


@attrs.define
class BrokersAuthorizer(TestAuthorizer):
    """Denies operations on the dead-letter topic to all but the connections on which brokers write dead letters."""

    __test__ = False

    def allows(
        self, session: Session, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        is_open = resource_name != DEAD_LETTERS or session.client_id == BROKERS_CLIENT_ID
        return is_open and super().allows(session, operation, resource_type, resource_name)


async def test_brokers_rights_count_for_dead_letters_and_not_those_of_members(tmp_path: Path) -> None:
    async with shares_on(tmp_path) as shares:
        await create_topic(shares.client, DEAD_LETTERS, configs=ENABLE)
        access = install_access(shares.node)
        access.dispatcher.authorize(BrokersAuthorizer())
        await produce(shares.client, batch(b"0"))
        await reject_all(shares, 1)
        assert not lost(shares)

        access.dispatcher.authorize(access.authorizer)
        access.deny("User:ANONYMOUS", AclOperation.WRITE, ResourceType.TOPIC, DEAD_LETTERS)
        await produce(shares.client, batch(b"1"))
        await reject_all(shares, 2)
        assert lost(shares) == [(1, 1, 1)]
        (event,) = shares.node.traced.of("dead_letters_lost")
        assert str(event["error"]).startswith("TOPIC_AUTHORIZATION_FAILED")
        assert offsets_of(await shares.dead_letters(1)) == [0]


async def test_dead_letters_count_for_the_quotas_of_their_client_id_and_come_though_they_are_throttled(
    tmp_path: Path,
) -> None:
    async with shares_on(tmp_path) as shares:
        await create_topic(shares.client, DEAD_LETTERS, configs=ENABLE)
        quotas = install_access(shares.node).quotas
        for number in range(3):
            await produce(shares.client, batch(b"%d" % number))
        quotas.throttle_ms[PRODUCE] = 50
        await reject_all(shares, 3)
        assert offsets_of(await shares.dead_letters(3)) == [0, 1, 2]
        assert not lost(shares)
        charged = [each for each in quotas.usages if each.session.client_id == BROKERS_CLIENT_ID]
        assert PRODUCE in [each.api_key for each in charged]


HANGS, ANSWERS = 2, 3
QUEUES = 40


def image_with_topics() -> MetadataImage:
    """The dead-letter topic of each of two brokers."""
    delta = MetadataDelta(MetadataImage())
    for leader in (HANGS, ANSWERS):
        topic_id, name = bytes([leader]) * 16, f"dlq.{leader}"
        delta.replay(
            [
                TopicRecord(name=name, topic_id=topic_id),
                PartitionRecord(
                    topic_id=topic_id, partition_id=0, replicas=(leader,), isr=(leader,), leader=leader, leader_epoch=0
                ),
                ConfigRecord(
                    resource_type=ConfigResourceType.TOPIC,
                    resource_name=name,
                    name="errors.deadletterqueue.group.enable",
                    value="true",
                ),
            ]
        )
    return delta.apply(1)


async def test_destination_that_hangs_delays_no_other_one(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Batches to a broker that did not answer took all slots, and the others waited for 35 seconds."""
    harness = Harness(tmp_path)
    harness.become(replicas=(LOCAL,), isr=(LOCAL,))
    harness.append(1)
    image = image_with_topics()
    asked: Counter[int] = Counter()

    async def send(broker_id: int, request: ProduceRequest) -> Any:
        asked[broker_id] += 1
        await trio.sleep(35.0 if broker_id == HANGS else 0.01)

    async def create(topic: object) -> Any:
        raise AssertionError("both topics exist")

    effective = EffectiveConfig(read_config(None, ()), lambda kind, **fields: None)
    writer = DeadLetterWriter(
        DeadLetterTopics(lambda: image, effective, create),
        lambda group: DeliverySettings(dead_letter_topic=group),
        send,
        wall_ms=lambda: 1,
        rng=Random(1),
        trace=lambda kind, **fields: None,
    )
    letters = [DeadLetters(0, 0, 1, DeadLetterCause.REJECTED)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        await trio.testing.wait_all_tasks_blocked()
        for leader in [HANGS] * QUEUES + [ANSWERS]:
            queue = DeadLetterQueue(Source(f"dlq.{leader}", harness.partition, 0), writer, lambda letters: None)
            queue.add(letters)
            await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(1.0)
        nursery.cancel_scope.cancel()
    assert asked[ANSWERS] > 0
    assert 0 < asked[HANGS] < QUEUES
