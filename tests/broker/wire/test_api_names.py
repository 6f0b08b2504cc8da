"""The names of Kafka's APIs, compared with Kafka's own and with the messages here."""

from broker.wire.api import APIS
from broker.wire.api.names import api_name
from tests.support import kafka_facts

GONE = {4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata", 7: "ControlledShutdown"}


def test_every_api_has_the_name_that_kafka_gives_it() -> None:
    names = {int(row["key"]): row["name"] for row in kafka_facts.read("apis")} | GONE
    assert [api_name(key) for key in sorted(names)] == [f"{names[key]} (API {key})" for key in sorted(names)]
    assert sorted(names) == list(range(len(names)))
    assert all(api_name(api.key).startswith(f"{api.name} ") for api in APIS.values())


def test_a_key_that_kafka_does_not_have_is_said_to_be_one() -> None:
    newest = max(int(row["key"]) for row in kafka_facts.read("apis"))
    assert api_name(newest + 1).endswith("which Kafka does not have,")
    assert api_name(-1) == "API -1, which Kafka does not have,"
