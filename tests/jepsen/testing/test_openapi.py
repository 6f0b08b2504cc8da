"""`docs/testing-api.json` describes the control port: the table by which it dispatches, and a real server's answers."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from jepsen.testing import Cluster
from jepsen.testing.control_routes import ROUTES
from jepsen.testing.faults.fault import FAULT_WORD_NAMES
from jepsen.testing.faults.fault_words import FAULT_WORDS
from jepsen.testing.openapi import body_name, description, text
from jepsen.testing.route import Route, Variant
from jepsen.testing.server_lease import ServerLease
from tests.support.source_code import ROOT

DESCRIPTION = description(ROUTES)
WITH_BODY = [route for route in ROUTES if route.has_body]
# No word takes this value.
WRONG = {"wrong": ["value"]}
WITHIN_S = 60.0


def validator(name: str) -> Draft202012Validator:
    """Validates values of a named schema of the description."""
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": DESCRIPTION["components"]})


def documented(route: Route, status: int) -> Mapping[str, Any]:
    """The documented response with this status."""
    responses: dict[str, Mapping[str, Any]] = DESCRIPTION["paths"][route.path][route.method.lower()]["responses"]
    assert str(status) in responses, f"{route.operation} does not document the status {status}"
    return responses[str(status)]


class Caller:
    """Sends requests to a server, and checks that each answer is documented."""

    def __init__(self, server: ServerLease, cluster: str) -> None:
        self.server = server
        self.names = {"cluster": cluster, "topic": "orders"}
        self.called: set[str] = set()

    def __call__(self, operation: str, body: object = None) -> Any:
        """The answer, which has to be one of success."""
        [route] = [each for each in ROUTES if each.operation == operation]
        status, answer = self.send(route, body)
        assert status == 200, (operation, body, answer)
        self.called.add(operation)
        return answer

    def send(self, route: Route, body: object = None) -> tuple[int, Any]:
        with self.response(route, body) as response:
            answer = json.loads(response.readline() if route.operation == "takeLease" else response.read())
        schema = documented(route, response.status)["content"]["application/json"]["schema"]["$ref"]
        validator(schema.rpartition("/")[2]).validate(answer)
        return response.status, answer

    @contextmanager
    def response(self, route: Route, body: object) -> Iterator[HTTPResponse]:
        connection = HTTPConnection(self.server.client.address, timeout=WITHIN_S)
        try:
            connection.request(
                route.method, route.path.format(**self.names), None if body is None else json.dumps(body)
            )
            yield connection.getresponse()
        finally:
            connection.close()


@contextmanager
def clients(cluster: Cluster) -> Iterator[None]:
    """Members of the groups "readers", which reads on, and "payers", which has left; an open transaction "payments"."""
    shop = {**cluster.config(), "client.id": "shop"}
    ended = threading.Event()
    payer = Consumer({**shop, "group.id": "payers"})
    payer.commit(offsets=[TopicPartition("payments", 0, 1)], asynchronous=False)
    payer.close()
    producer = Producer({**shop, "transactional.id": "payments"})
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    producer.produce("payments", b"one")
    producer.flush(WITHIN_S)

    def read() -> None:
        reader = Consumer(
            {**shop, "group.id": "readers", "auto.offset.reset": "earliest", "heartbeat.interval.ms": 100}
        )
        reader.subscribe(["orders"])
        while not ended.is_set():
            message = reader.poll(0.05)
            if message is not None and message.error() is None:
                reader.commit(message)
        reader.close()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(WITHIN_S)


def test_file_is_up_to_date() -> None:
    written = (ROOT / "docs/testing-api.json").read_text()
    assert written == text(ROUTES), "run: python -m tests.support.reference_pages"
    assert json.loads(written) == DESCRIPTION


def test_file_is_valid_openapi() -> None:
    validate(DESCRIPTION)


def test_every_word_of_a_fault_is_described() -> None:
    assert FAULT_WORDS.keys() == set(FAULT_WORD_NAMES)


@pytest.mark.parametrize("route", WITH_BODY, ids=lambda route: route.operation)
def test_examples_have_all_words_and_match_their_schema(route: Route) -> None:
    assert {word for example in route.examples for word in example} == route.words.keys()
    for example in route.examples:
        validator(body_name(route)).validate(example)


def test_every_request_has_a_documented_answer(server: ServerLease) -> None:
    created = Cluster(3, server=server, config={"default.replication.factor": "3"})
    call = Caller(server, created.name)
    with created as cluster:
        cluster.produce("payments", ["one"])
        cluster.produce("orders", ["one"])
        with clients(cluster):
            cluster.wait_for(group_stable="readers")
            for route in ROUTES:
                if (
                    "fault" in route.names
                    or "chaos" in route.names
                    or route.operation in ("createCluster", "endCluster")
                ):
                    continue
                cluster.produce("orders", ["one"])
                cluster.produce("payments", ["one"])
                for example in route.examples or [None]:
                    call(route.operation, example)
                    if route.operation != "act":
                        call("endAllFaults")
            call_named(call, cluster)
    call_clusters(call)
    assert call.called == {route.operation for route in ROUTES}


def call_named(call: Caller, cluster: Cluster) -> None:
    """Requests about a fault, and about a run of chaos."""
    call.names["fault"] = call("beginFault", {"api": "Produce", "client_id": "shop", "topic": "orders", "delay_ms": 1})[
        "id"
    ]
    producer = Producer({**cluster.config(), "client.id": "shop"})
    producer.produce("orders", b"one")
    assert producer.flush(WITHIN_S) == 0
    for body in ({"wait": "fired", "count": 1, "timeout": 30}, {"release": True}):
        call("steerFault", body)
    assert [firing["client_id"] for firing in call("describeFault")["firings"]] == ["shop"]
    assert [
        request["fault"]
        for request in call("listRequests", {"api": "Produce", "client_id": "shop", "topic": "orders"})["requests"]
    ]
    assert call("endFault")["ended"]
    call.names["chaos"] = call("beginChaos", {"seconds": 2, "faults": ["clock"]})["id"]
    call("describeChaos")
    assert call("waitForChaos", {"wait": True, "timeout": 30})["ended"]
    call("endChaos")


def call_clusters(call: Caller) -> None:
    [route] = [each for each in ROUTES if each.operation == "createCluster"]
    for example in route.examples:
        lease = {"lease": call.server.lease.name} if "lease" in example else {}
        call.names["cluster"] = call("createCluster", {**example, **lease})["name"]
        call("endCluster")


@pytest.fixture(scope="module")
def refusing(server: ServerLease) -> Iterator[Caller]:
    """Requests to a cluster with a topic, a fault and a run of chaos."""
    with Cluster(3, server=server) as cluster:
        cluster.produce("orders", ["one"])
        caller = Caller(server, cluster.name)
        caller.names["fault"] = caller("beginFault", {"api": "Produce", "client_id": "shop", "hold": True})["id"]
        caller.names["chaos"] = caller("beginChaos", {"seconds": 2, "faults": ["clock"]})["id"]
        yield caller


@pytest.mark.parametrize("route", WITH_BODY, ids=lambda route: route.operation)
def test_wrong_words_have_the_documented_error(refusing: Caller, route: Route) -> None:
    wrong: list[dict[str, Any]] = [{**route.examples[0], "misspelt": 1}]
    for word, declared in route.words.items():
        [example, *_] = [each for each in route.examples if word in each]
        wrong.append({**example, word: WRONG})
        if "enum" in declared.schema:
            wrong.append({**example, word: "misspelt"})
    for example in route.examples:
        variant = route.variants.get(example.get(route.chooser, ""), Variant(route.words, route.one_of))
        for choice in (
            *[[name] for name, word in variant.words.items() if word.required],
            variant.one_of,
            route.any_of,
        ):
            if choice:
                wrong.append({name: value for name, value in example.items() if name not in choice})
    for body in wrong:
        assert not validator(body_name(route)).is_valid(body), body
        status, answer = refusing.send(route, body)
        assert status == 400, (body, answer)


@pytest.mark.parametrize("route", [route for route in ROUTES if route.names], ids=lambda route: route.operation)
def test_names_that_do_not_exist_have_the_documented_error(refusing: Caller, route: Route) -> None:
    for name in route.names:
        unknown = Caller(refusing.server, refusing.names["cluster"])
        unknown.names = {**refusing.names, name: "unknown"}
        body = route.examples[0] if route.examples else None
        if (name, route.operation) != ("topic", "writeRecords"):  # which creates it
            assert unknown.send(route, body)[0] == 404
