"""Records of `__consumer_offsets` have the same bytes as Kafka's. Invalid bytes raise one of two errors."""

from random import Random
from typing import Any

import pytest

from broker.coordinator.group import record_formats as records
from broker.coordinator.group.record_formats import (
    AssignedTopicPartitions,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    PartitionMetadata,
    TopicMetadata,
    TopicPartitions,
    UnknownCoordinatorRecordType,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from broker.coordinator.group.share.record_formats import (
    SharedTopicPartitions,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from broker.wire.errors import WireError
from tests.support.wire_messages import as_dict, random_message

TOPIC_ID = bytes(range(1, 17))
TIME_MS = 1_700_000_000_000
OFFSET_KEY = OffsetCommitKey(group="group", topic="topic", partition=3)
OFFSET_KEY_HEX = "0001000567726f75700005746f70696300000003"


def offset_value(**fields: Any) -> OffsetCommitValue:
    return OffsetCommitValue(
        **{"offset": 1234567890123, "leader_epoch": -1, "metadata": "note", "commit_timestamp": TIME_MS, **fields}
    )


GROUP_VALUE = GroupMetadataValue(
    protocol_type="consumer",
    generation=4,
    protocol="range",
    leader="m-1",
    current_state_timestamp=TIME_MS,
    members=[
        MemberMetadata(
            member_id="m-1",
            group_instance_id="i-1",
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout=300_000,
            session_timeout=45_000,
            subscription=b"\0\1\2",
            assignment=b"\3",
        )
    ],
)
MEMBER_VALUE = ConsumerGroupMemberMetadataValue(
    instance_id="i-1",
    client_id="c",
    client_host="/127.0.0.1",
    subscribed_topic_names=["a", "b"],
    subscribed_topic_regex="x.*",
    rebalance_timeout_ms=300_000,
    server_assignor="uniform",
    classic_member_metadata=ClassicMemberMetadata(
        session_timeout_ms=45_000, supported_protocols=[ClassicProtocol(name="range", metadata=b"\1\2")]
    ),
)
GROUP, MEMBER = {"group_id": "group"}, {"group_id": "group", "member_id": "m-1"}

# Written by the classes of kafka-group-coordinator 4.1.2.
WRITTEN_BY_KAFKA = [
    (OFFSET_KEY, offset_value(), 0, OFFSET_KEY_HEX, "00000000011f71fb04cb00046e6f74650000018bcfe56800"),
    (
        OFFSET_KEY,
        offset_value(expire_timestamp=TIME_MS + 9_999),
        1,
        OFFSET_KEY_HEX,
        "00010000011f71fb04cb00046e6f74650000018bcfe568000000018bcfe58f0f",
    ),
    (OFFSET_KEY, offset_value(), 2, OFFSET_KEY_HEX, "00020000011f71fb04cb00046e6f74650000018bcfe56800"),
    (
        OFFSET_KEY,
        offset_value(leader_epoch=7),
        3,
        OFFSET_KEY_HEX,
        "00030000011f71fb04cb0000000700046e6f74650000018bcfe56800",
    ),
    (
        OFFSET_KEY,
        offset_value(leader_epoch=7, topic_id=TOPIC_ID),
        None,
        OFFSET_KEY_HEX,
        "00040000011f71fb04cb00000007056e6f74650000018bcfe568000100100102030405060708090a0b0c0d0e0f10",
    ),
    (
        OFFSET_KEY,
        OffsetCommitValue(offset=5),
        None,
        OFFSET_KEY_HEX,
        "00040000000000000005ffffffff01000000000000000000",
    ),
    (
        GroupMetadataKey(group="group"),
        GROUP_VALUE,
        None,
        "0002000567726f7570",
        "00030008636f6e73756d657200000004000572616e676500036d2d310000018bcfe568000000000100036d2d310003692d31000163"
        "000a2f3132372e302e302e31000493e00000afc8000000030001020000000103",
    ),
    (
        GroupMetadataKey(group="group"),
        GROUP_VALUE,
        4,
        "0002000567726f7570",
        "000409636f6e73756d6572000000040672616e6765046d2d310000018bcfe5680002046d2d3104692d3102630b2f3132372e302e302e"
        "31000493e00000afc80400010202030000",
    ),
    (
        ConsumerGroupMetadataKey(**GROUP),
        ConsumerGroupMetadataValue(epoch=5, metadata_hash=-3),
        None,
        "0003000567726f7570",
        "000000000005010008fffffffffffffffd",
    ),
    (
        ConsumerGroupPartitionMetadataKey(**GROUP),
        ConsumerGroupPartitionMetadataValue(
            topics=[
                TopicMetadata(
                    topic_id=TOPIC_ID,
                    topic_name="t",
                    num_partitions=2,
                    partition_metadata=[PartitionMetadata(partition=0, racks=["r"])],
                )
            ]
        ),
        None,
        "0004000567726f7570",
        "0000020102030405060708090a0b0c0d0e0f100274000000020200000000020272000000",
    ),
    (
        ConsumerGroupMemberMetadataKey(**MEMBER),
        MEMBER_VALUE,
        None,
        "0005000567726f757000036d2d31",
        "000004692d310002630b2f3132372e302e302e31030261026204782e2a000493e008756e69666f726d010011010000afc80206"
        "72616e67650301020000",
    ),
    (
        ConsumerGroupTargetAssignmentMetadataKey(**GROUP),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=6),
        None,
        "0006000567726f7570",
        "00000000000600",
    ),
    (
        ConsumerGroupTargetAssignmentMemberKey(**MEMBER),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[TopicPartitions(topic_id=TOPIC_ID, partitions=[0, 1, 9])]
        ),
        None,
        "0007000567726f757000036d2d31",
        "0000020102030405060708090a0b0c0d0e0f10040000000000000001000000090000",
    ),
    (
        ConsumerGroupCurrentMemberAssignmentKey(**MEMBER),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=6,
            previous_member_epoch=5,
            state=1,
            assigned_partitions=[AssignedTopicPartitions(topic_id=TOPIC_ID, partitions=[0, 1])],
            partitions_pending_revocation=[AssignedTopicPartitions(topic_id=TOPIC_ID, partitions=[9])],
        ),
        None,
        "0008000567726f757000036d2d31",
        "0000000000060000000501020102030405060708090a0b0c0d0e0f100300000000000000010002010203040506070809"
        "0a0b0c0d0e0f1002000000090000",
    ),
    # By the classes of 4.3.0: the epochs of partitions (KIP-1251).
    (
        ConsumerGroupCurrentMemberAssignmentKey(**MEMBER),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=6,
            previous_member_epoch=5,
            state=1,
            assigned_partitions=[
                AssignedTopicPartitions(topic_id=TOPIC_ID, partitions=[0, 1], assignment_epochs=[6, 4])
            ],
            partitions_pending_revocation=[
                AssignedTopicPartitions(topic_id=TOPIC_ID, partitions=[9], assignment_epochs=[3])
            ],
        ),
        None,
        "0008000567726f757000036d2d31",
        "0000000000060000000501020102030405060708090a0b0c0d0e0f1003000000000000000101000903000000060000000402"
        "0102030405060708090a0b0c0d0e0f100200000009010005020000000300",
    ),
    (
        ConsumerGroupCurrentMemberAssignmentKey(**MEMBER),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=6,
            previous_member_epoch=5,
            state=1,
            assigned_partitions=[AssignedTopicPartitions(topic_id=TOPIC_ID, partitions=[0, 1], assignment_epochs=None)],
            partitions_pending_revocation=[AssignedTopicPartitions(topic_id=TOPIC_ID, partitions=[9])],
        ),
        None,
        "0008000567726f757000036d2d31",
        "0000000000060000000501020102030405060708090a0b0c0d0e0f1003000000000000000101000100020102030405060708"
        "090a0b0c0d0e0f1002000000090000",
    ),
    (
        ConsumerGroupRegularExpressionKey(group_id="group", regular_expression="x.*"),
        ConsumerGroupRegularExpressionValue(topics=["xa"], version=12, timestamp=TIME_MS),
        None,
        "0010000567726f75700003782e2a",
        "000002037861000000000000000c0000018bcfe5680000",
    ),
    # By the classes of 4.4.0: share groups (KIP-932).
    (
        ShareGroupMemberMetadataKey(**MEMBER),
        ShareGroupMemberMetadataValue(
            rack_id="r", client_id="c", client_host="/127.0.0.1", subscribed_topic_names=["a", "b"]
        ),
        None,
        "000a000567726f757000036d2d31",
        "0000027202630b2f3132372e302e302e31030261026200",
    ),
    (
        ShareGroupMetadataKey(**GROUP),
        ShareGroupMetadataValue(epoch=5, metadata_hash=-3),
        None,
        "000b000567726f7570",
        "000000000005fffffffffffffffd00",
    ),
    (
        ShareGroupTargetAssignmentMetadataKey(**GROUP),
        ShareGroupTargetAssignmentMetadataValue(assignment_epoch=6, assignment_timestamp=TIME_MS),
        None,
        "000c000567726f7570",
        "0000000000060100080000018bcfe56800",
    ),
    (
        ShareGroupTargetAssignmentMemberKey(**MEMBER),
        ShareGroupTargetAssignmentMemberValue(
            topic_partitions=[SharedTopicPartitions(topic_id=TOPIC_ID, partitions=[0, 1, 9])]
        ),
        None,
        "000d000567726f757000036d2d31",
        "0000020102030405060708090a0b0c0d0e0f10040000000000000001000000090000",
    ),
    (
        ShareGroupCurrentMemberAssignmentKey(**MEMBER),
        ShareGroupCurrentMemberAssignmentValue(
            member_epoch=6,
            previous_member_epoch=5,
            assigned_partitions=[SharedTopicPartitions(topic_id=TOPIC_ID, partitions=[0, 1])],
        ),
        None,
        "000e000567726f757000036d2d31",
        "0000000000060000000500020102030405060708090a0b0c0d0e0f100300000000000000010000",
    ),
    (
        ShareGroupStatePartitionMetadataKey(**GROUP),
        ShareGroupStatePartitionMetadataValue(
            initializing_topics=[TopicPartitionsInfo(topic_id=TOPIC_ID, topic_name="t", partitions=[3])],
            initialized_topics=[TopicPartitionsInfo(topic_id=TOPIC_ID, topic_name="t", partitions=[0, 1])],
            deleting_topics=[TopicInfo(topic_id=TOPIC_ID, topic_name="u")],
        ),
        None,
        "000f000567726f7570",
        "0000020102030405060708090a0b0c0d0e0f100274020000000300020102030405060708090a0b0c0d0e0f1002740300000000"
        "0000000100020102030405060708090a0b0c0d0e0f1002750000",
    ),
]
TYPES = [
    (key, getattr(records, key.__name__.replace("Legacy", "").replace("Key", "Value")))
    for name, key in vars(records).items()
    if name.endswith("Key") and hasattr(key, "__message__")
]


def named(value: Any) -> str | None:
    return type(value).__name__ if hasattr(value, "__fields__") else None


@pytest.mark.parametrize(("key", "value", "version", "key_hex", "value_hex"), WRITTEN_BY_KAFKA, ids=named)
def test_records_are_written_and_read_as_kafka_does(
    key: Any, value: Any, version: int | None, key_hex: str, value_hex: str
) -> None:
    assert (encode_key(key).hex(), encode_value(value, version).hex()) == (key_hex, value_hex)
    read = decode_key(bytes.fromhex(key_hex))
    assert (type(read), as_dict(read)) == (type(key), as_dict(key))
    assert as_dict(decode_value(read, bytes.fromhex(value_hex))) == as_dict(value)


def test_every_type_is_compared_with_kafkas() -> None:
    compared = {type(key) for key, *_ in WRITTEN_BY_KAFKA}
    assert {key for key, _ in TYPES} - compared == {LegacyOffsetCommitKey}


@pytest.mark.parametrize(("key_class", "value_class"), TYPES, ids=lambda cls: cls.__name__)
def test_encoded_records_are_decoded(key_class: Any, value_class: Any) -> None:
    rng = Random(key_class.__name__)
    spec = value_class.__message__
    for version in range(spec.versions.first, spec.versions.last + 1):
        for _ in range(20):
            key = random_message(key_class, 0, False, rng)
            value = random_message(value_class, version, version in spec.flexible, rng)
            read = decode_key(encode_key(key))
            assert (type(read), as_dict(read)) == (key_class, as_dict(key))
            assert as_dict(decode_value(read, encode_value(value, version))) == as_dict(value)


def test_invalid_bytes_raise_wire_error_or_unknown_type() -> None:
    rng = Random(1)
    for _ in range(3_000):
        key, _, _, key_hex, value_hex = rng.choice(WRITTEN_BY_KAFKA)
        mutant = bytearray.fromhex(rng.choice((key_hex, value_hex)))
        for _ in range(rng.randint(1, 3)):
            mutant[rng.randrange(len(mutant))] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
        del mutant[rng.choice((len(mutant), rng.randrange(len(mutant)))) :]
        try:
            decode_value(key, mutant)
            decode_key(mutant)
        except (WireError, UnknownCoordinatorRecordType):
            pass
