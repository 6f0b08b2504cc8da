"""The words of a fault, and on which requests it fires."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.api import APIS
from broker.wire.errors import ErrorCode
from jepsen.testing.faults import FaultRefused, fault_of
from jepsen.testing.faults.fault import Occurrence, OccurrenceCounter, RequestFacts, Selection
from jepsen.testing.faults.shapes import WHOLE_RESPONSE_ERRORS, Subject, api_named


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"api": "Prodce", "hold": True}, "no API is named 'Prodce'; the nearest name is Produce"),
        ({"api": [], "hold": True}, "api is the name of an API"),
        ({"api": "Produce", "error": "NOT_LEADER"}, "the nearest name is NOT_LEADER_OR_FOLLOWER"),
        ({"api": "Produce", "error": "NotEnoughReplicasException"}, "the nearest name is NOT_ENOUGH_REPLICAS"),
        ({"api": "Produce", "error": "NONE"}, "the code of success"),
        ({"api": "Produce", "error": 7}, "error is a name: 'REQUEST_TIMED_OUT' for 7"),
        ({"api": "Produce", "error": 7000}, "no error 7000"),
        ({"error": "NOT_COORDINATOR"}, "error needs the word api"),
        ({"api": "CreateAcls", "error": "INVALID_REQUEST"}, "one error per entry"),
        ({"api": "Produce", "error": "FETCH_SESSION_ID_NOT_FOUND"}, "no error code for the whole response"),
        ({"api": "Produce", "times": -1, "hold": True}, "times is an integer of at least 1"),
        ({"api": "Produce", "times": True, "hold": True}, "times is an integer"),
        ({"api": "Produce", "probability": 2, "hold": True}, "probability is between 0 and 1"),
        ({"api": "Produce", "delay_ms": -5}, "delay_ms is a number of milliseconds"),
        ({"api": "Produce", "partition": 0, "hold": True}, "a partition needs its topic"),
        ({"api": "Heartbeat", "topic": "t", "hold": True}, "no request of Heartbeat names a topic"),
        ({"api": "DeleteTopics", "topic": "t", "partition": 0, "hold": True}, "DeleteTopics names a partition"),
        ({"api": "Fetch", "group": "g", "hold": True}, "no request of Fetch names a group"),
        ({"api": "DescribeQuorum", "throttle_ms": 5}, "no throttle time"),
        ({"api": "Produce", "stale": True}, "stale needs api='Metadata'"),
        ({"api": ["Fetch", "Produce"], "data": "torn"}, "data needs api='Fetch'"),
        ({"api": "Fetch", "data": "flipped"}, "data is 'empty' or 'torn'"),
        ({"api": "Fetch", "drop": True}, "drop is 'hang' or 'close'"),
        ({"api": "Fetch"}, "chosen: none"),
        ({"api": "Fetch", "hold": True, "delay_ms": 1}, "chosen: delay_ms, hold"),
        ({"api": "Fetch", "hold": True, "topics": "t"}, "no fault has the word 'topics'; the nearest name is topic"),
        ({"api": "Fetch", "hold": True, "topic": ""}, "topic is a name"),
    ],
)  # fmt: skip
def test_words_that_mean_nothing_are_refused(words: dict[str, Any], reason: str) -> None:
    with pytest.raises(FaultRefused) as refused:
        fault_of(words)
    assert reason in str(refused.value)


def facts(api: str = "Produce", client_id: str = "shop-1", node: int = 1, *about: Subject) -> RequestFacts:
    named = api_named(api)
    assert named is not None
    return RequestFacts(named, named.max_version, client_id, "127.0.0.1", node, about or (Subject(),))


@pytest.mark.parametrize(
    ("selection", "matches"),
    [
        (Selection(), True),
        (Selection(apis=frozenset({"Produce"})), True),
        (Selection(apis=frozenset({"Fetch"})), False),
        (Selection(topic="orders"), True),
        (Selection(topic="orders", partition=1), True),
        (Selection(topic="orders", partition=2), False),
        (Selection(topic="other", partition=1), False),
        (Selection(transactional_id="t"), True),
        (Selection(transactional_id="u"), False),
        (Selection(group="g"), False),
        (Selection(client_id="shop-1"), True),
        (Selection(client_id="shop"), False),
        (Selection(client_id="shop*"), True),
        (Selection(node=1), True),
        (Selection(node=2), False),
    ],
)
def test_selection_matches_by_every_word_it_has(selection: Selection, matches: bool) -> None:
    about = [Subject("orders", partition, transactional_id="t") for partition in (0, 1)]
    assert selection.matches(facts("Produce", "shop-1", 1, *about)) is matches


def test_request_about_all_partitions_matches_each_of_them() -> None:
    assert Selection(topic="orders", partition=5).matches(facts("Metadata", "a", 1, Subject("orders")))


def test_requests_of_the_cluster_itself_match_only_by_client_id() -> None:
    assert not Selection().matches(facts("CreateTopics", "kraft-test-server", 1, Subject("orders")))
    fetch = facts("Fetch", "broker-2-fetcher", 1, Subject("orders", 0))
    assert not Selection(topic="orders").matches(fetch)
    assert Selection(topic="orders", client_id="broker-2*").matches(fetch)


@given(
    st.builds(
        Occurrence,
        nth=st.none() | st.integers(1, 8),
        every=st.none() | st.integers(1, 5),
        times=st.none() | st.integers(1, 6),
    ),
    st.integers(1, 40),
)
def test_occurrence_fires_on_the_requests_that_it_names(occurrence: Occurrence, count: int) -> None:
    counter = OccurrenceCounter(occurrence)
    fired = [number for number in range(1, count + 1) if counter.fires()]
    named = [
        number
        for number in range(1, count + 1)
        if occurrence.nth in (None, number) and number % (occurrence.every or 1) == 0
    ]
    assert fired == named[: occurrence.times]
    if counter.is_used_up:
        assert not any(counter.fires() for _ in range(50))


@given(st.integers(), st.floats(0, 1))
def test_probability_with_the_same_seed_fires_on_the_same_requests(seed: int, probability: float) -> None:
    first, second = (OccurrenceCounter(Occurrence(probability=probability, seed=seed)) for _ in range(2))
    fired = [first.fires() for _ in range(100)]
    assert [second.fires() for _ in range(100)] == fired
    assert all(fired) or probability < 1
    assert not any(fired) or probability > 0


def test_errors_are_refused_where_no_response_has_a_place_for_them() -> None:
    refused: dict[str, set[ErrorCode]] = {}
    for api in APIS.values():
        for code in ErrorCode:
            try:
                fault_of({"api": api.name, "error": code.name})
            except FaultRefused:
                refused.setdefault(api.name, set()).add(code)
    assert refused["Produce"] == {ErrorCode.NONE, *WHOLE_RESPONSE_ERRORS}
    assert refused["Fetch"] == {ErrorCode.NONE}
    without = {name for name, codes in refused.items() if codes == set(ErrorCode)}
    of_entries = {"AlterClientQuotas", "AlterReplicaLogDirs", "AlterUserScramCredentials"}
    assert without == {"CreateAcls", "DeleteAcls", *of_entries}
