"""Conversion of images to records and back, and loading of snapshots."""

from collections import Counter
from collections.abc import Iterator, Sequence

import attrs
from hypothesis import given
from hypothesis import strategies as st

from metadata.image import (
    AccessControlEntry,
    MetadataDelta,
    MetadataImage,
    MetadataLoader,
    acl_record,
    image_records,
)
from metadata.image.cluster import BrokerImage
from metadata.image.snapshot import difference
from metadata.image.topics import PartitionImage
from metadata.protocol import AclOperation, AclPermission, PatternType, ResourceType, ScramMechanism
from metadata.records import (
    BrokerEndpoint,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
    VersionRange,
    decode_record,
    encode_record,
)
from tests.metadata.test_metadata_loader import Published, batch

UUIDS = st.binary(min_size=16, max_size=16)
BROKERS = st.lists(st.integers(0, 9), max_size=3).map(tuple)
DIRECTORIES = st.lists(UUIDS, max_size=2).map(tuple)
# Few topics, so that two images have some in common; some of their names collide in Kafka's metrics.
TOPICS = {f"a{mark}b": bytes([number]) * 16 for number, mark in enumerate("._-x")}
FEATURES = st.dictionaries(st.sampled_from(["metadata.version", "kraft.version", "group.version"]), st.integers(1, 3))
ENDPOINTS = st.lists(
    st.builds(BrokerEndpoint, st.sampled_from("AB"), st.text(), st.integers(0, 65535), st.integers(0, 3)),
    max_size=2,
    unique_by=lambda endpoint: endpoint.name,
).map(tuple)
PARTITION = {
    "replicas": BROKERS,
    "isr": BROKERS,
    "leader": st.integers(-1, 9),
    "leader_epoch": st.integers(0, 3),
    "partition_epoch": st.integers(0, 3),
    "directories": DIRECTORIES,
    "removing_replicas": BROKERS,
    "adding_replicas": BROKERS,
    "leader_recovery_state": st.integers(0, 1),
    "eligible_leader_replicas": BROKERS,
    "last_known_elr": BROKERS,
}
BROKER = {
    "broker_id": st.integers(0, 3),
    "incarnation_id": UUIDS,
    "broker_epoch": st.integers(0, 99),
    "end_points": ENDPOINTS,
    "features": st.dictionaries(st.sampled_from("ab"), st.builds(VersionRange, st.just(0), st.integers(0, 9))),
    "rack": st.none() | st.text(),
    "fenced": st.booleans(),
    "in_controlled_shutdown": st.booleans(),
    "log_dirs": DIRECTORIES,
    "cordoned_log_dirs": DIRECTORIES,
}
CONTROLLER = {
    "controller_id": st.integers(0, 3),
    **{name: BROKER[name] for name in ("incarnation_id", "end_points", "features")},
}
PARTITIONS = st.lists(st.fixed_dictionaries(PARTITION), min_size=1, max_size=4)
MANY_PARTITIONS = st.integers(5, 200).map(lambda n: [{"replicas": (1,), "isr": (1,)}] * n)
CONFIGS = st.dictionaries(
    st.tuples(st.sampled_from([2, 4]), st.sampled_from(["", "1", *TOPICS]), st.sampled_from("kl")), st.text(max_size=1)
)

QUOTAS = st.dictionaries(
    st.tuples(
        st.sampled_from([(("user", "u"),), (("user", None),), (("client-id", "c"), ("user", "u")), (("ip", "::1"),)]),
        st.sampled_from("kl"),
    ),
    st.floats(1, 3),
)
CREDENTIALS = st.dictionaries(
    st.tuples(st.sampled_from("uv"), st.sampled_from([1, 2])), st.tuples(st.binary(max_size=2), st.integers(4096, 4098))
)
TOKENS = st.dictionaries(
    st.sampled_from("xyz"), st.tuples(st.sampled_from(["User:a", "User:b"]), st.integers(1, 3)), max_size=3
)

ACLS = st.dictionaries(
    st.builds(
        AccessControlEntry,
        resource_type=st.just(ResourceType.TOPIC),
        resource_name=st.sampled_from(["*", "a", "ab"]),
        pattern_type=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
        principal=st.sampled_from(["User:*", "User:a"]),
        host=st.just("*"),
        operation=st.sampled_from([AclOperation.READ, AclOperation.WRITE]),
        permission=st.sampled_from([AclPermission.ALLOW, AclPermission.DENY]),
    ),
    st.integers(0, 30).map(lambda number: bytes([number]) * 16),
    max_size=4,
).filter(lambda acls: len(set(acls.values())) == len(acls))


def token_record(token_id: str, owner: str, time: int) -> DelegationTokenRecord:
    times = {"issue_timestamp": time, "max_timestamp": time + 9, "expiration_timestamp": time + 3}
    return DelegationTokenRecord(token_id=token_id, owner=owner, requester="User:r", renewers=("User:w",), **times)


@st.composite
def states(draw: st.DrawFn) -> list[MetadataRecord]:
    """Records that do not revert each other, so each has to be among the records of the image."""
    levels = draw(FEATURES)
    brokers = draw(st.lists(st.fixed_dictionaries(BROKER), max_size=3, unique_by=lambda broker: broker["broker_id"]))
    topics = draw(st.lists(st.sampled_from(sorted(TOPICS)), unique=True))
    records: list[MetadataRecord] = [FeatureLevelRecord(name=each, feature_level=levels[each]) for each in levels]
    records += [RegisterBrokerRecord(**broker) for broker in brokers]
    controllers = draw(
        st.lists(st.fixed_dictionaries(CONTROLLER), max_size=3, unique_by=lambda each: each["controller_id"])
    )
    records += [RegisterControllerRecord(**controller) for controller in controllers]
    for name in topics:
        topic_id = TOPICS[name] if draw(st.booleans()) else bytes([99, *TOPICS[name][1:]])
        records.append(TopicRecord(name=name, topic_id=topic_id))
        for partition_id, partition in enumerate(draw(PARTITIONS | MANY_PARTITIONS)):
            records.append(PartitionRecord(topic_id=topic_id, partition_id=partition_id, **partition))
    for (type_, resource, name), value in draw(CONFIGS).items():
        records.append(ConfigRecord(resource_type=type_, resource_name=resource, name=name, value=value))
    for entry, acl_id in draw(ACLS).items():
        records.append(acl_record(acl_id, entry))
    for (entity, key), quota in draw(QUOTAS).items():
        records.append(ClientQuotaRecord(entity=entity, key=key, value=quota))
    for (user, mechanism), (key, iterations) in draw(CREDENTIALS).items():
        keys = {"salt": key, "stored_key": key + b"s", "server_key": key + b"v"}
        records.append(UserScramCredentialRecord(name=user, mechanism=mechanism, iterations=iterations, **keys))
    for token_id, (owner, time) in draw(TOKENS).items():
        records.append(token_record(token_id, owner, time))
    if next_producer_id := draw(st.integers(0, 3)):
        records.append(ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=next_producer_id))
    return records


@st.composite
def lives(draw: st.DrawFn) -> tuple[list[MetadataRecord], list[MetadataRecord]]:
    """Two states of one cluster. Topics that are in both have at least as many partitions in the second one."""
    before, after = draw(states()), draw(states())
    topics = {record.topic_id for record in after if isinstance(record, TopicRecord)}
    places = {(record.topic_id, record.partition_id) for record in after if isinstance(record, PartitionRecord)}
    kept = [record for record in before if isinstance(record, PartitionRecord) and record.topic_id in topics]
    return before, after + [record for record in kept if (record.topic_id, record.partition_id) not in places]


def image_of(records: Sequence[MetadataRecord], offset: int = 0, base: MetadataImage | None = None) -> MetadataImage:
    delta = MetadataDelta(base or MetadataImage())
    delta.replay(decode_record(encode_record(record)) for record in records)
    return delta.apply(offset)


def packed(records: Sequence[MetadataRecord]) -> Counter[bytes]:
    return Counter(map(encode_record, records))


def in_portions(records: Sequence[MetadataRecord], size: int = 3) -> Iterator[tuple[bytes, ...]]:
    for first in range(0, len(records), size):
        yield tuple(map(encode_record, records[first : first + size]))


@given(states())
def test_image_and_its_records_round_trip(records: list[MetadataRecord]) -> None:
    image = image_of(records)
    again = list(image_records(image))
    assert packed(again) == packed(records)
    assert image_of(again) == image
    assert list(image_of(again).cluster.brokers) == list(image.cluster.brokers)
    for topic in image_of(again).topics.by_id.values():
        assert list(topic.partitions) == list(range(len(topic.partitions)))


def test_generated_images_cover_every_field() -> None:
    """A new field of an image has to be generated above, which tests that snapshots preserve it."""
    assert {field.name for field in attrs.fields(PartitionImage)} == set(PARTITION)
    assert {field.name for field in attrs.fields(BrokerImage)} == set(BROKER)
    aspects = {
        "features",
        "cluster",
        "topics",
        "configs",
        "client_quotas",
        "acls",
        "scram",
        "delegation_tokens",
        "next_producer_id",
    }
    assert {field.name for field in attrs.fields(MetadataImage)} == {"offset", *aspects}


@given(lives())
def test_the_difference_of_two_images_turns_one_into_the_other(
    life: tuple[list[MetadataRecord], list[MetadataRecord]],
) -> None:
    before, after = life
    base, image = image_of(before, 5), image_of(after, 9)
    delta = difference(base, image)
    applied = delta.apply(9)
    assert applied == image
    for topic in base.topics.by_id.values():
        now = image.topics.by_id.get(topic.topic_id)
        assert (topic.topic_id in delta.topics.deleted) == (now is None)
        if now == topic:
            assert topic.topic_id not in delta.topics.changed
            assert applied.topics.by_id[topic.topic_id] is topic
    for broker_id, broker in base.cluster.brokers.items():
        assert (broker_id in delta.cluster.changed) == (image.cluster.brokers.get(broker_id) != broker)


def test_equal_states_result_in_equal_images_with_any_history() -> None:
    dotted, underscored = (TopicRecord(name=name, topic_id=TOPICS[name]) for name in ("a.b", "a_b"))
    other = TopicRecord(name="other", topic_id=b"o" * 16)
    one = image_of([dotted, underscored, other, RemoveTopicRecord(topic_id=other.topic_id)])
    assert one == image_of([underscored, dotted])
    assert one.topics.unified_names["a_b"] == ("a.b", "a_b")


def test_difference_holds_removed_configs_but_not_absent_ones() -> None:
    topic = TopicRecord(name="gone", topic_id=bytes(16))
    config = ConfigRecord(resource_type=2, resource_name="gone", name="retention.ms", value="1")
    broker = RegisterBrokerRecord(broker_id=1, incarnation_id=bytes(16), broker_epoch=0)
    level = FeatureLevelRecord(name="group.version", feature_level=1)
    quota = ClientQuotaRecord(entity=(("user", "u"),), key="producer_byte_rate", value=1.5)
    entry = AccessControlEntry(
        ResourceType.TOPIC,
        "gone",
        PatternType.LITERAL,
        "User:u",
        "*",
        AclOperation.READ,
        AclPermission.ALLOW,
    )
    credential = UserScramCredentialRecord(
        name="u", mechanism=1, salt=b"", stored_key=b"", server_key=b"", iterations=4096
    )
    token = token_record("x", "User:a", 5)
    controller = RegisterControllerRecord(controller_id=3, incarnation_id=bytes(16))
    base = image_of(
        [topic, config, broker, controller, level, quota, acl_record(b"a" * 16, entry), credential, token], 4
    )
    off = [
        RemoveTopicRecord(topic_id=topic.topic_id),
        UnregisterBrokerRecord(broker_id=1, broker_epoch=0),
        UnregisterControllerRecord(controller_id=3),
        FeatureLevelRecord(name="group.version", feature_level=0),
        attrs.evolve(quota, remove=True),
        RemoveAccessControlEntryRecord(id=b"a" * 16),
        RemoveUserScramCredentialRecord(name="u", mechanism=1),
        RemoveDelegationTokenRecord(token_id="x"),
    ]
    image = image_of(off, 8, base)
    assert list(image_records(image)) == []
    delta = difference(base, image)
    assert delta.client_quotas.changed == {quota.entity: {"producer_byte_rate": None}}
    assert delta.acls.changed == {b"a" * 16: None}
    assert list(delta.acls.removed()) == [entry]
    assert delta.scram.changed == {"u": {ScramMechanism.SCRAM_SHA_256: None}}
    assert delta.delegation_tokens.changed == {"x": None}
    assert delta.topics.deleted == {topic.topic_id: base.topics.by_id[topic.topic_id]}
    assert delta.cluster.changed == {1: None}
    assert delta.cluster.changed_controllers == {3: None}
    assert list(delta.configs.changed.values()) == [{"retention.ms": None}]
    assert delta.features == {"group.version": 0}
    assert delta.apply(8) == image


@given(lives())
async def test_lagging_loader_publishes_the_difference_to_a_snapshot(
    life: tuple[list[MetadataRecord], list[MetadataRecord]],
) -> None:
    before, after = life
    loader = MetadataLoader()
    published = Published(loader)
    if before:
        loader.handle_commit([batch(0, before)])
    base, end_offset = loader.image, len(before) + 40
    await loader.handle_snapshot(end_offset, in_portions(after))
    assert loader.image == image_of(after, end_offset - 1)
    delta, image = published.calls[-1]
    assert (delta.base, image) == (base, loader.image)
    assert delta.topics.changed.keys() <= {topic.topic_id for topic in image.topics.by_id.values()}
    loader.handle_commit([batch(end_offset, [TopicRecord(name="next", topic_id=b"n" * 16)])])
    assert "next" in loader.image.topics.by_name
    assert loader.image.offset == end_offset


async def test_snapshot_of_an_empty_log_has_offset_minus_one() -> None:
    loader = MetadataLoader()
    await loader.handle_snapshot(0, in_portions([FeatureLevelRecord(name="metadata.version", feature_level=25)]))
    assert (loader.image.offset, loader.image.features) == (-1, {"metadata.version": 25})
    loader.handle_commit([batch(0, [TopicRecord(name="first", topic_id=bytes(16))])])
    assert list(loader.image.topics.by_name) == ["first"]
