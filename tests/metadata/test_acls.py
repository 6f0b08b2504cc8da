"""CreateAcls and DeleteAcls: validation as in Kafka's AclControlManager, filters, and the records that they lead to."""

from random import Random

import pytest

from metadata.controller import SUPPORTED_FEATURES, check_filter
from metadata.controller.acls import create_acls, delete_acls
from metadata.image import AccessControlEntry, AclEntryFilter, host_network
from metadata.protocol import AclOperation, AclPermission, KafkaError, PatternType, ResourceType
from metadata.records import RemoveAccessControlEntryRecord
from tests.support.metadata import Cluster, refusal

ENTRY = AccessControlEntry(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermission.ALLOW,
)


def create(cluster: Cluster, *entries: AccessControlEntry) -> list[str | None]:
    """The messages of the refusals."""
    outcomes = cluster.decide(create_acls(cluster.image, entries, cluster.rng))
    refusals = [refusal(outcome) for outcome in outcomes]
    assert {told[0] for told in refusals if told is not None} <= {"INVALID_REQUEST"}
    return [None if told is None else told[1] for told in refusals]


def test_entries_exist_once_and_are_deleted_by_their_ids() -> None:
    cluster = Cluster()
    denied = ENTRY._replace(permission=AclPermission.DENY)
    assert create(cluster, ENTRY, denied, ENTRY) == [None, None, None]
    ids = cluster.image.acls.ids
    assert dict(cluster.image.acls.by_id.items()) == {ids[ENTRY]: ENTRY, ids[denied]: denied}
    assert create_acls(cluster.image, [ENTRY], Random(2)).records == []

    decision = delete_acls(cluster.image, [ids[ENTRY], b"u" * 16])
    assert decision.records == [RemoveAccessControlEntryRecord(id=ids[ENTRY])]
    cluster.decide(decision)
    assert list(cluster.image.acls.by_id.values()) == [denied]
    assert ENTRY not in cluster.image.acls.ids
    assert create(cluster, ENTRY) == [None]
    assert len(cluster.image.acls.by_id) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"resource_type": ResourceType.ANY}, "Invalid resourceType ANY"),
        ({"resource_type": ResourceType.UNKNOWN}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": ResourceType.CLUSTER}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"pattern_type": PatternType.MATCH}, "Invalid patternType MATCH"),
        ({"pattern_type": PatternType.ANY}, "Invalid patternType ANY"),
        ({"operation": AclOperation.ANY}, "Invalid operation ANY"),
        ({"operation": AclOperation.UNKNOWN}, "Invalid operation UNKNOWN"),
        ({"permission": AclPermission.ANY}, "Invalid permissionType ANY"),
        (
            {"principal": "alice"},
            "Could not parse principal from `alice` (no colon is present separating the principal type from the "
            "principal name)",
        ),
        ({"host": ""}, "Host pattern cannot be null or empty"),
        ({"host": "10.0.0.0/33"}, "Invalid CIDR notation '10.0.0.0/33': '10.0.0.0/33' does not appear to be an IPv4 "),
        ({"host": "10.0.0.0/255.0.0.0"}, "Invalid CIDR notation '10.0.0.0/255.0.0.0': "),
        ({"host": "name/8"}, "Invalid CIDR notation 'name/8': "),
    ],
)
def test_entries_that_cannot_be_are_refused_while_others_are_created(changes: dict[str, object], message: str) -> None:
    cluster = Cluster()
    (told, other) = create(cluster, ENTRY._replace(**changes), ENTRY)
    assert told is not None
    assert told.startswith(message)
    assert other is None
    assert list(cluster.image.acls.by_id.values()) == [ENTRY]


@pytest.mark.parametrize("host", ["*", "127.0.0.1", "::1", "10.1.2.3/8", "2001:db8::/32", "a.name"])
def test_hosts_are_addresses_ranges_and_other_names(host: str) -> None:
    assert create(Cluster(), ENTRY._replace(host=host)) == [None]


def test_kip_1276_range_ignores_the_bits_after_its_prefix() -> None:
    assert str(host_network("10.1.2.3/8")) == "10.0.0.0/8"
    assert host_network("10.1.2.3") is None


def test_nodes_of_earlier_releases_have_to_be_upgraded_first() -> None:
    cluster = Cluster()
    cluster.join(1, features=SUPPORTED_FEATURES)
    with pytest.raises(KafkaError) as refused:
        create_acls(cluster.image, [ENTRY], cluster.rng)
    assert refusal(refused.value) == (
        "UNSUPPORTED_VERSION",
        "Broker 1 is of a release that does not know access control entries. Upgrade it first.",
    )


@pytest.mark.parametrize(
    ("changes", "name", "pattern_type", "is_matched"),
    [
        ({}, "orders", PatternType.LITERAL, True),
        ({}, "orders", PatternType.ANY, True),
        ({}, "orders", PatternType.MATCH, True),
        ({}, "order", PatternType.MATCH, False),
        ({}, None, PatternType.PREFIXED, False),
        ({}, None, PatternType.MATCH, True),
        ({"resource_name": "*"}, "orders", PatternType.MATCH, True),
        ({"resource_name": "*"}, "orders", PatternType.ANY, False),
        ({"resource_name": "*"}, "*", PatternType.LITERAL, True),
        ({"resource_name": "ord", "pattern_type": PatternType.PREFIXED}, "orders", PatternType.MATCH, True),
        ({"resource_name": "ord", "pattern_type": PatternType.PREFIXED}, "orders", PatternType.PREFIXED, False),
        ({"resource_name": "ord", "pattern_type": PatternType.PREFIXED}, "ord", PatternType.PREFIXED, True),
        ({"resource_name": "ord", "pattern_type": PatternType.PREFIXED}, "or", PatternType.MATCH, False),
    ],
)
def test_kip_290_filters_match_patterns(
    changes: dict[str, object], name: str | None, pattern_type: PatternType, is_matched: bool
) -> None:
    entry = ENTRY._replace(**changes)
    assert AclEntryFilter(resource_name=name, pattern_type=pattern_type).matches(entry) == is_matched


def test_filters_match_each_field() -> None:
    assert AclEntryFilter().matches(ENTRY)
    assert AclEntryFilter(*ENTRY[:3], *ENTRY[3:]).matches(ENTRY)
    others = ENTRY._replace(
        resource_type=ResourceType.GROUP,
        principal="User:bob",
        host="::1",
        operation=AclOperation.WRITE,
        permission=AclPermission.DENY,
    )
    for field in ("resource_type", "principal", "host", "operation", "permission"):
        wanted = AclEntryFilter()._replace(**{field: getattr(others, field)})
        assert not wanted.matches(ENTRY), field
        assert wanted.matches(others), field


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (AclEntryFilter(resource_type=ResourceType.UNKNOWN), "Unknown patternFilter."),
        (AclEntryFilter(pattern_type=PatternType.UNKNOWN), "Unknown patternFilter."),
        (AclEntryFilter(operation=AclOperation.UNKNOWN), "Unknown entryFilter."),
        (AclEntryFilter(permission=AclPermission.UNKNOWN), "Unknown entryFilter."),
    ],
)
def test_filters_with_unknown_elements_are_refused(wanted: AclEntryFilter, message: str) -> None:
    with pytest.raises(KafkaError) as refused:
        check_filter(wanted)
    assert refusal(refused.value) == ("INVALID_REQUEST", message)
