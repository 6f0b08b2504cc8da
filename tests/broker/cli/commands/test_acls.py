"""`kraft acls` on a node with the standard authorizer."""

from collections.abc import Iterator

import pytest

from broker.cli.grammar import Exit
from broker.security.acls import STANDARD_AUTHORIZER
from tests.support.cluster_process import run_command
from tests.support.command_output import ask, succeed
from tests.support.node_process import NodeProcess


@pytest.fixture(scope="module")
def _authorized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    overrides = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    node = NodeProcess(tmp_path_factory.mktemp("acls") / "node", overrides)
    try:
        node.start()
        yield node
    finally:
        node.discard()


@pytest.fixture
def authorized(_authorized: NodeProcess, monkeypatch: pytest.MonkeyPatch) -> NodeProcess:
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVERS", _authorized.bootstrap)
    return _authorized


def test_entries_are_added_listed_and_removed(authorized: NodeProcess) -> None:
    assert succeed("acls", "add", "alice", "read,describe", "topic=orders", "group=app", "--host", "10.0.0.1") == (
        "added: allow User:alice describe on group=app from 10.0.0.1\n"
        "added: allow User:alice read on group=app from 10.0.0.1\n"
        "added: allow User:alice describe on topic=orders from 10.0.0.1\n"
        "added: allow User:alice read on topic=orders from 10.0.0.1\n"
    )
    succeed("acls", "add", "User:bob", "all", "topic=or*", "cluster", "--deny")
    assert ask("acls", "list", "topic=orders", "--principal", "alice") == [
        {
            "principal": "User:alice",
            "host": "10.0.0.1",
            "permission": "allow",
            "operation": operation,
            "resource": "topic=orders",
        }
        for operation in ("describe", "read")
    ]
    applying = ask("acls", "list", "topic=orders", "--applying")
    assert {row["resource"] for row in applying} == {"topic=orders", "topic=or*"}
    assert ask("acls", "list", "topic=or*")[0]["permission"] == "deny"

    kept = succeed("acls", "remove", "--principal", "bob", "--dry-run")
    assert kept == "would be removed: deny User:bob all on cluster\nwould be removed: deny User:bob all on topic=or*\n"
    assert succeed("acls", "remove", "topic=orders", "--operation", "read") == (
        "removed: allow User:alice read on topic=orders from 10.0.0.1\n"
    )
    succeed("acls", "add", "alice", "describe", "topic=orders", "--deny")
    assert succeed("acls", "remove", "topic=orders", "--permission", "deny") == (
        "removed: deny User:alice describe on topic=orders\n"
    )
    assert len(ask("acls", "list", "topic=orders")) == 1
    succeed("acls", "remove", "--principal", "alice")
    succeed("acls", "remove", "--principal", "bob")
    assert succeed("acls", "list") == "There are no such entries.\n"


def test_error_names_the_entry_in_words(authorized: NodeProcess) -> None:
    answer = run_command("acls", "add", "alice", "read", "topic=t", "--host", "10.0.0.0/99")
    assert answer.code == Exit.FAILED
    assert "(of allow User:alice read on topic t from 10.0.0.0/99)" in answer.errors, answer.errors


def test_roles_of_clients(authorized: NodeProcess) -> None:
    succeed("acls", "add", "app", "produce,consume", "topic=events")
    succeed("acls", "add", "app", "produce", "transactional-id=t*")
    succeed("acls", "add", "app", "consume", "group=*")
    assert {(row["operation"], row["resource"]) for row in ask("acls", "list", "--principal", "app")} == {
        ("write", "topic=events"),
        ("create", "topic=events"),
        ("read", "topic=events"),
        ("write", "transactional-id=t*"),
        ("read", "group=*"),
    }
    succeed("acls", "remove", "--principal", "app")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["add", "alice", "read", "orders"], Exit.USAGE, "write cluster, or TYPE=NAME"),
        (["add", "alice", "fly", "topic=t"], Exit.USAGE, "'fly' is not an operation"),
        (["add", "alice", "produce", "group=g"], Exit.USAGE, "produce needs nothing on a group"),
        (["remove"], Exit.USAGE, "name resources, as in topic=orders"),
        (["add", "alice", "read", "topic=t", "--host", "10.0.0.0/99"], Exit.FAILED, "Invalid CIDR notation"),
    ],
)
def test_wrong_entries_are_refused_with_a_message(
    authorized: NodeProcess, arguments: list[str], code: Exit, message: str
) -> None:
    answer = run_command("acls", *arguments)
    assert answer.code == code
    assert message in answer.errors


def test_node_without_an_authorizer_has_no_entries(node: NodeProcess) -> None:
    answer = run_command("acls", "list")
    assert answer.code == Exit.FAILED
    assert "No Authorizer is configured" in answer.errors
