"""The codec round-trips all messages, and refuses all other bytes."""

import tracemalloc
from collections.abc import Callable
from typing import get_args

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.core import OffsetAndEpoch, ReplicaKey, Voter
from kraft.core import messages as said
from kraft.core.messages import CurrentLeader, Error, Request, Response
from kraft.message_codec import REQUESTS as REQUEST_CLASSES
from kraft.message_codec import RESPONSES as RESPONSE_CLASSES
from kraft.message_codec import (
    decode_request,
    decode_response,
    decoder,
    encode_request,
    encode_response,
)
from kraft.msgpack_reading import MalformedMessage
from kraft.replicated_log import Batch, BatchKind
from tests.support.directory_ids import directory_id
from tests.support.nested_extensions import nested_extensions

KEY = ReplicaKey(3, directory_id("d3"))
PLACE = OffsetAndEpoch(7, 2)
KNOWN = CurrentLeader(4, 1, "host:9093")
BATCH = Batch(7, 4, 1_000, (b"one", b""), BatchKind.VOTERS)

REQUESTS: list[Request] = [
    said.VoteRequest(4, KEY, ReplicaKey(1), PLACE, pre_vote=True),
    said.BeginEpochRequest(4, 1, "host:9093", KEY),
    said.EndEpochRequest(4, 1, (2, 3)),
    said.FetchRequest(4, KEY, PLACE, 5),
    said.FetchSnapshotRequest(4, KEY, PLACE, 1_024),
    said.UpdateVoterRequest(Voter(KEY, "host:9093"), 5_000),
]
RESPONSES: list[Response] = [
    said.VoteResponse(KNOWN, granted=False, error=Error.INVALID_VOTER_KEY),
    said.BeginEpochResponse(CurrentLeader(4)),
    said.EndEpochResponse(KNOWN),
    said.FetchResponse(KNOWN, 5, batches=(BATCH, BATCH)),
    said.FetchResponse(KNOWN, 5, diverging=PLACE),
    said.FetchResponse(KNOWN, 5, snapshot=PLACE),
    said.FetchSnapshotResponse(KNOWN, 10, 5, b"bytes"),
    said.VoterChangeResponse(KNOWN, Error.DUPLICATE_VOTER, "text"),
]


# The bytes of REQUESTS and RESPONSES. Nodes of another version write and read the same.
REQUEST_BYTES = [
    "93110195049203b6643341414141414141414141414141414141414141419201a0920702c3",
    "931102940401a9686f73743a393039339203b664334141414141414141414141414141414141414141",
    "931103930401920203",
    "93110494049203b66433414141414141414141414141414141414141414192070205",
    "93110594049203b664334141414141414141414141414141414141414141920702cd0400",
    "93110692929203b664334141414141414141414141414141414141414141a9686f73743a39303933cd1388",
]
RESPONSE_BYTES = [
    "93110193930401a9686f73743a39303933c2b1494e56414c49445f564f5445525f4b4559",
    "931102929304c0a0a44e4f4e45",
    "93110392930401a9686f73743a39303933a44e4f4e45",
    "93110496930401a9686f73743a3930393305a44e4f4e45c0c092950704cd03e892c4036f6e65c40002950704cd03e892c4036f6e65c40002",
    "93110496930401a9686f73743a3930393305a44e4f4e45920702c090",
    "93110496930401a9686f73743a3930393305a44e4f4e45c092070290",
    "93110595930401a9686f73743a393039330a05c4056279746573a44e4f4e45",
    "93110693930401a9686f73743a39303933af4455504c49434154455f564f544552a474657874",
]


@pytest.mark.parametrize(("request_", "text"), list(zip(REQUESTS, REQUEST_BYTES, strict=True)))
def test_requests_have_the_bytes_of_all_versions(request_: Request, text: str) -> None:
    """An encoder and a decoder with the same mistake agree with each other."""
    assert encode_request(17, request_).hex() == text
    assert decode_request(bytes.fromhex(text)) == (17, request_)


@pytest.mark.parametrize(("response", "text"), list(zip(RESPONSES, RESPONSE_BYTES, strict=True)))
def test_responses_have_the_bytes_of_all_versions(response: Response, text: str) -> None:
    assert encode_response(17, response).hex() == text
    arrived = decode_response(bytes.fromhex(text))[1]
    assert arrived == response
    assert isinstance(arrived.error, Error)


def test_samples_cover_every_message() -> None:
    """AddVoter and RemoveVoter are requests of Kafka's protocol, which authorizes them (KIP-853)."""
    not_here = {said.AddVoterRequest, said.RemoveVoterRequest}
    assert {type(message) for message in REQUESTS} == set(REQUEST_CLASSES.values()) == set(get_args(Request)) - not_here
    assert {type(message) for message in RESPONSES} == set(RESPONSE_CLASSES.values()) == set(get_args(Response))


@given(st.binary(max_size=200))
def test_invalid_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_request(data)


@given(st.data(), st.sampled_from(REQUESTS))
def test_damaged_messages_are_refused_or_are_messages(data: st.DataObject, request_: Request) -> None:
    body = bytearray(encode_request(17, request_))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        arrived = decode_request(bytes(body))[1]
    except MalformedMessage:
        return
    assert isinstance(arrived, Request)


@pytest.mark.parametrize(
    "wrong",
    [
        attrs.evolve(REQUESTS[3], epoch="four"),
        attrs.evolve(REQUESTS[3], replica=PLACE),
        attrs.evolve(REQUESTS[2], preferred_successors=(2, "three")),
        attrs.evolve(REQUESTS[0], pre_vote=None),
    ],
)
def test_fields_of_a_wrong_type_are_refused(wrong: Request) -> None:
    with pytest.raises(MalformedMessage):
        decode_request(encode_request(17, wrong))


UNBOUNDED = [
    (REQUESTS[0], "epoch", 2**31),
    (REQUESTS[0], "epoch", -1),
    (REQUESTS[0], "candidate", ReplicaKey(2**31, "")),
    (REQUESTS[0], "candidate", ReplicaKey(2**40, "")),
    (REQUESTS[0], "candidate", ReplicaKey(-1, "")),
    (REQUESTS[0], "candidate", ReplicaKey(3, "x" * 600)),
    (REQUESTS[0], "candidate", ReplicaKey(3, "not a uuid")),
    (REQUESTS[0], "candidate", ReplicaKey(3, "A" * 22)),
    (REQUESTS[0], "log_end", OffsetAndEpoch(2**63, 1)),
    (REQUESTS[0], "log_end", OffsetAndEpoch(-1, 1)),
    (REQUESTS[1], "leader_address", "host:99999999999"),
    (REQUESTS[1], "leader_address", "host:70000"),
    (REQUESTS[1], "leader_address", "no port"),
    (REQUESTS[1], "leader_address", "a\0b:1"),
    (REQUESTS[1], "leader_address", "h" * 300 + ":1"),
    (REQUESTS[2], "preferred_successors", tuple(range(1_100))),
    (REQUESTS[3], "high_watermark", -1),
    (REQUESTS[4], "position", -1),
    (REQUESTS[4], "position", 2**63),
    (REQUESTS[5], "timeout_ms", -1),
    (REQUESTS[5], "timeout_ms", 2**31),
    (REQUESTS[0], "pre_vote", 1),
    (REQUESTS[0], "epoch", True),
    (REQUESTS[0], "epoch", 1.0),
    (RESPONSES[3], "high_watermark", 2**63),
    (RESPONSES[3], "batches", (attrs.evolve(BATCH, base_offset=-5),)),
    (RESPONSES[3], "batches", (attrs.evolve(BATCH, append_time_ms=2**62),)),
    (RESPONSES[3], "batches", (attrs.evolve(BATCH, kind=9),)),
    (RESPONSES[3], "batches", (attrs.evolve(BATCH, records=("text",)),)),
    (RESPONSES[6], "size_bytes", -1),
    (RESPONSES[6], "current_leader", CurrentLeader(4, -1, "host:1")),
    (RESPONSES[7], "message", "x" * 10_000),
    (RESPONSES[7], "error", "NO_SUCH_ERROR"),
]


@pytest.mark.parametrize(("message", "field", "value"), UNBOUNDED)
def test_value_out_of_its_fields_range_is_refused(message: Request | Response, field: str, value: object) -> None:
    wrong = attrs.evolve(message, **{field: value})
    decode, encoded = (
        (decode_request, encode_request(1, wrong))
        if isinstance(message, Request)
        else (decode_response, encode_response(1, wrong))
    )
    with pytest.raises(MalformedMessage):
        decode(encoded)


def test_class_with_an_unbounded_field_is_refused() -> None:
    """The codec reads all declarations, so no message can have a field without a range."""

    @attrs.frozen
    class Unbounded:
        number: int

    with pytest.raises(TypeError, match=r"Unbounded\.number is declared without bounds"):
        decoder(Unbounded)


@pytest.mark.parametrize(
    "data",
    [
        nested_extensions(200),
        nested_extensions(60, bytes(8 << 20)),
        b"\x91" * 100_000,
        b"\x93\x01\x04" + b"\xdd\x7f\xff\xff\xff" * 1_000,
        b"\xdd\xff\xff\xff\xff",
        b"\x93\x01\x04\x94\x01" + b"\xdf\xff\xff\xff\xff" * 100,
    ],
    ids=["extensions", "large extensions", "deep arrays", "announced arrays", "announced array", "announced maps"],
)
@pytest.mark.parametrize("decode", [decode_request, decode_response])
def test_nesting_and_announced_lengths_take_no_memory(decode: Callable[[bytes], object], data: bytes) -> None:
    """Before the check, 200 nested extension types in 812 bytes ended a node with SIGSEGV; 60 in 8 MB took 540 MB."""
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage):
            decode(data)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(data) + 100_000
    finally:
        tracemalloc.stop()


def test_number_of_records_in_a_message_is_bounded() -> None:
    """An empty record takes two bytes on the wire, and eight in memory."""
    batches = (attrs.evolve(BATCH, records=(b"",) * 1_000_000),) * 2
    with pytest.raises(MalformedMessage, match="an array of 1000000"):
        decode_response(encode_response(1, said.FetchResponse(KNOWN, 5, batches=batches)))
