"""UUIDs in Kafka's text form."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.uuids import METADATA_TOPIC_ID, ZERO_UUID, decode_uuid, encode_uuid, new_uuid


def test_known_texts():
    assert encode_uuid(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert encode_uuid(METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert encode_uuid(b"\xff" * 16) == "_____________________w"
    assert encode_uuid(b"\xfb" * 16) == "-_v7-_v7-_v7-_v7-_v7-w"


@given(st.binary(min_size=16, max_size=16))
def test_encoded_uuids_are_decoded(uuid):
    assert len(encode_uuid(uuid)) == 22
    assert decode_uuid(encode_uuid(uuid)) == uuid


def test_padding_is_accepted():
    assert decode_uuid("AAAAAAAAAAAAAAAAAAAAAQ==") == METADATA_TOPIC_ID


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A" * 25, "is too long to be decoded as a base64 UUID"),
        ("AAAA", "decoded as 3 bytes, which is not equal to the expected 16 bytes"),
        ("", "decoded as 0 bytes"),
        ("!" * 22, None),
        ("é" * 22, None),
        ("A" * 21, None),
    ],
)
def test_bad_texts_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        decode_uuid(text)


def test_new_ones_are_of_version_4_and_do_not_look_like_options():
    rng = random.Random(1)
    for _ in range(1000):
        uuid = new_uuid(rng.randbytes)
        assert uuid[6] >> 4 == 4
        assert uuid[8] >> 6 == 2
        assert not encode_uuid(uuid).startswith("-")
