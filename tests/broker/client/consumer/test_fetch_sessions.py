"""Fetch sessions (KIP-227): examples, and a property test with the broker's side of a session."""

from hypothesis import given
from hypothesis import strategies as st

from broker.client.consumer.fetch_sessions import FetchSession, PartitionFetch, SessionRequest
from broker.client.types import TopicPartition
from broker.wire.api.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from broker.wire.errors import ErrorCode

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
IDS = {"a": b"a" * 16, "b": b"b" * 16, "c": b"c" * 16}


def fetch_of(key: TopicPartition, offset: int = 0) -> PartitionFetch:
    return PartitionFetch(IDS[key.topic], offset, 1, 100)


def response(*keys: TopicPartition, session_id: int = 9, error: int = 0, throttle_ms: int = 0) -> FetchResponse:
    return FetchResponse(
        error_code=error,
        session_id=session_id,
        throttle_time_ms=throttle_ms,
        responses=[
            FetchableTopicResponse(topic_id=IDS[key.topic], partitions=[PartitionData(partition_index=key.partition)])
            for key in keys
        ],
    )


def asked(request: SessionRequest) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.topic, part.partition): part.fetch_offset
        for topic in request.topics
        for part in topic.partitions
    }


def forgotten(request: SessionRequest) -> set[TopicPartition]:
    return {TopicPartition(topic.topic, part) for topic in request.forgotten for part in topic.partitions}


def open_session(*keys: TopicPartition) -> FetchSession:
    session = FetchSession()
    session.request({key: fetch_of(key) for key in keys}, by_id=True)
    assert session.accept(response(*keys)) is not None
    return session


def test_the_first_request_names_everything() -> None:
    request = FetchSession().request({A: fetch_of(A), B: fetch_of(B)}, by_id=True)
    assert (request.session_id, request.epoch) == (0, 0)
    assert list(asked(request)) == [A, B]


def test_later_requests_name_only_changes() -> None:
    session = open_session(A, B)
    request = session.request({A: fetch_of(A, 5), B: fetch_of(B)}, by_id=True)
    assert (request.session_id, request.epoch) == (9, 1)
    assert asked(request) == {A: 5}
    assert not request.forgotten


def test_partitions_that_are_not_wanted_are_forgotten() -> None:
    session = open_session(A, B)
    request = session.request({B: fetch_of(B)}, by_id=True)
    assert (asked(request), forgotten(request)) == ({}, {A})


def test_a_topic_created_again_is_forgotten_and_named() -> None:
    session = open_session(A)
    again = PartitionFetch(b"z" * 16, 0, 1, 100)
    request = session.request({A: again}, by_id=True)
    assert asked(request) == {A: 0}
    assert [topic.topic_id for topic in request.forgotten] == [IDS["a"]]
    assert [topic.topic_id for topic in request.topics] == [b"z" * 16]


def test_epochs_count_the_requests_and_wrap_to_one() -> None:
    session = open_session(A)
    for epoch in (1, 2, 3):
        assert session.request({A: fetch_of(A)}, by_id=True).epoch == epoch
        session.accept(response())
    session._epoch = 2**31 - 1
    session.accept(response())
    assert session.request({A: fetch_of(A)}, by_id=True).epoch == 1


def test_a_lost_request_is_followed_by_a_new_session_in_place_of_the_old_one() -> None:
    session = open_session(A, B)
    session.request({A: fetch_of(A, 5), B: fetch_of(B)}, by_id=True)
    session.lose()
    request = session.request({A: fetch_of(A, 5), B: fetch_of(B)}, by_id=True)
    assert (request.session_id, request.epoch) == (9, 0)
    assert asked(request) == {A: 5, B: 0}


def test_a_forgotten_session_begins_anew() -> None:
    session = open_session(A)
    session.request({A: fetch_of(A)}, by_id=True)
    assert session.accept(response(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)) is None
    assert session.request({A: fetch_of(A)}, by_id=True)[:2] == (0, 0)


def test_a_broker_without_room_for_sessions_is_asked_in_full() -> None:
    session = FetchSession()
    session.request({A: fetch_of(A)}, by_id=True)
    assert session.accept(response(A, session_id=0)) is not None
    assert not session.is_open
    assert asked(session.request({A: fetch_of(A)}, by_id=True)) == {A: 0}


def test_a_throttled_full_response_without_partitions_is_asked_for_again_kip_219() -> None:
    session = FetchSession()
    session.request({A: fetch_of(A)}, by_id=True)
    assert session.accept(response(throttle_ms=50)) is None
    assert asked(session.request({A: fetch_of(A)}, by_id=True)) == {A: 0}


def test_partitions_that_were_not_asked_for_end_the_session() -> None:
    session = open_session(A)
    session.request({A: fetch_of(A)}, by_id=True)
    assert session.accept(response(B)) is None
    assert session.request({A: fetch_of(A)}, by_id=True)[:2] == (9, 0)


def test_a_partition_that_is_there_twice_ends_the_session() -> None:
    session = open_session(A)
    session.request({A: fetch_of(A)}, by_id=True)
    assert session.accept(response(A, A)) is None


def test_names_instead_of_ids_need_another_session_kip_516() -> None:
    session = open_session(A)
    assert session.request({A: fetch_of(A)}, by_id=False)[:2] == (9, 0)


class BrokerSession:
    """A broker's state: the partitions and offsets of the session, by the rules of KIP-227."""

    def __init__(self) -> None:
        self.kept: dict[TopicPartition, int] = {}
        self.session_id = 0
        self.epoch = 0

    def serve(self, request: SessionRequest) -> FetchResponse:
        if request.epoch == 0:
            self.kept = asked(request)
            self.session_id += 1
            self.epoch = 1
            return response(*self.kept, session_id=self.session_id)
        if request.session_id != self.session_id:
            return response(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session_id=0)
        if request.epoch != self.epoch:
            return response(error=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=0)
        self.epoch += 1
        for key in forgotten(request):
            del self.kept[key]
        changed = asked(request)
        self.kept |= changed
        return response(*changed, session_id=self.session_id)


steps = st.lists(
    st.tuples(
        st.dictionaries(st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 2)), st.integers(0, 9)),
        st.sampled_from(["served", "request lost", "response lost", "session evicted"]),
    ),
    max_size=12,
)


@given(steps)
def test_the_brokers_session_matches_the_client_after_every_served_request(
    script: list[tuple[dict[TopicPartition, int], str]],
) -> None:
    session, broker = FetchSession(), BrokerSession()
    for offsets, fate in script:
        wanted = {key: fetch_of(key, offset) for key, offset in offsets.items()}
        if fate == "session evicted":
            broker.session_id += 1
        request = session.request(wanted, by_id=True)
        if fate == "request lost":
            session.lose()
            continue
        answer = broker.serve(request)
        if fate == "response lost":
            session.lose()
        elif session.accept(answer) is not None:
            assert broker.kept == offsets
        else:
            assert fate == "session evicted"
