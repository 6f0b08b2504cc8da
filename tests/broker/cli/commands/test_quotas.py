"""`kraft quotas` on a node: set, listed with filters, removed."""

import pytest

from broker.cli.grammar import Exit
from tests.support.cluster_process import run_command
from tests.support.command_output import ask, succeed
from tests.support.node_process import NodeProcess


def test_quotas_are_set_listed_and_removed(node: NodeProcess) -> None:
    assert succeed("quotas", "set", "user=alice", "client-id:default", "producer_byte_rate=5000000") == (
        "user=alice client-id:default: set producer_byte_rate=5000000\n"
    )
    succeed("quotas", "set", "client-id=app", "request_percentage=12.5", "consumer_byte_rate=1000")
    assert ask("quotas", "list") == [
        {"entity": {"client-id": "app"}, "key": "consumer_byte_rate", "value": 1000.0},
        {"entity": {"client-id": "app"}, "key": "request_percentage", "value": 12.5},
        {"entity": {"client-id": None, "user": "alice"}, "key": "producer_byte_rate", "value": 5000000.0},
    ]
    assert len(ask("quotas", "list", "client-id")) == 3
    assert len(ask("quotas", "list", "client-id", "--strict")) == 2
    assert len(ask("quotas", "list", "client-id:default", "user=alice")) == 1
    assert ask("quotas", "list", "user=bob") == []

    removed = succeed("quotas", "remove", "client-id=app", "request_percentage", "consumer_byte_rate")
    assert removed == "client-id=app: removed request_percentage\nclient-id=app: removed consumer_byte_rate\n"
    succeed("quotas", "remove", "user=alice", "client-id:default", "producer_byte_rate")
    assert succeed("quotas", "list") == "There are no quotas.\n"


def test_numbers_of_quotas_are_shown_as_they_can_be_given(node: NodeProcess) -> None:
    """1e300 was listed with all of its 301 digits, and 1234567 was set as 1.23457e+06."""
    given = {"producer_byte_rate": "1234567", "request_percentage": "1e+300"}
    settings = [f"{key}={value}" for key, value in given.items()]
    done = succeed("quotas", "set", "user=numbers", *settings)
    assert done.splitlines() == [f"user=numbers: set {setting}" for setting in settings]
    listed = succeed("quotas", "list", "user=numbers").splitlines()[1:]
    assert {line.split()[1]: line.split()[2] for line in listed} == given


def test_dry_run_changes_nothing(node: NodeProcess) -> None:
    output = succeed("quotas", "set", "ip:default", "connection_creation_rate=7", "--dry-run")
    assert output == "Dry run: ip:default: set connection_creation_rate=7\n"
    assert ask("quotas", "list", "ip") == []


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["set", "producer_byte_rate=1"], Exit.USAGE, "name an entity"),
        (["set", "user=alice"], Exit.USAGE, "name an entity"),
        (["set", "user=alice", "producer_byte_rate=much"], Exit.USAGE, "write KEY=VALUE"),
        (["set", "user=", "producer_byte_rate=1"], Exit.USAGE, "write TYPE=NAME"),
        (["set", "user=a", "user=b", "producer_byte_rate=1"], Exit.USAGE, "user is named twice"),
        (["list", "dog=rex"], Exit.USAGE, "write TYPE=NAME"),
        (["set", "user=alice", "dogs=1"], Exit.FAILED, "Invalid configuration key dogs"),
    ],
)
def test_wrong_quotas_are_refused_with_a_message(
    node: NodeProcess, arguments: list[str], code: Exit, message: str
) -> None:
    answer = run_command("quotas", *arguments)
    assert answer.code == code
    assert message in answer.errors
