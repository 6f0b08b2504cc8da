"""ListGroups, DescribeGroups and DeleteGroups of classic groups; their members' commits and subscriptions."""

import pytest

from broker.coordinator.group.administration import delete_groups, describe_group, list_groups, lower_case
from broker.coordinator.group.classic.classic_group import GroupState
from broker.coordinator.group.mixed.classic_requests import new_member_id
from broker.coordinator.group.record_formats import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from broker.coordinator.runtime.decision import CoordinatorRecord
from broker.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    OwnedPartitions,
    decode_subscription,
    encode_assignment,
    subscribed_topics,
)
from broker.wire.errors import ErrorCode, KafkaError, WireError
from tests.support.classic_clients import GROUP, SESSION_MS, ClassicClients, code

# As clients encode them: the topics a and b, no user data; in later versions also the owned partitions and the rack.
SUBSCRIPTIONS = {
    0: "0000 00000002 000161 000162 ffffffff",
    1: "0001 00000002 000161 000162 ffffffff 00000001 000161 00000001 00000007",
    3: "0003 00000002 000161 000162 ffffffff 00000001 000161 00000001 00000007 00000005 000172",
    9: "0009 00000002 000161 000162 ffffffff 00000001 000161 00000001 00000007 00000005 000172 01020304",
}


@pytest.fixture
def clients() -> ClassicClients:
    return ClassicClients()


def offset_of(group_id: str) -> CoordinatorRecord:
    key = OffsetCommitKey(group=group_id, topic="topic", partition=0)
    return CoordinatorRecord(encode_key(key), encode_value(OffsetCommitValue(offset=7)))


def commit(clients: ClassicClients, member_id: str, generation: int, *, in_transaction: bool = False) -> ErrorCode:
    try:
        clients.group.validate_offset_commit(
            member_id, None, generation, api_version=9, is_transactional=in_transaction
        )
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


# Describing and listing


def test_describe_stable_group_has_metadata_and_assignments(clients: ClassicClients) -> None:
    leader, _ = clients.stable(2)
    described = describe_group(clients.state, GROUP)
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    member = described.members[0]
    assert (member.member_id, member.client_id, member.client_host) == (leader, "client", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (b"r", b"0")


def test_describe_rebalancing_group_has_the_last_assignments_and_no_metadata(clients: ClassicClients) -> None:
    leader, _ = clients.stable(2)
    clients.ask_to_join(leader)
    described = describe_group(clients.state, GROUP)
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert [(each.member_metadata, each.member_assignment) for each in described.members] == [(b"", b"0"), (b"", b"1")]


def test_describe_unknown_group_is_refused(clients: ClassicClients) -> None:
    with pytest.raises(KafkaError, match="Group nowhere not found"):
        describe_group(clients.state, "nowhere")


@pytest.mark.parametrize(
    ("protocol_type", "expected"),
    [("", ErrorCode.INCONSISTENT_GROUP_PROTOCOL), ("consumer", ErrorCode.UNKNOWN_MEMBER_ID)],
)
def test_join_of_an_unknown_member_to_a_simple_group_checks_its_protocols_first(
    clients: ClassicClients, protocol_type: str, expected: ErrorCode
) -> None:
    clients.append(offset_of("simple"))
    joining = clients.ask_to_join("unknown", group_id="simple", protocol_type=protocol_type)
    assert code(joining) == expected
    assert "simple" not in clients.state.groups


def test_simple_group_is_described_and_listed(clients: ClassicClients) -> None:
    clients.append(offset_of("simple"))
    described = describe_group(clients.state, "simple")
    assert (described.group_state, described.protocol_type, described.members) == ("Empty", "", [])
    (listed,) = list_groups(clients.state, [], [])
    assert (listed.group_id, listed.group_state, listed.group_type) == ("simple", "Empty", "classic")


def test_groups_are_listed_by_state_and_type(clients: ClassicClients) -> None:
    clients.stable(1)
    clients.append(offset_of("simple"), offset_of(GROUP))
    listed = {
        (states, types): [each.group_id for each in list_groups(clients.state, lower_case(states), lower_case(types))]
        for states, types in [((), ()), (("stable",), ()), (("Empty", "Dead"), ("Classic",)), ((), ("consumer",))]
    }
    assert list(listed.values()) == [[GROUP, "simple"], [GROUP], ["simple"], []]


# Deleting


def test_groups_without_members_are_deleted_with_their_offsets(clients: ClassicClients) -> None:
    clients.stable(1)
    clients.append(offset_of("simple"), offset_of(GROUP))
    names = [GROUP, "simple", "nowhere"]
    codes = clients.write(lambda state, now_ms: delete_groups(state, now_ms, names))
    assert codes == {
        GROUP: ErrorCode.NON_EMPTY_GROUP,
        "simple": ErrorCode.NONE,
        "nowhere": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    clients.pass_ms(SESSION_MS)
    assert clients.write(lambda state, now_ms: delete_groups(state, now_ms, [GROUP])) == {GROUP: ErrorCode.NONE}
    for _ in range(2):
        assert not clients.state.groups
        assert not clients.state.offsets.group_ids()
        clients.load()


# Committing


def test_members_commit_in_their_generation(clients: ClassicClients) -> None:
    leader, follower = clients.stable(2)
    assert commit(clients, leader, 1) == ErrorCode.NONE
    assert commit(clients, leader, 0) == ErrorCode.ILLEGAL_GENERATION
    assert commit(clients, "nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(clients, "", -1) == ErrorCode.UNKNOWN_MEMBER_ID, "others may not, while there are members"
    clients.ask_to_join(leader)
    assert commit(clients, follower, 1) == ErrorCode.NONE, "before it joins again"
    clients.ask_to_join(follower)
    assert commit(clients, follower, 2) == ErrorCode.REBALANCE_IN_PROGRESS, "before it knows what is its own"
    assert commit(clients, follower, 2, in_transaction=True) == ErrorCode.NONE


def test_any_client_commits_for_an_empty_group(clients: ClassicClients) -> None:
    (member,) = clients.stable(1)
    clients.leave(member)
    assert commit(clients, "", -1) == ErrorCode.NONE
    assert commit(clients, member, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_of_subscribed_topics_are_not_deleted(clients: ClassicClients) -> None:
    subscription = bytes.fromhex(SUBSCRIPTIONS[0])
    (member,) = clients.stable(1, protocols={"range": subscription})
    group = clients.group
    assert (group.is_subscribed_to("a"), group.is_subscribed_to("c")) == (True, False)
    assert group.retention_begins_ms(5) == 5
    group.validate_offset_delete()
    clients.leave(member)
    assert clients.group.retention_begins_ms(5) == clients.group.state_since_ms == clients.now_ms
    assert not clients.group.is_subscribed_to("a")


def test_unreadable_subscriptions_protect_all_topics(clients: ClassicClients) -> None:
    clients.stable(1, protocols={"range": b"?"})
    assert clients.group.is_subscribed_to("c")
    assert clients.group.retention_begins_ms(5) is None
    others = ClassicClients()
    others.join_all(1, protocol_type="connect")
    assert not others.group.is_subscribed_to("c")
    with pytest.raises(KafkaError) as raised:
        others.group.validate_offset_delete()
    assert raised.value.code == ErrorCode.NON_EMPTY_GROUP
    assert others.group.state is GroupState.COMPLETING_REBALANCE


# Subscriptions of consumers


@pytest.mark.parametrize("version", SUBSCRIPTIONS)
def test_subscriptions_are_decoded_in_every_version(version: int) -> None:
    subscription = decode_subscription(bytes.fromhex(SUBSCRIPTIONS[version]))
    assert subscription.topics == subscribed_topics(bytes.fromhex(SUBSCRIPTIONS[version])) == ["a", "b"]
    owned = [(each.topic, each.partitions) for each in subscription.owned_partitions]
    assert owned == ([("a", [7])] if version else [])
    assert (subscription.generation_id, subscription.rack_id) == ((5, "r") if version >= 3 else (-1, None))


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\xff\xff", b"\0\0", b"\0\0\0\0\0\1"])
def test_invalid_subscription_is_refused(metadata: bytes) -> None:
    assert subscribed_topics(metadata) is None
    with pytest.raises(WireError):
        decode_subscription(metadata)


def test_assignments_are_encoded_as_clients_decode_them() -> None:
    assignment = ConsumerProtocolAssignment(assigned_partitions=[OwnedPartitions(topic="a", partitions=[7])])
    assert encode_assignment(assignment, 1).hex() == "0001000000010001610000000100000007ffffffff"


def test_member_id_is_the_clients_name_and_a_uuid() -> None:
    assert new_member_id("client", 0x1234 << 112 | 1) == "client-12340000-0000-0000-0000-000000000001"
