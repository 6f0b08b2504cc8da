"""kafka-acls: the options of Kafka's tool, the entries that they stand for, and its output."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.security.acls import STANDARD_AUTHORIZER
from tests.support.kafka_tools import Tools, tools_of_a_node

ALICE = ("--allow-principal", "User:alice")
TOPIC = "ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)"


@pytest.fixture
async def tools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Tools]:
    settings = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:ANONYMOUS"}
    async with tools_of_a_node(tmp_path, capsys, **settings) as tools:
        yield tools


def shown(operation: str, permission: str = "ALLOW", *, principal: str = "User:alice", host: str = "*") -> str:
    return f"(principal={principal}, host={host}, operation={operation}, permissionType={permission})"


async def listed(tools: Tools, *arguments: str) -> set[str]:
    return {line.strip() for line in await tools.lines("kafka-acls", "--list", *arguments)} - {""}


async def test_entries_are_added_listed_and_removed(tools: Tools) -> None:
    reading = (*ALICE, "--operation", "Read", "--topic", "orders")
    added = await tools.lines("kafka-acls", "--add", *reading)
    assert added == [f"Adding ACLs for resource `{TOPIC}`: ", f" \t{shown('READ')}", ""]
    again = await tools.lines("kafka-acls", "--add", *ALICE, "--operation", "read", "--topic", "orders")
    assert again == [f"Acl (pattern={TOPIC}, entry={shown('READ')}) already exists."]
    assert await tools.lines("kafka-acls", "--list") == [
        f"Current ACLs for resource `{TOPIC}`:",
        f"\t{shown('READ')}",
        "",
    ]
    await tools.run("kafka-acls", "--remove", *reading, "--force")
    assert await tools.lines("kafka-acls", "--list") == []


async def test_roles_of_producers_and_consumers(tools: Tools) -> None:
    await tools.run(
        "kafka-acls", "--add", *ALICE, "--producer", "--idempotent", "--topic", "t", "--transactional-id", "x"
    )
    assert await listed(tools, "--topic", "t") == {
        "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)`:",
        *(shown(each) for each in ("WRITE", "DESCRIBE", "CREATE")),
    }
    assert shown("IDEMPOTENT_WRITE") in await listed(tools, "--cluster")
    assert {shown("WRITE"), shown("DESCRIBE")} < await listed(tools, "--transactional-id", "x")
    await tools.run("kafka-acls", "--add", *ALICE, "--consumer", "--topic", "t", "--group", "g")
    assert shown("READ") in await listed(tools, "--topic", "t")
    assert await listed(tools, "--group", "g") == {
        "Current ACLs for resource `ResourcePattern(resourceType=GROUP, name=g, patternType=LITERAL)`:",
        shown("READ"),
    }


async def test_hosts_principals_and_patterns(tools: Tools) -> None:
    """KIP-290: match lists all patterns that apply to a name."""
    await tools.run(
        "kafka-acls",
        "--add",
        *ALICE,
        *("--deny-principal", "User:bob", "--allow-host", "10.0.0.1", "--deny-host", "10.0.0.0/8"),
        *("--operation", "Write", "--topic", "ord", "--resource-pattern-type", "prefixed"),
    )
    entries = {
        shown("WRITE", host="10.0.0.1"),
        shown("WRITE", "DENY", principal="User:bob", host="10.0.0.0/8"),
    }
    assert entries < await listed(tools, "--topic", "orders", "--resource-pattern-type", "match")
    assert await listed(tools, "--topic", "orders") == set()
    only_bob = await listed(tools, "--principal", "User:bob")
    assert "ACLs for principal `User:bob`" in only_bob
    assert not entries <= only_bob
    await tools.run("kafka-acls", "--remove", "--topic", "ord", "--resource-pattern-type", "any", "--force")
    assert await listed(tools) == set()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--list", "--add"], "Command must include exactly one action: --list, --add, --remove. "),
        (["--add", "--topic", "t"], "You must specify one of: --allow-principal, --deny-principal"),
        (["--add", *ALICE], "You must provide at least one resource: --topic <topic>"),
        (["--add", *ALICE, "--producer"], "With --producer you must specify a --topic"),
        (
            ["--add", *ALICE, "--consumer", "--topic", "t"],
            "With --consumer you must specify a --topic and a --group",
        ),
        (["--list", "--producer"], 'Option "[list]" can\'t be used with option "[producer]"'),
        (
            ["--add", *ALICE, "--topic", "t", "--resource-pattern-type", "match"],
            "A '--resource-pattern-type' value of 'MATCH' is not valid when adding acls.",
        ),
        (
            ["--add", *ALICE, "--group", "g", "--operation", "Write"],
            "ResourceType GROUP only supports operations "
            "[READ, DESCRIBE, DELETE, DESCRIBE_CONFIGS, ALTER_CONFIGS, ALL]",
        ),
        (["--add", "--allow-principal", "alice", "--topic", "t"], "Cannot parse argument 'alice'"),
    ],
)
async def test_wrong_options_are_refused(tools: Tools, arguments: list[str], message: str) -> None:
    _, errors = await tools.run("kafka-acls", *arguments, expected=1)
    assert errors.startswith(message)


async def test_cluster_without_an_authorizer_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        _, errors = await tools.run("kafka-acls", "--list", expected=1)
        assert errors.startswith("Error while executing ACL command: ")
        assert "No Authorizer is configured" in errors
