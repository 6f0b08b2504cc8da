"""The versions of every advertised API equal Kafka 4.4's, because clients infer a node's release from them."""

import pytest

from broker.handlers import CONTROLLER_HANDLERS, HANDLERS
from broker.server.handler_entry import HandlerEntry
from broker.wire.api import APIS
from tests.support import kafka_facts

PRODUCE = 0
INIT_PRODUCER_ID = 22
# Kafka 4.4 lists these versions, those of two-phase commit (KIP-939), only with unstable.api.versions.enable.
UNSTABLE_MAX = {INIT_PRODUCER_ID: 6}


@pytest.mark.parametrize(("listener", "handlers"), [("broker", HANDLERS), ("controller", CONTROLLER_HANDLERS)])
def test_advertised_versions_are_those_of_kafka_4_4(listener: str, handlers: tuple[HandlerEntry, ...]) -> None:
    facts = kafka_facts.apis(listener)
    advertised = {
        handler.api_key: (
            handler.min_version if handler.advertised_from is None else handler.advertised_from,
            handler.max_version,
        )
        for handler in handlers
    }
    assert advertised == {key: (facts[key].min_version, facts[key].max_version) for key in advertised}


def test_messages_have_the_versions_and_names_of_kafka_4_4() -> None:
    facts = kafka_facts.apis("broker") | kafka_facts.apis("controller")
    for api in APIS.values():
        fact = facts[api.key]
        # Versions 0 to 2 of Produce are listed, but have no messages (KAFKA-18659).
        lowest = 3 if api.key == PRODUCE else fact.min_version
        assert (api.name, api.min_version, api.max_version) == (
            fact.name,
            lowest,
            UNSTABLE_MAX.get(api.key, fact.max_version),
        )
        if fact.flexible_from is not None:
            assert max(api.flexible_from, api.min_version) == fact.flexible_from, api.name
        else:
            assert api.flexible_from > api.max_version, api.name
