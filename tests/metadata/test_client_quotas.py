"""AlterClientQuotas: validation as in Kafka's ClientQuotaControlManager, and the records that change the image."""

from math import inf, nan

import pytest

from metadata.controller import SUPPORTED_FEATURES, QuotaAlteration
from metadata.controller.quotas import alter_client_quotas
from metadata.protocol import KafkaError
from metadata.records import ClientQuotaRecord, QuotaEntity
from tests.support.metadata import Cluster, refusal

USER: QuotaEntity = (("user", "alice"),)
IP: QuotaEntity = (("ip", "127.0.0.1"),)


def alter(cluster: Cluster, entity: QuotaEntity, *ops: tuple[str, float | None]) -> str | None:
    """The message of the refusal, or None."""
    (outcome,) = cluster.decide(alter_client_quotas(cluster.image, [QuotaAlteration(entity, ops)]))
    assert outcome.entity == entity
    told = refusal(outcome.error)
    assert told is None or told[0] == "INVALID_REQUEST"
    return None if told is None else told[1]


def test_quotas_are_set_changed_and_removed_one_by_one() -> None:
    cluster = Cluster()
    assert alter(cluster, USER, ("producer_byte_rate", 1000.0), ("request_percentage", 12.5)) is None
    assert cluster.image.client_quotas.of(USER) == {"producer_byte_rate": 1000.0, "request_percentage": 12.5}
    assert alter(cluster, USER, ("producer_byte_rate", 2000.0)) is None
    assert alter(cluster, USER, ("request_percentage", None)) is None
    assert cluster.image.client_quotas.of(USER) == {"producer_byte_rate": 2000.0}
    assert alter(cluster, USER, ("producer_byte_rate", None)) is None
    assert USER not in cluster.image.client_quotas.entities


def test_only_changes_are_recorded() -> None:
    cluster = Cluster()
    alter(cluster, USER, ("producer_byte_rate", 1000.0))
    ops = [("producer_byte_rate", 1000.0), ("consumer_byte_rate", None), ("controller_mutation_rate", 0.5)]
    decision = alter_client_quotas(cluster.image, [QuotaAlteration(USER, ops)])
    assert decision.records == [ClientQuotaRecord(entity=USER, key="controller_mutation_rate", value=0.5)]


@pytest.mark.parametrize(
    "entity",
    [
        (("user", None),),
        (("client-id", None),),
        (("client-id", "app"), ("user", "alice")),
        (("client-id", None), ("user", "alice")),
        (("client-id", "app"), ("user", None)),
        (("client-id", None), ("user", None)),
    ],
)
def test_users_and_client_ids_have_quotas_together_and_by_default(entity: QuotaEntity) -> None:
    cluster = Cluster()
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
    assert alter(cluster, entity, *[(key, 3.0) for key in keys]) is None
    assert set(cluster.image.client_quotas.of(entity)) == set(keys)


@pytest.mark.parametrize("name", ["127.0.0.1", "::1", None])
def test_addresses_have_connection_rates(name: str | None) -> None:
    cluster = Cluster()
    assert alter(cluster, (("ip", name),), ("connection_creation_rate", 10.0)) is None


@pytest.mark.parametrize(
    ("entity", "op", "message"),
    [
        ((), ("producer_byte_rate", 1), "Invalid empty client quota entity"),
        ((("dog", "rex"),), ("producer_byte_rate", 1), "Unhandled client quota entity type: dog"),
        ((("user", ""),), ("producer_byte_rate", 1), "Empty user not supported"),
        (
            (("user", "a"), ("user", "b")),
            ("producer_byte_rate", 1),
            "Invalid client quota entity, duplicate entity entry user",
        ),
        (
            (("ip", "::1"), ("user", "a")),
            ("producer_byte_rate", 1),
            "Invalid quota entity combination, IP entity should not be combined with User or ClientId",
        ),
        ((("ip", "localhost"),), ("connection_creation_rate", 1), "localhost is not a valid IP address."),
        (IP, ("producer_byte_rate", 1), "Invalid configuration key producer_byte_rate"),
        (USER, ("connection_creation_rate", 1), "Invalid configuration key connection_creation_rate"),
        (USER, ("producer_byte_rate", 0), "Quota producer_byte_rate must be greater than 0"),
        (USER, ("request_percentage", -1), "Quota request_percentage must be greater than 0"),
        (USER, ("request_percentage", nan), "Quota request_percentage must be greater than 0"),
        (USER, ("request_percentage", inf), "Quota request_percentage must be finite"),
        (USER, ("consumer_byte_rate", 1.5), "consumer_byte_rate cannot be a fractional value."),
        (USER, ("consumer_byte_rate", inf), "Proposed value for consumer_byte_rate is too large for a LONG."),
        (USER, ("consumer_byte_rate", 1e19), "Proposed value for consumer_byte_rate is too large for a LONG."),
        (
            IP,
            ("connection_creation_rate", 2**31),
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ],
)
def test_invalid_quotas_are_refused(entity: QuotaEntity, op: tuple[str, float], message: str) -> None:
    cluster = Cluster()
    assert alter(cluster, entity, ("controller_mutation_rate", None), op) == message
    assert not list(cluster.image.client_quotas.entities)


def test_key_that_is_named_twice_is_refused() -> None:
    cluster = Cluster()
    message = alter(cluster, USER, ("producer_byte_rate", 1), ("producer_byte_rate", 2))
    assert message == "Each quota key must appear at most once for an entity."


def test_entities_succeed_independently_and_repeated_ones_fail() -> None:
    cluster = Cluster()
    twice, once, wrong = USER, (("user", "bob"),), (("user", ""),)
    alterations = [QuotaAlteration(entity, [("producer_byte_rate", 1)]) for entity in (twice, once, wrong, twice)]
    outcomes = cluster.decide(alter_client_quotas(cluster.image, alterations))
    assert {outcome.entity: outcome.error is None for outcome in outcomes} == {twice: False, once: True, wrong: False}
    assert len(outcomes) == 3, "a response has each entity once"
    assert list(cluster.image.client_quotas.entities) == [once]


def test_quotas_are_refused_while_a_registered_broker_does_not_know_their_record() -> None:
    """It would end when it reads the record. Brokers that are stopped have to be upgraded too: they may return."""
    cluster = Cluster()
    cluster.register(2, features=SUPPORTED_FEATURES)
    with pytest.raises(
        KafkaError, match="UNSUPPORTED_VERSION: Broker 2 is of a release that does not know client quotas"
    ):
        alter(cluster, USER, ("producer_byte_rate", 1.0))
    cluster.register(2)
    assert alter(cluster, USER, ("producer_byte_rate", 1.0)) is None
