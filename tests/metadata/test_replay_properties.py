"""Replaying any decided records gives the same state: at once, step by step, and from their encoding."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from metadata.controller import (
    ConfigChange,
    Decision,
    NewPartitions,
    NewTopic,
    QuotaAlteration,
    ScramAlteration,
    TopicToDelete,
)
from metadata.controller.partitions import create_partitions
from metadata.controller.producer_ids import allocate_producer_ids
from metadata.controller.quotas import alter_client_quotas
from metadata.controller.scram import alter_user_scram_credentials
from metadata.image import ConfigResource, MetadataDelta, MetadataImage
from metadata.protocol import ConfigOperation, ConfigResourceType
from metadata.records import decode_record, encode_record
from tests.support.metadata import Cluster

NAMES = st.sampled_from(["a", "b.c", "b_c", "d", "bad name"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.lists(NAMES, min_size=1, max_size=3), st.integers(1, 40)),
        st.tuples(st.just("delete"), st.lists(NAMES, min_size=1, max_size=3), st.just(0)),
        st.tuples(st.just("grow"), st.lists(NAMES, min_size=1, max_size=2), st.integers(1, 80)),
        st.tuples(st.just("config"), st.lists(NAMES, min_size=1, max_size=2), st.integers(0, 3)),
        st.tuples(st.just("quota"), st.lists(NAMES, min_size=1, max_size=2), st.integers(0, 3)),
        st.tuples(st.just("scram"), st.lists(NAMES, min_size=1, max_size=2), st.integers(0, 3)),
        st.tuples(st.just("join"), st.just([""]), st.integers(1, 4)),
        st.tuples(st.just("producer ids"), st.just([""]), st.just(0)),
    ),
    max_size=12,
)


def decided(cluster: Cluster, kind: str, names: list[str], number: int) -> Decision[object]:
    image = cluster.image
    match kind:
        case "create":
            topics = [NewTopic(name, number, configs={"retention.ms": str(number)}) for name in names]
            return cluster.topics.create(image, topics)
        case "delete":
            return cluster.topics.delete(image, [TopicToDelete(name) for name in names])
        case "grow":
            return create_partitions(image, [NewPartitions(name, number) for name in names], cluster.rng)
        case "config":
            change = ConfigChange("segment.ms", ConfigOperation.SET if number else ConfigOperation.DELETE, str(number))
            resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
            return cluster.configs.incremental_alter(image, [(resource, [change]) for resource in resources])
        case "quota":
            ops = [("producer_byte_rate", number or None)]
            entities = [(("user", name),) for name in names]
            return alter_client_quotas(image, [QuotaAlteration(entity, ops) for entity in entities])
        case "scram":
            secret = b"s" * number or None
            return alter_user_scram_credentials(
                image, [ScramAlteration(name, 1 + number % 2, 4096 + number, b"salt", secret) for name in names]
            )
        case _:
            return allocate_producer_ids(image, 1, image.cluster.brokers[1].broker_epoch)


@given(STEPS, st.integers(0, 2**32))
def test_replaying_decided_records_gives_an_equal_state(steps: list[tuple[str, list[str], int]], seed: int) -> None:
    cluster = Cluster()
    for kind, names, number in steps:
        if kind == "join":
            cluster.join(number)
        else:
            cluster.decide(decided(cluster, kind, names, number))
    end = len(cluster.log) - 1

    at_once = MetadataDelta(MetadataImage())
    at_once.replay(cluster.log)
    assert at_once.apply(end) == cluster.image

    image, rng, offset = MetadataImage(), Random(seed), 0
    while offset <= end:
        step = cluster.log[offset : offset + rng.randrange(1, 30)]
        delta = MetadataDelta(image)
        delta.replay([decode_record(encode_record(record)) for record in step])
        offset += len(step)
        image = delta.apply(offset - 1)
    assert image == cluster.image
    assert {topic.topic_id for topic in image.topics.by_name.values()} == set(image.topics.by_id)
    assert all(list(topic.partitions) == list(range(len(topic.partitions))) for topic in image.topics.by_id.values())
