"""The stories for listeners of Kafka's protocol, and how often each is run."""

from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

from broker.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from broker.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from broker.wire.api.init_producer_id import InitProducerIdRequest
from broker.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from jepsen.hostile.batches import sound_batch, spoiled_batch
from jepsen.hostile.broker_stories import broker_incarnation
from jepsen.hostile.frames import Frame
from jepsen.hostile.group_stories import classic_group, consumer_group
from jepsen.hostile.sasl_stories import (
    delegation_tokens,
    disordered_messages,
    logins,
    reauthentication,
    rights,
    unauthenticated_requests,
)
from jepsen.hostile.story import ApiVersions, Story, StoryTools
from jepsen.hostile.target import PARTITIONS, PASSING_TOPICS, TOPICS, Target

StoryTeller: TypeAlias = Callable[[StoryTools], Story]

_FETCH: Final = 1
_PRODUCE: Final = 0
_PRODUCE_NAMES: Final = 12
_FETCH_NAMES: Final = 12


def any_requests(tools: StoryTools) -> Story:
    """Requests of all APIs, independent of each other."""
    for _ in range(5):
        yield [tools.any_frame() for _ in range(tools.rng.randint(4, 20))]


def spoiled_records(tools: StoryTools) -> Story:
    """Produce requests with batches that are invalid in every way, and a Fetch of the accepted ones."""
    for _ in range(4):
        yield [_produce(tools, spoiled_batch(tools.rng)) for _ in range(tools.rng.randint(4, 12))]
        yield [tools.plausible(_FETCH), tools.plausible(_FETCH, 0.1)]


def idempotent_producer(tools: StoryTools) -> Story:
    """An idempotent producer with invalid epochs and sequences (KIP-98, KIP-360)."""
    rng = tools.rng
    (response,) = yield [tools.request(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000))]
    producer_id = getattr(response, "producer_id", -1)
    topic, partition, sequence, epoch = rng.choice(TOPICS), rng.randrange(PARTITIONS), 0, 0
    for _ in range(6):
        frames = []
        for _ in range(rng.randint(2, 8)):
            count = rng.choice((1, 1, 2, 5))
            kind = rng.randrange(10)
            wrong = rng.choice((sequence - 1, sequence + 1, 0, 2**31 - 1, 2**31 - 3, -1, -5))
            batch = sound_batch(rng, producer_id, epoch, sequence if kind < 6 else wrong, count)
            if kind == 9:
                epoch = rng.choice((epoch, min(epoch + 1, 2**15 - 1), 2**15 - 1, -1, 0))
            frames.append(_produce(tools, batch, topic, partition))
            sequence += count if kind < 6 else 0
        yield frames


def fetch_session(tools: StoryTools) -> Story:
    """An incremental fetch session with epochs out of order, partitions not in the session, and forgotten ones."""
    rng = tools.rng
    (response,) = yield [tools.request(_fetch(tools, 0, 0, TOPICS), rng.randint(7, _FETCH_NAMES))]
    session_id, epoch = getattr(response, "session_id", 0), 1
    for _ in range(6):
        frames = []
        for _ in range(rng.randint(2, 8)):
            kind = rng.randrange(8)
            sent_epoch = epoch if kind < 5 else rng.choice((0, -1, epoch + 1, epoch - 1, 2**31 - 1, -(2**31)))
            sent_id = session_id if kind < 7 else rng.choice((0, session_id ^ 1, -1, 2**31 - 1))
            request = _fetch(tools, sent_id, sent_epoch, rng.sample(TOPICS, rng.randrange(3)))
            frames.append(tools.request(request, rng.randint(7, _FETCH_NAMES)))
            epoch += kind < 5
        yield frames


def topic_incarnation(tools: StoryTools) -> Story:
    """Create a topic, write to it, grow it, delete it, and send requests about it in between and afterwards."""
    rng = tools.rng
    name = rng.choice(PASSING_TOPICS)
    created = CreatableTopic(name=name, num_partitions=rng.choice((1, 2)), replication_factor=1)
    yield [tools.request(CreateTopicsRequest(topics=[created], timeout_ms=1_000))]
    yield [_produce(tools, sound_batch(rng), name, 0) for _ in range(4)] + [tools.any_frame()]
    grown = CreatePartitionsTopic(name=name, count=rng.choice((2, 3, 1, 0, -1)), assignments=None)
    frames = [tools.request(CreatePartitionsRequest(topics=[grown], timeout_ms=1_000))]
    yield [*frames, *(_produce(tools, sound_batch(rng), name, rng.randrange(4)) for _ in range(3))]
    deleted = DeleteTopicsRequest(topic_names=[name], topics=[DeleteTopicState(name=name)], timeout_ms=1_000)
    frames = [tools.request(_fetch(tools, 0, -1, (name,)), _FETCH_NAMES), tools.request(deleted)]
    yield [*frames, *(_produce(tools, sound_batch(rng), name, 0) for _ in range(2)), tools.plausible(_FETCH)]


def wrong_bytes(tools: StoryTools) -> Story:
    """Frames with a wrong length, random bytes, and truncated requests; each ends its connection."""
    rng = tools.rng
    for _ in range(3):
        yield [tools.ping()]
        sound = tools.any_frame().data
        data = rng.choice(
            (
                rng.randbytes(rng.randrange(4, 300)),
                rng.choice((-1, -(2**31), 2**31 - 1, 2**30, 104_857_601)).to_bytes(4, "big", signed=True) + sound[4:],
                rng.choice((0, 1, 7, 8, 9)).to_bytes(4, "big") + sound[4:],
                sound[: rng.randrange(1, len(sound))],
                (100_000_000).to_bytes(4, "big") + sound[4:] + bytes(20_000),
                bytes(4) + sound,
            )
        )
        yield [Frame(data, -1, -1, -1, is_decodable=False)]


def _produce(tools: StoryTools, records: bytes, topic: str | None = None, index: int | None = None) -> Frame:
    rng = tools.rng
    data = PartitionProduceData(
        index=rng.randrange(PARTITIONS) if index is None else index, records=memoryview(records)
    )
    topic_data = TopicProduceData(name=topic or rng.choice(TOPICS), partition_data=[data])
    request = ProduceRequest(acks=rng.choice((-1, -1, -1, 1, 0)), timeout_ms=100, topic_data=[topic_data])
    return tools.request(request, rng.randint(3, _PRODUCE_NAMES))


def _fetch(
    tools: StoryTools, session_id: int, session_epoch: int, topics: "tuple[str, ...] | list[str]"
) -> FetchRequest:
    rng = tools.rng
    asked = [
        FetchTopic(
            topic=topic,
            partitions=[
                FetchPartition(
                    partition=rng.randrange(PARTITIONS + 1),
                    fetch_offset=rng.choice((0, 1, 10, 2**62, -1)),
                    partition_max_bytes=rng.choice((0, 1, 4_096)),
                )
            ],
        )
        for topic in topics
    ]
    forgotten = [ForgottenTopic(topic=rng.choice(TOPICS), partitions=[rng.randrange(PARTITIONS)])] * rng.randrange(2)
    return FetchRequest(
        max_wait_ms=rng.choice((0, 0, 5)),
        min_bytes=rng.choice((0, 1)),
        max_bytes=16_384,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=asked,
        forgotten_topics_data=forgotten,
    )


# Pairs of a story and its weight.
_OF_BROKERS: Final[tuple[tuple[StoryTeller, int], ...]] = (
    (any_requests, 10),
    (spoiled_records, 3),
    (idempotent_producer, 2),
    (fetch_session, 2),
    (classic_group, 2),
    (consumer_group, 2),
    (topic_incarnation, 1),
    (wrong_bytes, 2),
)
_OF_CONTROLLERS: Final[tuple[tuple[StoryTeller, int], ...]] = (
    (any_requests, 6),
    (broker_incarnation, 3),
    (wrong_bytes, 1),
)
_OF_SASL: Final[tuple[tuple[StoryTeller, int], ...]] = (
    (logins, 6),
    (unauthenticated_requests, 3),
    (disordered_messages, 4),
    (reauthentication, 3),
    (rights, 3),
    (delegation_tokens, 3),
    (wrong_bytes, 1),
)


def broker_story(rng: Random, target: Target) -> Story:
    """A random story for a broker's listener."""
    return _random_story(_OF_BROKERS, rng, target, target.broker_apis)


def controller_story(rng: Random, target: Target) -> Story:
    """A random story for a controllers' listener."""
    return _random_story(_OF_CONTROLLERS, rng, target, target.controller_apis)


def sasl_story(rng: Random, target: Target) -> Story:
    """A random story for a listener that asks for SASL."""
    return _random_story(_OF_SASL, rng, target, target.sasl_apis)


def _random_story(
    tellers: tuple[tuple[StoryTeller, int], ...], rng: Random, target: Target, apis: tuple[ApiVersions, ...]
) -> Story:
    (teller,) = rng.choices([teller for teller, _ in tellers], [weight for _, weight in tellers])
    return teller(StoryTools(rng, target, apis))
