"""Both ends of a connection send a Hello, and refuse an incompatible one with a reason."""

import pytest

from kraft.core import ReplicaKey
from kraft.handshake import HELLO_BYTES_MAX, Hello, decode_hello, hello, refusal_of
from kraft.message_codec import encode
from kraft.msgpack_reading import MalformedMessage
from tests.support.directory_ids import directory_id

MINE = hello("cluster", ReplicaKey(1, directory_id("d1")))


def test_hello_arrives_as_it_was_sent_and_begins_with_an_array_of_five() -> None:
    """A controller's listener distinguishes the protocol from Kafka's by this first byte."""
    assert decode_hello(encode(MINE)) == MINE
    assert encode(MINE)[0] == 0x95


def test_longest_hello_fits_into_its_frame() -> None:
    longest = Hello("\U0001f418" * 32, "\U0001f418" * 128, 2**31 - 1, "x" * 21 + "A")
    assert decode_hello(encode(longest)) == longest
    assert len(encode(longest)) <= HELLO_BYTES_MAX


@pytest.mark.parametrize(
    ("theirs", "reason"),
    [
        (hello("cluster", ReplicaKey(2, directory_id("d2"))), ""),
        (hello("other", ReplicaKey(2, directory_id("d2"))), "Node 1 belongs to cluster cluster, not other"),
        (Hello("kraft/9", "cluster", 2, directory_id("d2")), "Node 1 speaks kraft/2, not kraft/9"),
        (hello("cluster", ReplicaKey(1, directory_id("d2"))), "Node 1 has the same node id"),
        (hello("cluster", ReplicaKey(2, "")), "Node 2 does not name its directory"),
    ],
)
def test_incompatible_hello_is_refused_with_a_reason(theirs: Hello, reason: str) -> None:
    assert refusal_of(MINE, theirs) == reason


@pytest.mark.parametrize(
    "wrong",
    [
        hello("x" * 129, ReplicaKey(2, directory_id("d2"))),
        hello("cluster", ReplicaKey(2**40, directory_id("d2"))),
        hello("cluster", ReplicaKey(-1, directory_id("d2"))),
        hello("cluster", ReplicaKey(2, "not a uuid")),
        hello("cluster", ReplicaKey(2, "x" * 600)),
    ],
)
def test_hello_with_invalid_ids_is_malformed(wrong: Hello) -> None:
    with pytest.raises(MalformedMessage):
        decode_hello(encode(wrong))
