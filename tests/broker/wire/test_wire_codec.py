"""The rules of the codec: nulls, defaults, tagged fields, records, versions."""

import pytest

from broker.wire.api import APIS, Api
from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from broker.wire.api.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from broker.wire.api.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from broker.wire.api.metadata import MetadataRequest
from broker.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.wire.codec import decode, decoder, encode, encoder
from broker.wire.errors import ErrorCode, KafkaError, WireError
from metadata.protocol.errors import RETRIABLE, STALE_METADATA
from tests.support import kafka_facts
from tests.support.wire_messages import as_dict


class OneMegabyteOfFile:
    """A range of a file without content, which only has a size."""

    def __len__(self) -> int:
        return 1_000_000


def with_tagged_field(encoded: bytes, tag: int, value: bytes) -> bytes:
    """Add a tagged field to a message without tagged fields."""
    assert encoded.endswith(b"\0")
    return encoded[:-1] + bytes((1, tag, len(value))) + value


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_the_registry_agrees_with_the_message_classes(api: Api) -> None:
    for message, is_request in ((api.request, True), (api.response, False)):
        spec = message.__message__
        assert (spec.key, spec.is_request) == (api.key, is_request)
        assert spec.versions == (api.min_version, api.max_version)
        assert spec.flexible.first == api.flexible_from


def test_error_codes_are_kafkas() -> None:
    rows = kafka_facts.read("errors")
    assert {row["name"]: int(row["code"]) for row in rows} == {code.name: code.value for code in ErrorCode}


def test_classes_of_errors_are_kafkas() -> None:
    rows = kafka_facts.read("errors")
    retriable = {ErrorCode[row["name"]] for row in rows if row["retriable"] == "true"}
    # Kafka calls this one retriable, and treats it as a success where it occurs.
    assert retriable - RETRIABLE == {ErrorCode.ELECTION_NOT_NEEDED}
    assert retriable >= RETRIABLE
    stale = {ErrorCode[row["name"]] for row in rows if row["invalid_metadata"] == "true"}
    # Kafka refreshes the metadata after these, too.
    assert STALE_METADATA - stale == {ErrorCode.NOT_CONTROLLER, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR}
    assert stale - STALE_METADATA == {ErrorCode.ELECTION_NOT_NEEDED}


def test_a_kafka_error_tells_code_and_message() -> None:
    error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved to 3")
    assert (error.code, error.message, str(error)) == (6, "moved to 3", "NOT_LEADER_OR_FOLLOWER: moved to 3")


def test_versions_outside_the_range_do_not_exist() -> None:
    for version in (3, 19, -1):
        with pytest.raises(WireError, match="has no version"):
            decoder(FetchRequest, version)
        with pytest.raises(WireError, match="has no version"):
            encoder(FetchRequest, version)


def test_records_are_a_view_of_the_received_buffer() -> None:
    request = ProduceRequest(
        topic_data=[TopicProduceData(partition_data=[PartitionProduceData(records=memoryview(b"12345"))])]
    )
    buffer = bytearray(b"".join(encode(request, 13)))
    message, _ = decode(ProduceRequest, 13, buffer)
    records = message.topic_data[0].partition_data[0].records
    assert records is not None
    assert records == b"12345"
    buffer[buffer.index(b"12345")] = ord("9")
    assert records == b"92345"
    records[1] = ord("9")  # writable, because the log patches offsets in place
    assert b"99345" in buffer


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_records_of_a_response_pass_through_untouched(version: int) -> None:
    view, file = memoryview(b"x" * 300), OneMegabyteOfFile()
    partitions = [PartitionData(records=view), PartitionData(records=file), PartitionData(records=None)]
    parts = encode(FetchResponse(responses=[FetchableTopicResponse(partitions=partitions)]), version)
    opaque = [part for part in parts if not isinstance(part, bytes)]
    assert [id(part) for part in opaque] == [id(view), id(file)]
    body = b"".join(part if isinstance(part, bytes) else bytes(len(part)) for part in parts)
    message, end = decode(FetchResponse, version, body)
    assert end == len(body)
    sizes = [None if p.records is None else len(p.records) for p in message.responses[0].partitions]
    assert sizes == [300, 1_000_000, None]


def test_empty_records_are_not_null() -> None:
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=b"")])])
    message, _ = decode(FetchResponse, 17, b"".join(encode(response, 17)))
    assert message.responses[0].partitions[0].records == b""


def test_fields_a_version_does_not_have_are_left_out_and_come_back_as_defaults() -> None:
    request = FetchRequest(session_id=9, rack_id="a", topics=[FetchTopic(topic="t", topic_id=b"i" * 16)])
    old, _ = decode(FetchRequest, 4, b"".join(encode(request, 4)))
    assert (old.session_id, old.session_epoch, old.rack_id) == (0, -1, "")
    assert (old.topics[0].topic, old.topics[0].topic_id) == ("t", bytes(16))
    new, _ = decode(FetchRequest, 13, b"".join(encode(request, 13)))
    assert (new.session_id, new.rack_id) == (9, "a")
    assert (new.topics[0].topic, new.topics[0].topic_id) == ("", b"i" * 16)


def test_decoded_lists_are_not_shared() -> None:
    encoded = b"".join(encode(FetchRequest(), 4))
    one, _ = decode(FetchRequest, 4, encoded)
    other, _ = decode(FetchRequest, 4, encoded)
    one.forgotten_topics_data.append(None)
    assert other.forgotten_topics_data == [] == FetchRequest().forgotten_topics_data


@pytest.mark.parametrize("version", [3, 7])
def test_null_is_refused_where_the_version_has_none(version: int) -> None:
    with pytest.raises(WireError, match="name"):
        encode(CreateTopicsRequest(topics=[CreatableTopic(name=None)]), version)
    encoded = b"".join(encode(CreateTopicsRequest(topics=[]), version))
    null = b"\0" + encoded[1:] if version >= 5 else b"\xff\xff\xff\xff" + encoded[4:]
    with pytest.raises(WireError, match=r"CreateTopicsRequest\.topics"):
        decode(CreateTopicsRequest, version, null)


def test_null_is_told_from_empty_where_it_may_be() -> None:
    for version in (1, 8, 9, 13):
        for topics in (None, []):
            message, _ = decode(MetadataRequest, version, b"".join(encode(MetadataRequest(topics=topics), version)))
            assert message.topics == topics
    with pytest.raises(WireError):
        encode(MetadataRequest(topics=None), 0)


@pytest.mark.parametrize("length", [b"\xff\xfe", b"\x80\0"])
def test_a_length_below_minus_one_is_refused(length: bytes) -> None:
    encoded = b"".join(encode(ProduceRequest(), 3))
    with pytest.raises(WireError, match="transactional_id"):
        decode(ProduceRequest, 3, length + encoded[2:])


def test_a_nullable_struct() -> None:
    for cursor in (None, Cursor(topic_name="t", partition_index=3)):
        request = DescribeTopicPartitionsRequest(cursor=cursor)
        message, _ = decode(DescribeTopicPartitionsRequest, 0, b"".join(encode(request, 0)))
        assert as_dict(message) == as_dict(request)


def test_values_that_do_not_fit_are_wire_errors() -> None:
    for wrong in (1 << 31, "text"):
        with pytest.raises(WireError):
            encode(FetchRequest(max_wait_ms=wrong), 4)
    with pytest.raises(WireError):
        encode(FetchRequest(topics=[FetchTopic(topic="x" * 40_000)]), 4)


def test_text_must_be_utf_8() -> None:
    encoded = bytearray(b"".join(encode(FetchRequest(rack_id="rack"), 11)))
    encoded[-1] = 0xFF
    with pytest.raises(WireError):
        decode(FetchRequest, 11, encoded)


def test_a_message_ends_where_it_ends_and_not_where_the_buffer_does() -> None:
    encoded = b"".join(encode(FetchRequest(rack_id="rack"), 11))
    buffer = bytearray(b"before" + encoded + b"behind")
    message, end = decode(FetchRequest, 11, buffer, 6, len(buffer))
    assert (message.rack_id, end) == ("rack", 6 + len(encoded))
    with pytest.raises(WireError, match="past its end"):
        decode(FetchRequest, 11, buffer, 6, end - 1)


def test_unknown_tagged_fields_are_passed_over() -> None:
    request = FetchRequest(rack_id="rack", topics=[FetchTopic(partitions=[FetchPartition(partition=7)])])
    encoded = with_tagged_field(b"".join(encode(request, 17)), 99, b"from the future")
    message, end = decode(FetchRequest, 17, encoded)
    assert end == len(encoded)
    assert as_dict(message) == as_dict(request)


def test_unknown_tagged_fields_within_an_array_are_passed_over() -> None:
    topic = FetchTopic(partitions=[FetchPartition(partition=7)])
    encoded = b"".join(encode(FetchRequest(topics=[topic]), 17))
    partition_end = encoded.index(b"\0\0\0\7") + 33
    tagged = with_tagged_field(encoded[:partition_end], 99, b"?") + encoded[partition_end:]
    message, end = decode(FetchRequest, 17, tagged)
    assert end == len(tagged)
    assert message.topics[0].partitions[0].partition == 7


def test_a_known_tagged_field_among_fixed_width_structs_is_read() -> None:
    partitions = [
        FetchPartition(partition=1),
        FetchPartition(partition=2, replica_directory_id=b"d" * 16),
        FetchPartition(partition=3),
    ]
    request = FetchRequest(topics=[FetchTopic(partitions=partitions)])
    message, _ = decode(FetchRequest, 17, b"".join(encode(request, 17)))
    assert as_dict(message) == as_dict(request)


def test_tagged_structs_are_none_when_left_out() -> None:
    for state in (None, ReplicaState(replica_id=2, replica_epoch=5)):
        request = FetchRequest(replica_state=state)
        message, _ = decode(FetchRequest, 15, b"".join(encode(request, 15)))
        assert as_dict(message.replica_state) == as_dict(state)


def test_a_tagged_field_of_another_size_than_its_value_is_refused() -> None:
    encoded = b"".join(encode(FetchRequest(), 15))
    for value in (bytes(12), bytes(14)):  # the replica state takes 13 bytes
        with pytest.raises(WireError):
            decode(FetchRequest, 15, with_tagged_field(encoded, 1, value))


def test_a_messages_repr_has_only_fields_that_differ_from_defaults() -> None:
    data = PartitionData(partition_index=3, records=b"secret", current_leader=LeaderIdAndEpoch(leader_id=1))
    assert repr(data) == (
        "PartitionData(partition_index=3, current_leader=LeaderIdAndEpoch(leader_id=1), records=<6 bytes>)"
    )
    assert repr(CreateTopicsResponse()) == "CreateTopicsResponse()"


def test_a_string_longer_than_kafka_takes_is_refused_in_flexible_versions_too() -> None:
    """Otherwise a flexible request could bring a name that no response of an older version can carry."""

    def encoded(length: int, version: int) -> bytes:
        topic = CreatableTopic(name="x" * length, num_partitions=1, replication_factor=1)
        return b"".join(encode(CreateTopicsRequest(topics=[topic]), version))

    request, _ = decode(CreateTopicsRequest, 7, encoded(0x7FFF, 7))
    assert len(request.topics[0].name) == 0x7FFF
    with pytest.raises(WireError, match="impossible length"):
        decode(CreateTopicsRequest, 7, encoded(0x8000, 7))


def test_error_code_of_a_later_release_is_an_unknown_server_error() -> None:
    assert ErrorCode.of(max(ErrorCode) + 1) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert [ErrorCode.of(code.value) for code in ErrorCode] == list(ErrorCode)
