"""`kraft configs` on a node: set, changed element by element, deleted, shown with their sources."""

import pytest

from broker.cli.grammar import Exit
from tests.support.cluster_process import run_command
from tests.support.command_output import ask, succeed
from tests.support.node_process import NodeProcess


def values(kind: str, name: str, *arguments: str) -> dict[str, str]:
    return {row["name"]: row["value"] for row in ask("configs", "describe", kind, name, *arguments)}


def test_a_topics_configs_are_set_appended_to_and_deleted(node: NodeProcess) -> None:
    succeed("topics", "create", "configured")
    assert succeed("configs", "set", "topic", "configured", "retention.ms=1000", "cleanup.policy+=compact") == (
        "topic configured: set retention.ms=1000\ntopic configured: added compact to cleanup.policy\n"
    )
    found = values("topic", "configured")
    assert (found["retention.ms"], found["cleanup.policy"]) == ("1000", "delete,compact")
    succeed("configs", "set", "topic", "configured", "cleanup.policy-=delete")
    assert values("topic", "configured")["cleanup.policy"] == "compact"
    succeed("configs", "delete", "topic", "configured", "cleanup.policy", "retention.ms")
    assert "retention.ms" not in values("topic", "configured")
    assert values("topic", "configured", "--config", "retention.ms") == {"retention.ms": "604800000"}
    assert len(values("topic", "configured", "--all")) > 20


def test_configs_of_all_brokers_and_of_groups_are_shown_with_their_source(node: NodeProcess) -> None:
    succeed("configs", "set", "broker", "default", "log.retention.ms=5000000")
    succeed("configs", "set", "group", "some", "consumer.session.timeout.ms=50000")
    (row,) = ask("configs", "describe", "broker", "default", "--config", "log.retention.ms")
    assert (row["value"], row["source"]) == ("5000000", "default-broker")
    assert values("group", "some")["consumer.session.timeout.ms"] == "50000"
    listed = [(row["kind"], row["resource"]) for row in ask("configs", "list")]
    assert ("group", "some") in listed
    succeed("configs", "delete", "broker", "default", "log.retention.ms")


def test_mistyped_config_of_a_broker_is_warned_of_with_the_near_name(node: NodeProcess) -> None:
    answer = run_command("configs", "set", "broker", "1", "log.scrub.intervall.ms=1", "log.retention.ms=5000000")
    assert answer.code == Exit.OK
    assert answer.errors == (
        "kraft: brokers have no config log.scrub.intervall.ms, so that it has no effect; did you mean "
        "log.scrub.interval.ms?\n"
    )
    succeed("configs", "delete", "broker", "1", "log.scrub.intervall.ms", "log.retention.ms")


def test_a_dry_run_changes_nothing(node: NodeProcess) -> None:
    succeed("topics", "create", "dry-config")
    output = succeed("configs", "set", "topic", "dry-config", "retention.ms=1", "--dry-run")
    assert output == "Dry run: topic dry-config: set retention.ms=1\n"
    assert "retention.ms" not in values("topic", "dry-config")


def test_several_resources_are_told_apart(node: NodeProcess) -> None:
    succeed("topics", "create", "two-a", "two-b", "-c", "retention.ms=7000")
    lines = succeed("configs", "describe", "topic", "two-a", "two-b", "--config", "retention.ms").splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        ["two-a", "retention.ms", "7000"],
        ["two-b", "retention.ms", "7000"],
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["set", "topic", "t", "retention.ms"], Exit.USAGE, "write KEY=VALUE, KEY+=VALUE or KEY-=VALUE"),
        (["set", "topics", "t", "a=b"], Exit.USAGE, "'topic'"),
        (["describe", "topic", "none"], Exit.NOT_FOUND, "topic none: UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_wrong_configs_are_refused_with_a_message(
    node: NodeProcess, arguments: list[str], code: Exit, message: str
) -> None:
    answer = run_command("configs", *arguments)
    assert answer.code == code
    assert message in answer.errors


def test_a_config_that_does_not_exist_is_refused_by_the_cluster(node: NodeProcess) -> None:
    succeed("topics", "create", "strict")
    answer = run_command("configs", "set", "topic", "strict", "retention.ns=1")
    assert answer.code == Exit.FAILED
    assert "topic strict: INVALID_CONFIG" in answer.errors
