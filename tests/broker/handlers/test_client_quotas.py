"""DescribeClientQuotas and AlterClientQuotas over the wire (KIP-546)."""

from collections.abc import Mapping

import pytest
import trio

from broker.wire.api.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from broker.wire.api.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from broker.wire.errors import ErrorCode
from tests.support.running_node import RunningNode
from tests.support.wire_client import WireClient, connected, only

EXACT, DEFAULT, SPECIFIED = 0, 1, 2

ALICE: dict[str, str | None] = {"user": "alice"}
ALICE_APP: dict[str, str | None] = {"user": "alice", "client-id": "app"}
ALICE_ANY: dict[str, str | None] = {"user": "alice", "client-id": None}
DEFAULT_USER: dict[str, str | None] = {"user": None}
APP: dict[str, str | None] = {"client-id": "app"}
LOCAL: dict[str, str | None] = {"ip": "127.0.0.1"}
EVERY = (ALICE, ALICE_APP, ALICE_ANY, DEFAULT_USER, APP, LOCAL)


def alteration(entity: Mapping[str, str | None], **quotas: float | None) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=entity_type, entity_name=name) for entity_type, name in entity.items()],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
    )


async def altered(
    client: WireClient, *entries: EntryData, version: int = 1, validate_only: bool = False
) -> list[ErrorCode]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    response = await client.call(request, version)
    assert [_names(entry.entity) for entry in response.entries] == [_names(entry.entity) for entry in entries]
    assert all((entry.error_message is None) == (entry.error_code == 0) for entry in response.entries)
    return [ErrorCode(entry.error_code) for entry in response.entries]


def _names(entity: list[EntityData]) -> dict[str, str | None]:
    return {part.entity_type: part.entity_name for part in entity}


async def described(
    client: WireClient, *components: ComponentData, strict: bool = False, version: int = 1
) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    request = DescribeClientQuotasRequest(components=list(components), strict=strict)
    response = await client.call(request, version)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, "")
    return [(_names(entry.entity), {each.key: each.value for each in entry.values}) for entry in response.entries]


async def wait_described(client: WireClient, count: int) -> None:
    """Wait until the broker's image has quotas of `count` entities."""
    with trio.fail_after(10):
        while len(await described(client)) != count:
            await trio.sleep(0.01)


async def set_every(client: WireClient) -> None:
    entries = [alteration(entity, producer_byte_rate=7.0) for entity in EVERY if entity is not LOCAL]
    entries.append(alteration(LOCAL, connection_creation_rate=7.0))
    assert await altered(client, *entries) == [ErrorCode.NONE] * len(EVERY)
    await wait_described(client, len(EVERY))


@pytest.mark.parametrize("listener", ["broker", "controller"])
@pytest.mark.parametrize("version", [0, 1])
async def test_quotas_are_altered_through_brokers_and_controllers(
    node: RunningNode, client: WireClient, listener: str, version: int
) -> None:
    async with connected(node.port if listener == "broker" else node.controller_port) as admin:
        codes = await altered(
            admin,
            alteration(ALICE_APP, producer_byte_rate=1000.0, request_percentage=12.5),
            alteration(ALICE, connection_creation_rate=1.0),
            alteration(APP, consumer_byte_rate=1.5),
            version=version,
        )
        assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]
        await wait_described(client, 1)
        expected = [(ALICE_APP, {"producer_byte_rate": 1000.0, "request_percentage": 12.5})]
        assert await described(client, version=version) == expected

        await altered(admin, alteration(ALICE_APP, producer_byte_rate=None, request_percentage=None), version=version)
        await wait_described(client, 0)


async def test_validate_only_changes_nothing(client: WireClient) -> None:
    entries = [alteration(ALICE, producer_byte_rate=5.0), alteration(APP, producer_byte_rate=-5.0)]
    assert await altered(client, *entries, validate_only=True) == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    await altered(client, alteration(LOCAL, connection_creation_rate=5.0))
    await wait_described(client, 1)
    assert only(await described(client))[0] == LOCAL


def of(entity_type: str, match: str | None = None, match_type: int = EXACT) -> ComponentData:
    return ComponentData(entity_type=entity_type, match_type=match_type, match=match)


@pytest.mark.parametrize("version", [0, 1])
async def test_filters_match_by_name_by_default_and_by_type(client: WireClient, version: int) -> None:
    await set_every(client)

    async def matched(*components: ComponentData, strict: bool = False) -> list[dict[str, str | None]]:
        found = await described(client, *components, strict=strict, version=version)
        return [entity for entity in EVERY if entity in [each for each, _ in found]]

    assert await matched() == list(EVERY)
    assert await matched(strict=True) == []
    assert await matched(of("user", "alice")) == [ALICE, ALICE_APP, ALICE_ANY]
    assert await matched(of("user", "alice"), strict=True) == [ALICE]
    assert await matched(of("user", "bob")) == []
    assert await matched(of("user", match_type=DEFAULT)) == [DEFAULT_USER]
    assert await matched(of("user", match_type=SPECIFIED)) == [ALICE, ALICE_APP, ALICE_ANY, DEFAULT_USER]
    assert await matched(of("user", match_type=SPECIFIED), strict=True) == [ALICE, DEFAULT_USER]
    assert await matched(of("client-id", match_type=DEFAULT)) == [ALICE_ANY]
    assert await matched(of("client-id", "app")) == [ALICE_APP, APP]
    assert await matched(of("client-id", "app"), strict=True) == [APP]
    assert await matched(of("user", "alice"), of("client-id", match_type=SPECIFIED)) == [ALICE_APP, ALICE_ANY]
    assert await matched(of("ip", "127.0.0.1"), strict=True) == [LOCAL]
    assert await matched(of("ip", match_type=DEFAULT)) == []


@pytest.mark.parametrize(
    ("components", "code", "message"),
    [
        ([ComponentData(entity_type="")], ErrorCode.INVALID_REQUEST, "Invalid empty entity type."),
        (
            [ComponentData(entity_type="user")] * 2,
            ErrorCode.INVALID_REQUEST,
            "Entity type user cannot appear more than once in the filter.",
        ),
        ([ComponentData(entity_type="dog")], ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type dog"),
        (
            [ComponentData(entity_type="user"), ComponentData(entity_type="ip")],
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component.",
        ),
        (
            [ComponentData(entity_type="user", match=None)],
            ErrorCode.INVALID_REQUEST,
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            [ComponentData(entity_type="user", match_type=DEFAULT, match="x")],
            ErrorCode.INVALID_REQUEST,
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        ([ComponentData(entity_type="user", match_type=9)], ErrorCode.INVALID_REQUEST, "Unknown match type 9"),
    ],
)
async def test_invalid_filters_are_refused_as_in_kafka(
    client: WireClient, components: list[ComponentData], code: ErrorCode, message: str
) -> None:
    response = await client.call(DescribeClientQuotasRequest(components=components), 1)

    assert (response.error_code, response.error_message, response.entries) == (code, message, None)


async def test_request_with_too_many_entities_is_refused_as_a_whole(client: WireClient) -> None:
    entries = [alteration({"user": str(number)}, producer_byte_rate=1.0) for number in range(10_001)]
    assert set(await altered(client, *entries)) == {ErrorCode.POLICY_VIOLATION}
