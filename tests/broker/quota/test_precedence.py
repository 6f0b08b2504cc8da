"""A client's quota is that of the most specific entity: the eight levels in chapter 4.9 of Kafka's design."""

import pytest

from broker.quota import QuotaTable
from broker.quota.precedence import AppliedQuota, QuotaShare, change_tables
from metadata.records import QuotaEntity, quota_entity

USER, CLIENT = "alice", "app"


def entity(**names: str | None) -> QuotaEntity:
    return quota_entity((entity_type.replace("_", "-"), name) for entity_type, name in names.items())


# The levels, most specific first, with the clients that share a quota of the level.
LEVELS: tuple[tuple[QuotaEntity, QuotaShare], ...] = (
    (entity(user=USER, client_id=CLIENT), QuotaShare(USER, CLIENT)),
    (entity(user=USER, client_id=None), QuotaShare(USER, CLIENT)),
    (entity(user=USER), QuotaShare(USER, None)),
    (entity(user=None, client_id=CLIENT), QuotaShare(USER, CLIENT)),
    (entity(user=None, client_id=None), QuotaShare(USER, CLIENT)),
    (entity(user=None), QuotaShare(USER, None)),
    (entity(client_id=CLIENT), QuotaShare(None, CLIENT)),
    (entity(client_id=None), QuotaShare(None, CLIENT)),
)
OTHERS = (
    entity(user="bob", client_id=CLIENT),
    entity(user=USER, client_id="other"),
    entity(user="bob"),
    entity(client_id="other"),
    entity(user=None, client_id="other"),
    entity(user="bob", client_id=None),
)


def table(*entities: QuotaEntity) -> QuotaTable:
    """Quotas whose limits are the numbers of the levels, from 1."""
    quotas = QuotaTable()
    for number, each in enumerate([level for level, _ in LEVELS], start=1):
        if each in entities:
            quotas.change(each, float(number))
    return quotas


def sets_of_levels() -> list[list[int]]:
    return [[number for number in range(8) if chosen >> number & 1] for chosen in range(256)]


def test_most_specific_of_any_set_of_levels_applies() -> None:
    for present in sets_of_levels():
        applied = table(*(LEVELS[number][0] for number in present)).applied(USER, CLIENT)
        first = min(present, default=None)
        assert applied == (None if first is None else AppliedQuota(first + 1.0, LEVELS[first][1])), present


@pytest.mark.parametrize("other", OTHERS)
def test_quota_of_another_entity_does_not_apply(other: QuotaEntity) -> None:
    quotas = table(LEVELS[-1][0])
    quotas.change(other, 99.0)
    assert quotas.applied(USER, CLIENT) == AppliedQuota(8.0, QuotaShare(None, CLIENT))


def test_default_entity_gives_each_client_a_quota_of_its_own() -> None:
    quotas = table(entity(user=None), entity(client_id=None))
    assert quotas.applied("bob", "x") == AppliedQuota(6.0, QuotaShare("bob", None))
    assert quotas.applied("eve", "x") == AppliedQuota(6.0, QuotaShare("eve", None))


def test_removed_quota_leaves_the_next_level() -> None:
    quotas = table(*(each for each, _ in LEVELS))
    for number, (each, share) in enumerate(LEVELS, start=1):
        assert quotas.applied(USER, CLIENT) == AppliedQuota(number, share)
        change_tables({"k": quotas}, {each: {"k": None, "other key": 7.0}})
    assert quotas.applied(USER, CLIENT) is None
    assert not quotas


def test_client_without_client_id_has_only_the_quotas_of_users() -> None:
    """As in Kafka, where the default client id stands for client ids that are not empty."""
    for present in sets_of_levels():
        applied = table(*(LEVELS[number][0] for number in present)).applied(USER, "")
        first = next((number for number in present if number in (2, 5)), None)
        assert applied == (None if first is None else AppliedQuota(first + 1.0, QuotaShare(USER, None))), present
