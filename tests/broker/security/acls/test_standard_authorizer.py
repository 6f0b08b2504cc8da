"""StandardAuthorizer decides as Kafka's does, however entries were added and removed."""

from collections.abc import Iterable
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.acls import StandardAuthorizer
from broker.security.acls import standard_authorizer as module
from broker.server.session import Session
from broker.server.shortcut_tables import ShortcutTables
from metadata.image import AccessControlEntry, MetadataDelta, MetadataImage, acl_record
from metadata.protocol import AclOperation, AclPermission, ErrorCode, KafkaError, PatternType, ResourceType
from metadata.records import MetadataRecord, RemoveAccessControlEntryRecord

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def entry(
    name: str = "orders",
    operation: AclOperation = READ,
    permission: AclPermission = ALLOW,
    *,
    pattern: PatternType = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    kind: ResourceType = TOPIC,
) -> AccessControlEntry:
    return AccessControlEntry(kind, name, pattern, principal, host, operation, permission)


def session(principal: str = "User:alice", host: str = "10.0.0.1") -> Session:
    return Session.authenticated(principal, host, "PLAINTEXT", ShortcutTables())


class Authorized:
    """An authorizer that follows an image, to which a test adds entries and from which it removes some."""

    def __init__(self, *entries: AccessControlEntry, super_users: Iterable[str] = (), default: bool = False) -> None:
        self.image = MetadataImage()
        self.authorizer = StandardAuthorizer(list(super_users), allows_without_acls=default)
        self.changes = 0
        self.authorizer.when_changed(self._count)
        self._number = 0
        self.add(*entries)

    def _count(self) -> None:
        self.changes += 1

    def add(self, *entries: AccessControlEntry) -> None:
        records = []
        for each in dict.fromkeys(entries):
            if each not in self.image.acls.ids:
                self._number += 1
                records.append(acl_record(self._number.to_bytes(16, "big"), each))
        self.replay(records)

    def remove(self, *entries: AccessControlEntry) -> None:
        self.replay([RemoveAccessControlEntryRecord(id=self.image.acls.ids[each]) for each in entries])

    def replay(self, records: Iterable[MetadataRecord]) -> None:
        delta = MetadataDelta(self.image)
        delta.replay(records)
        self.image = delta.apply(self.image.offset + 1)
        self.authorizer.publish(delta, self.image)

    def allows(
        self,
        name: str = "orders",
        operation: AclOperation = READ,
        *,
        client: Session | None = None,
        kind: ResourceType = TOPIC,
    ) -> bool:
        return self.authorizer.allows(client or session(), operation, kind, name)


def test_without_entries_nothing_is_allowed_except_to_super_users() -> None:
    authorized = Authorized(super_users=["User:admin"])
    assert not authorized.allows()
    assert authorized.allows(client=session("User:admin"))
    authorized.add(entry(permission=DENY, principal="User:admin"))
    assert authorized.allows(client=session("User:admin"))


def test_allow_everyone_if_no_acl_is_found_ends_with_the_first_entry_of_anyone() -> None:
    authorized = Authorized(default=True)
    assert authorized.allows()
    authorized.add(entry(principal="User:bob", operation=WRITE))
    assert not authorized.allows()
    assert authorized.allows("others")
    authorized.add(entry("o", pattern=PREFIXED, principal="User:bob"))
    assert not authorized.allows("others")
    authorized.remove(entry("o", pattern=PREFIXED, principal="User:bob"))
    assert authorized.allows("others")
    authorized.add(entry("*", principal="User:bob"))
    assert not authorized.allows("others")


def test_entry_that_is_replayed_twice_is_gone_once_it_is_removed() -> None:
    added = entry(principal="User:bob")
    authorized = Authorized(added, default=True)
    authorized.replay([acl_record(authorized.image.acls.ids[added], added)])
    assert not authorized.allows()
    authorized.remove(added)
    assert authorized.allows()


@pytest.mark.parametrize("operation", [READ, WRITE, AclOperation.DELETE, AclOperation.ALTER, AclOperation.ALL])
def test_describe_is_implied_where_it_is_allowed_and_not_where_it_is_denied(operation: AclOperation) -> None:
    assert Authorized(entry(operation=operation)).allows(operation=DESCRIBE)
    denied = Authorized(entry(operation=DESCRIBE), entry(operation=operation, permission=DENY))
    assert denied.allows(operation=DESCRIBE) == (operation is not AclOperation.ALL)


def test_describe_configs_is_implied_by_alter_configs_alone() -> None:
    assert Authorized(entry(operation=AclOperation.ALTER_CONFIGS)).allows(operation=AclOperation.DESCRIBE_CONFIGS)
    assert not Authorized(entry(operation=AclOperation.ALTER)).allows(operation=AclOperation.DESCRIBE_CONFIGS)
    assert not Authorized(entry(operation=AclOperation.DESCRIBE_CONFIGS)).allows(operation=DESCRIBE)


@pytest.mark.parametrize(
    ("wanted", "host", "is_allowed"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.0/24", "10.0.0.2", True),
        ("10.0.0.7/24", "10.0.1.2", False),
        ("10.0.0.0/24", "::ffff:10.0.0.2", True),
        ("10.0.0.2", "::ffff:10.0.0.2", True),
        ("fe80::1%eth0", "fe80::1%eth0", True),
        ("10.0.0.1", "a.name", False),
        ("2001:db8::/32", "2001:db8::1", True),
        ("2001:db8::/32", "10.0.0.2", False),
        ("0:0:0:0:0:0:0:1", "::1", True),
        ("::2", "::1", False),
        ("a.name", "10.0.0.1", False),
        ("not/a/network", "10.0.0.1", False),
    ],
)
def test_kip_1276_hosts_are_addresses_and_ranges(wanted: str, host: str, is_allowed: bool) -> None:
    assert Authorized(entry(host=wanted)).allows(client=session(host=host)) == is_allowed


def test_decisions_change_with_the_entries_and_listeners_are_told() -> None:
    authorized = Authorized(entry("*", principal="User:*"))
    assert (authorized.allows(), authorized.changes) == (True, 1)
    authorized.add(entry("ord", permission=DENY, pattern=PREFIXED))
    assert (authorized.allows(), authorized.changes) == (False, 2)
    authorized.add()
    assert authorized.changes == 2, "the entries are the same"
    authorized.remove(entry("ord", permission=DENY, pattern=PREFIXED))
    assert (authorized.allows(), authorized.changes) == (True, 3)


def test_only_super_users_are_served_before_the_entries_are_loaded() -> None:
    authorizer = StandardAuthorizer(["User:admin"])
    assert authorizer.allows(session("User:admin"), READ, TOPIC, "orders")
    with pytest.raises(KafkaError) as refused:
        authorizer.allows(session(), READ, TOPIC, "orders")
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


def test_kept_decisions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DECISIONS_MAX", 3)
    authorized = Authorized(entry("*"))
    for number in range(10):
        assert authorized.allows(f"topic-{number}")
    assert len(authorized.authorizer._decisions) <= 3
    assert authorized.allows("long" * 1000)
    assert not any(len(question[-1]) > 256 for question in authorized.authorizer._decisions)


@pytest.mark.parametrize(
    ("entries", "is_allowed"),
    [
        ([], False),
        ([entry("orders", WRITE)], True),
        ([entry("orders", AclOperation.ALL)], True),
        ([entry("orders", READ)], False),
        ([entry("orders", WRITE, host="10.0.0.2")], False),
        ([entry("orders", WRITE, kind=GROUP)], False),
        ([entry("o", WRITE, pattern=PREFIXED)], True),
        ([entry("*", WRITE, principal="User:*")], True),
        ([entry("orders", WRITE), entry("orders", WRITE, DENY)], False),
        ([entry("orders", WRITE), entry("ord", WRITE, DENY, pattern=PREFIXED)], False),
        ([entry("orders", WRITE), entry("orders", WRITE, DENY, pattern=PREFIXED)], False),
        ([entry("ord", WRITE, pattern=PREFIXED), entry("orders", WRITE, DENY, pattern=PREFIXED)], True),
        ([entry("ord", WRITE, pattern=PREFIXED), entry("ord", WRITE, DENY)], True),
        ([entry("orders", WRITE), entry("*", AclOperation.ALL, DENY, principal="User:*")], False),
        ([entry("*", WRITE), entry("orders", WRITE, DENY)], True),
        ([entry("*", WRITE), entry("ord", WRITE, DENY, pattern=PREFIXED)], True),
    ],
)
def test_kip_679_any_resource_of_a_type(entries: list[AccessControlEntry], is_allowed: bool) -> None:
    assert Authorized(*entries).authorizer.allows_any(session(), WRITE, TOPIC) == is_allowed


NAMES = st.sampled_from(["*", "a", "ab", "abc", "b"])
ENTRIES = st.builds(
    AccessControlEntry,
    resource_type=st.sampled_from([TOPIC, GROUP]),
    resource_name=NAMES,
    pattern_type=st.sampled_from([LITERAL, PREFIXED]),
    principal=st.sampled_from(["User:alice", "User:bob", "User:*"]),
    host=st.sampled_from(["*", "10.0.0.1", "10.0.0.0/30"]),
    operation=st.sampled_from([READ, WRITE, DESCRIBE, AclOperation.ALL]),
    permission=st.sampled_from([ALLOW, DENY]),
)


def decided_by_all(
    entries: Iterable[AccessControlEntry], client: Session, operation: AclOperation, name: str, *, default: bool
) -> bool:
    """The decision about a topic by a look at each entry."""
    on_resource = [
        each
        for each in entries
        if each.resource_type is TOPIC
        and (each.resource_name in (name, "*") if each.pattern_type is LITERAL else name.startswith(each.resource_name))
    ]
    if not on_resource:
        return default
    implied = (READ, WRITE, AclOperation.ALL, DESCRIBE) if operation is DESCRIBE else (operation, AclOperation.ALL)
    permissions = {
        each.permission
        for each in on_resource
        if each.principal in (client.principal, "User:*")
        and (each.host in ("*", client.client_host) or _in_range(client.client_host, each.host))
        and each.operation in (implied if each.permission is ALLOW else (operation, AclOperation.ALL))
    }
    return permissions == {ALLOW}


def _in_range(host: str, wanted: str) -> bool:
    return "/" in wanted and ip_address(host) in ip_network(wanted)


@given(st.lists(ENTRIES, unique=True, max_size=12), st.data(), st.booleans())
def test_decisions_are_those_of_a_look_at_each_entry(
    entries: list[AccessControlEntry], data: st.DataObject, default: bool
) -> None:
    authorized = Authorized(default=default)
    removed = data.draw(st.lists(st.sampled_from(entries), unique=True)) if entries else []
    half = len(entries) // 2
    authorized.add(*entries[:half])
    authorized.add(*entries[half:])
    authorized.remove(*removed)
    left = [each for each in entries if each not in removed]
    for host in ("10.0.0.1", "10.0.0.2", "10.0.0.9"):
        client = session(host=host)
        for name in ("a", "abc", "b", "c", "*"):
            for operation in (READ, DESCRIBE, AclOperation.CREATE):
                for _ in range(2):  # the second one is a kept decision
                    assert authorized.allows(name, operation, client=client) == decided_by_all(
                        left, client, operation, name, default=default
                    )
