"""The metadata records and their encoding."""

from collections.abc import Callable

import attrs
import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.records import (
    AccessControlEntryRecord,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    MalformedRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RecordType,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnknownRecordType,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
    VersionRange,
    decode_record,
    encode_record,
)

UUIDS = st.binary(min_size=16, max_size=16)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
BROKERS = st.lists(INT32, max_size=5).map(tuple)
DIRECTORIES = st.lists(UUIDS, max_size=3).map(tuple)
UNKNOWN = st.dictionaries(st.integers(100, 120), st.text(max_size=3) | st.integers(0, 9), max_size=2)
ENDPOINTS = st.builds(BrokerEndpoint, st.text(), st.text(), st.integers(0, 65535), st.integers(0, 3))
FEATURES = st.dictionaries(st.text(), st.builds(VersionRange, st.integers(0, 9), st.integers(0, 99)), max_size=3)


def optional(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | values


def record(
    cls: Callable[..., MetadataRecord], **fields: st.SearchStrategy[object]
) -> st.SearchStrategy[MetadataRecord]:
    return st.builds(cls, unknown=UNKNOWN, **fields)


RECORDS = st.one_of(
    record(TopicRecord, name=st.text(), topic_id=UUIDS),
    record(
        PartitionRecord,
        topic_id=UUIDS,
        partition_id=INT32,
        replicas=BROKERS,
        isr=BROKERS,
        leader=INT32,
        leader_epoch=INT32,
        partition_epoch=INT32,
        directories=DIRECTORIES,
        removing_replicas=BROKERS,
        adding_replicas=BROKERS,
        leader_recovery_state=st.integers(0, 1),
        eligible_leader_replicas=BROKERS,
        last_known_elr=BROKERS,
    ),
    record(
        PartitionChangeRecord,
        topic_id=UUIDS,
        partition_id=INT32,
        isr=optional(BROKERS),
        leader=INT32,
        replicas=optional(BROKERS),
        removing_replicas=optional(BROKERS),
        adding_replicas=optional(BROKERS),
        leader_recovery_state=st.integers(-1, 1),
        directories=optional(DIRECTORIES),
        eligible_leader_replicas=optional(BROKERS),
        last_known_elr=optional(BROKERS),
    ),
    record(RemoveTopicRecord, topic_id=UUIDS),
    record(
        RegisterBrokerRecord,
        broker_id=INT32,
        incarnation_id=UUIDS,
        broker_epoch=INT64,
        end_points=st.lists(ENDPOINTS, max_size=3).map(tuple),
        features=FEATURES,
        rack=optional(st.text()),
        fenced=st.booleans(),
        in_controlled_shutdown=st.booleans(),
        log_dirs=DIRECTORIES,
    ),
    record(
        RegisterControllerRecord,
        controller_id=INT32,
        incarnation_id=UUIDS,
        end_points=st.lists(ENDPOINTS, max_size=3).map(tuple),
        features=FEATURES,
    ),
    record(UnregisterBrokerRecord, broker_id=INT32, broker_epoch=INT64),
    record(UnregisterControllerRecord, controller_id=INT32),
    record(
        BrokerRegistrationChangeRecord,
        broker_id=INT32,
        broker_epoch=INT64,
        fenced=st.integers(-1, 1),
        in_controlled_shutdown=st.booleans(),
        log_dirs=optional(DIRECTORIES),
    ),
    record(
        ConfigRecord,
        resource_type=st.integers(0, 64),
        resource_name=st.text(),
        name=st.text(),
        value=optional(st.text()),
    ),
    record(
        ClientQuotaRecord,
        entity=st.lists(st.tuples(st.text(), optional(st.text())), max_size=2).map(tuple),
        key=st.text(),
        value=st.floats(allow_nan=False),
        remove=st.booleans(),
    ),
    record(
        AccessControlEntryRecord,
        id=UUIDS,
        resource_type=st.integers(0, 9),
        resource_name=st.text(),
        pattern_type=st.integers(0, 9),
        principal=st.text(),
        host=st.text(),
        operation=st.integers(0, 99),
        permission=st.integers(0, 9),
    ),
    record(RemoveAccessControlEntryRecord, id=UUIDS),
    record(
        UserScramCredentialRecord,
        name=st.text(),
        mechanism=st.integers(0, 2),
        salt=st.binary(),
        stored_key=st.binary(),
        server_key=st.binary(),
        iterations=INT32,
    ),
    record(RemoveUserScramCredentialRecord, name=st.text(), mechanism=st.integers(0, 2)),
    record(
        DelegationTokenRecord,
        owner=st.text(),
        requester=st.text(),
        renewers=st.lists(st.text(), max_size=3).map(tuple),
        issue_timestamp=INT64,
        max_timestamp=INT64,
        expiration_timestamp=INT64,
        token_id=st.text(),
    ),
    record(RemoveDelegationTokenRecord, token_id=st.text()),
    record(ProducerIdsRecord, broker_id=INT32, broker_epoch=INT64, next_producer_id=INT64),
    record(FeatureLevelRecord, name=st.text(), feature_level=st.integers(0, 99)),
    record(NoOpRecord),
)


@given(RECORDS)
def test_record_round_trips_with_unknown_fields(record: MetadataRecord) -> None:
    assert decode_record(encode_record(record)) == record


def test_the_numbers_are_those_of_kafka() -> None:
    assert {kind.name: kind.value for kind in RecordType} == {
        "REGISTER_BROKER": 0,
        "UNREGISTER_BROKER": 1,
        "TOPIC": 2,
        "PARTITION": 3,
        "CONFIG": 4,
        "PARTITION_CHANGE": 5,
        "REMOVE_TOPIC": 9,
        "DELEGATION_TOKEN": 10,
        "USER_SCRAM_CREDENTIAL": 11,
        "FEATURE_LEVEL": 12,
        "CLIENT_QUOTA": 14,
        "PRODUCER_IDS": 15,
        "BROKER_REGISTRATION_CHANGE": 17,
        "ACCESS_CONTROL_ENTRY": 18,
        "REMOVE_ACCESS_CONTROL_ENTRY": 19,
        "NO_OP": 20,
        "REMOVE_USER_SCRAM_CREDENTIAL": 22,
        "REMOVE_DELEGATION_TOKEN": 26,
        "REGISTER_CONTROLLER": 27,
        "UNREGISTER_CONTROLLER": 29,
    }


def test_default_values_are_not_encoded() -> None:
    change = PartitionChangeRecord(topic_id=bytes(16), partition_id=4, leader=2)
    assert msgpack.unpackb(encode_record(change), strict_map_key=False) == [5, 2, {0: bytes(16), 1: 4, 3: 2}]


def test_fields_of_a_newer_version_are_kept_apart() -> None:
    newer = msgpack.packb([int(RecordType.TOPIC), 9, {0: "orders", 1: bytes(16), 7: "new"}])
    record = decode_record(newer)
    assert record == TopicRecord(name="orders", topic_id=bytes(16), unknown={7: "new"})
    assert attrs.evolve(record, unknown={}) == TopicRecord(name="orders", topic_id=bytes(16))


def test_unknown_record_type_is_refused() -> None:
    with pytest.raises(UnknownRecordType, match="type 77 is unknown"):
        decode_record(msgpack.packb([77, 0, {}]))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"junk",
        b"\xc1",
        b"\x90",
        b"\x91" * 100_000,
        b"\xdd\xff\xff\xff\xff",
        b"\x93\x02\x00\x90",
        b"\x93\x02\x00\x01",
        b"\x93\x02\x00\xc7\x01\x03\x00",
        b"\x93\x90\x00\x80",
        b"\x93\x1b\x00\x81\x02\x05",
    ],
)
def test_invalid_bytes_are_malformed_records(data: bytes) -> None:
    """A node that gets them from its leader ends with this message, because it cannot know the state after them."""
    with pytest.raises((MalformedRecord, UnknownRecordType)):
        decode_record(data)
