"""The benchmarks' hand-encoded requests are decoded by the broker's codec as intended."""

from benchmarks import protocol
from broker.wire.api.fetch import FetchRequest
from broker.wire.api.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from broker.wire.codec import decode, encode
from broker.wire.header import encode_response_header, parse_request_header
from broker.wire.records.batch import check_crc, read_header
from broker.wire.records.record import iter_records


def test_produce_carries_a_valid_batch_to_its_partition() -> None:
    frame = protocol.produce("t", 3, protocol.batch(2, 100), acks=1)
    api_key, _, correlation_id, _, body = parse_request_header(frame, 4)
    request, end = decode(ProduceRequest, protocol.PRODUCE_VERSION, frame, body)
    assert (int.from_bytes(frame[:4], "big"), end) == (len(frame) - 4, len(frame))
    assert (api_key, correlation_id, request.acks) == (0, protocol.CORRELATION_ID, 1)
    [topic] = request.topic_data
    [partition] = topic.partition_data
    assert partition.records is not None
    batch = read_header(partition.records)
    check_crc(partition.records, 0, batch)
    assert (topic.name, partition.index, batch.size) == ("t", 3, len(protocol.batch(2, 100)))
    assert [len(record.value or b"") for record in iter_records(partition.records, 0, batch)] == [100, 100]


def test_fetch_asks_one_partition_outside_any_session() -> None:
    frame = protocol.fetch("t", 0, 17, max_bytes=1234)
    api_key, *_, body = parse_request_header(frame, 4)
    request, end = decode(FetchRequest, protocol.FETCH_VERSION, frame, body)
    [topic] = request.topics
    [partition] = topic.partitions
    assert (api_key, end) == (1, len(frame))
    assert (request.session_id, request.session_epoch) == (0, -1)
    assert (topic.topic, partition.partition, partition.fetch_offset) == ("t", 0, 17)
    assert partition.partition_max_bytes == 1234


def test_the_error_code_of_a_produce_reply_is_where_the_load_generator_looks() -> None:
    topic = "bench-0001"
    partition = PartitionProduceResponse(index=0, error_code=87, base_offset=-1)
    response = ProduceResponse(responses=[TopicProduceResponse(name=topic, partition_responses=[partition])])
    parts = b"".join(bytes(part) for part in encode(response, protocol.PRODUCE_VERSION))
    reply = encode_response_header(0, protocol.PRODUCE_VERSION, 7) + parts
    assert protocol.error_code(reply, protocol.produce_error_offset(topic)) == 87
