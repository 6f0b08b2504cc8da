"""For any input bytes, the decoder raises only WireError, in bounded time and with memory in proportion to
the input.
"""

import time
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.wire.api import APIS, Api
from broker.wire.api.create_topics import CreateTopicsRequest
from broker.wire.api.delete_topics import DeleteTopicsRequest
from broker.wire.api.fetch import FetchRequest, FetchTopic
from broker.wire.codec import decode, decoder, encode
from broker.wire.compile_decode import REQUEST_ELEMENTS_MAX
from broker.wire.errors import WireError
from broker.wire.header import parse_request_header
from broker.wire.varint import encode_varint
from tests.support.decoding_memory import PeakOfDecoding, measuring_process
from tests.support.wire_messages import message_versions, random_message, versions_of

# Bytes with a meaning: signs, counts and lengths of all sizes, ends of varints.
_POISON = (b"\0", b"\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff\x0f", b"\xff" * 8, b"\x01", b"\x02")


def mutate(encoded: bytes, rng: Random) -> bytearray:
    mutant = bytearray(encoded)
    for _ in range(rng.randint(1, 4)):
        position = rng.randrange(len(mutant) + 1)
        match rng.randrange(4):
            case 0:
                mutant[position : position + 1] = rng.randbytes(1)
            case 1:
                poison = rng.choice(_POISON)
                mutant[position : position + len(poison)] = poison
            case 2:
                mutant[position:position] = rng.choice(_POISON)
            case 3:
                del mutant[position : position + rng.choice((1, 2, 4, 16, len(mutant)))]
    return mutant


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_a_mutated_message_decodes_or_is_a_wire_error(api: Api) -> None:
    for version, kind in versions_of(api):
        check_mutants(api, version, kind)


def check_mutants(api: Api, version: int, kind: str) -> None:
    cls = getattr(api, kind)
    read = decoder(cls, version)
    rng = Random(f"{api.name} {version} {kind}")
    slowest = 0.0
    for _ in range(10):
        message = random_message(cls, version, version >= api.flexible_from, rng)
        encoded = b"".join(encode(message, version))
        for _ in range(12):
            mutant = mutate(encoded, rng)
            # As in a receive buffer, where bytes of other frames precede and follow it.
            start, end = 7, 7 + len(mutant)
            buffer = rng.randbytes(7) + mutant + rng.randbytes(40)
            before = time.process_time()
            try:
                _, stop = read(buffer, start, end)
                assert stop <= end
            except WireError:
                pass
            slowest = max(slowest, time.process_time() - before)
    assert slowest < 0.5


@given(st.binary(max_size=200), st.sampled_from(message_versions()))
@settings(max_examples=300)
def test_random_bytes_decode_or_are_a_wire_error(data: bytes, which: tuple[Api, int, str]) -> None:
    api, version, kind = which
    for buffer in (data, bytearray(data), memoryview(data)):
        try:
            _, stop = decode(getattr(api, kind), version, buffer)
            assert stop <= len(data)
        except WireError:
            pass


@given(st.sampled_from(sorted(APIS)), st.integers(0, 15), st.binary(max_size=64))
@settings(max_examples=300)
def test_random_request_headers_parse_or_are_a_wire_error(key: int, version: int, rest: bytes) -> None:
    frame = key.to_bytes(2, "big") + version.to_bytes(2, "big") + rest
    try:
        *_, end = parse_request_header(frame)
        assert end <= len(frame)
    except WireError:
        pass


def test_every_truncation_of_a_message_is_a_wire_error() -> None:
    rng = Random(5)
    for api, version, kind in message_versions():
        cls = getattr(api, kind)
        encoded = b"".join(encode(random_message(cls, version, version >= api.flexible_from, rng), version))
        for end in sorted({rng.randrange(len(encoded)) for _ in range(8)}) if encoded else ():
            with pytest.raises(WireError):
                decode(cls, version, encoded, 0, end)


@pytest.fixture(scope="module")
def peak_of_decoding() -> Iterator[PeakOfDecoding]:
    with measuring_process() as measure:
        yield measure


@pytest.mark.parametrize("version", [3, 7])
def test_a_count_that_the_bytes_do_not_cover_takes_no_memory(version: int, peak_of_decoding: PeakOfDecoding) -> None:
    for count in (0x7FFFFFFF, REQUEST_ELEMENTS_MAX):
        data = encode_varint(count + 1) if version >= 5 else count.to_bytes(4, "big")
        assert peak_of_decoding(CreateTopicsRequest, version, data + bytes(64)) < 20_000


def test_an_array_of_numbers_is_not_allocated_before_its_bytes_are_there(peak_of_decoding: PeakOfDecoding) -> None:
    topic = b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\1" + bytes(4)  # one topic, one assignment of partition 0
    data = b"\0\0\0\1" + b"\0\1t" + bytes(6) + topic[7:] + (400_000).to_bytes(4, "big") + bytes(64)
    assert peak_of_decoding(CreateTopicsRequest, 2, data) < 20_000


def test_the_elements_of_a_request_are_limited_however_small_they_are() -> None:
    names = DeleteTopicsRequest(topic_names=[""] * (REQUEST_ELEMENTS_MAX + 1))
    with pytest.raises(WireError, match="more array elements"):
        decode(DeleteTopicsRequest, 1, b"".join(encode(names, 1)))


def test_the_limit_counts_all_arrays_of_a_request_together() -> None:
    half = REQUEST_ELEMENTS_MAX // 2
    pair = FetchRequest(topics=[FetchTopic()] * 2)
    head, one_topic = b"".join(encode(pair, 7)), 6  # an empty name and an empty array of partitions
    at = len(head) - 4 - 2 * one_topic
    data = head[: at - 4] + half.to_bytes(4, "big") + bytes(one_topic * half) + half.to_bytes(4, "big")
    message, _ = decode(FetchRequest, 7, data + bytes(one_topic * half))
    assert len(message.topics) == len(message.forgotten_topics_data) == half
    with pytest.raises(WireError, match="more array elements"):
        decode(FetchRequest, 7, data[:-4] + (half + 1).to_bytes(4, "big") + bytes(one_topic * half))


def test_the_limit_counts_unknown_tagged_fields() -> None:
    count = REQUEST_ELEMENTS_MAX + 1
    data = b"\1\0\0\0\0" + encode_varint(count) + bytes(2 * count)
    with pytest.raises(WireError, match="more array elements"):
        decode(DeleteTopicsRequest, 5, data)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_an_element_of_a_request_takes_a_few_hundred_bytes_at_most(api: Api, peak_of_decoding: PeakOfDecoding) -> None:
    """With the limit on elements, this bounds the memory of a decoded request."""
    count = 500
    for version in (api.min_version, api.max_version):
        for spec in api.request.__fields__:
            if version in spec.versions and isinstance(spec.type, list) and isinstance(spec.type[0], type):
                message = api.request(**{spec.name: [spec.type[0]() for _ in range(count)]})
                encoded = b"".join(encode(message, version))
                assert peak_of_decoding(api.request, version, encoded) < count * 300
