"""Messages arrive as they were sent, and nothing else arrives."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.core import OffsetAndEpoch, ReplicaKey, Voter
from kraft.core import messages as said
from kraft.core.messages import Error, Known, Request, Response
from kraft.message_codec import MalformedMessage, decode_request, decode_response, encode
from kraft.replicated_log import Batch, BatchKind

KEY = ReplicaKey(3, "directory")
PLACE = OffsetAndEpoch(7, 2)
KNOWN = Known(4, 1, "host:9093")
BATCH = Batch(7, 4, 1_000, (b"one", b""), BatchKind.VOTERS)

REQUESTS: list[Request] = [
    said.VoteRequest(4, KEY, ReplicaKey(1), PLACE, pre_vote=True),
    said.BeginEpochRequest(4, 1, "host:9093", KEY),
    said.EndEpochRequest(4, 1, (2, 3)),
    said.FetchRequest(4, KEY, PLACE, 5),
    said.FetchSnapshotRequest(4, KEY, PLACE, 1_024),
    said.AddVoterRequest(Voter(KEY, "host:9093"), 5_000),
    said.RemoveVoterRequest(KEY, 5_000),
    said.UpdateVoterRequest(Voter(KEY, "host:9093"), 5_000),
]
RESPONSES: list[Response] = [
    said.VoteResponse(KNOWN, granted=False, error=Error.INVALID_VOTER_KEY),
    said.BeginEpochResponse(Known(4)),
    said.EndEpochResponse(KNOWN),
    said.FetchResponse(KNOWN, 5, batches=(BATCH, BATCH)),
    said.FetchResponse(KNOWN, 5, diverging=PLACE),
    said.FetchResponse(KNOWN, 5, snapshot=PLACE),
    said.FetchSnapshotResponse(KNOWN, 10, 5, b"bytes"),
    said.VoterChangeResponse(KNOWN, Error.DUPLICATE_VOTER, "text"),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda message: type(message).__name__)
def test_requests_arrive_as_they_were_sent(request_: Request) -> None:
    assert decode_request(encode((17, request_))) == (17, request_)


@pytest.mark.parametrize("response", RESPONSES, ids=lambda message: type(message).__name__)
def test_responses_arrive_as_they_were_sent(response: Response) -> None:
    arrived = decode_response(encode((17, response)))[1]
    assert arrived == response
    assert isinstance(arrived.error, Error)


def test_every_message_is_tried() -> None:
    assert {type(message) for message in REQUESTS} == set(Request.__args__)
    assert {type(message) for message in RESPONSES} == set(Response.__args__)


@given(st.binary(max_size=200))
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_request(data)


@given(st.data(), st.sampled_from(REQUESTS))
def test_damaged_messages_are_refused_or_are_messages(data: st.DataObject, request_: Request) -> None:
    body = bytearray(encode((17, request_)))
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
        decode_request(encode((17, wrong)))
