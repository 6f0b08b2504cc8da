"""`kraft share-groups` on a node: members, start offsets, resets and deletions (KIP-932)."""

import pytest
import trio
from confluent_kafka import Producer

from broker.cli.grammar import Exit
from tests.support.cluster_process import run_command
from tests.support.command_output import ask, succeed, table
from tests.support.node_process import NodeProcess
from tests.support.share_requests import assigned, joined, share_heartbeat
from tests.support.wire_client import connected

GROUP, TOPIC = "share-group", "shared"


@pytest.fixture
def topic(node: NodeProcess) -> str:
    succeed("topics", "create", TOPIC, "-p", "2")
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for _ in range(3):
        producer.produce(TOPIC, b"value", partition=0)
    assert producer.flush(30) == 0
    return TOPIC


async def member_comes(node: NodeProcess) -> None:
    async with connected(int(node.bootstrap.rpartition(":")[2])) as client:
        await assigned(client, 2, await joined(client, TOPIC, group=GROUP), group=GROUP)


async def member_goes(node: NodeProcess) -> None:
    async with connected(int(node.bootstrap.rpartition(":")[2])) as client:
        await share_heartbeat(client, -1, group=GROUP)


def _check_dead_letter_problems(dead_letters: str) -> None:
    enable = "errors.deadletterqueue.group.enable"
    missing = succeed("share-groups", "describe", GROUP)
    assert f"copied to topic {dead_letters}." in missing
    assert f"! Topic {dead_letters} does not exist. Create it with {enable}=true" in missing
    succeed("topics", "create", dead_letters)
    (disabled,) = ask("share-groups", "describe", GROUP)
    assert disabled["dead_letter_problem"] == f"Topic {dead_letters} takes no dead letters before {enable}=true"
    succeed("configs", "set", "topic", dead_letters, f"{enable}=true")
    (usable,) = ask("share-groups", "describe", GROUP)
    assert (usable["dead_letter_topic"], usable["dead_letter_problem"]) == (dead_letters, None)

    succeed("topics", "create", f"no-{dead_letters}", "-c", f"{enable}=true")
    succeed("configs", "set", "group", GROUP, f"errors.deadletterqueue.topic.name=no-{dead_letters}")
    (misnamed,) = ask("share-groups", "describe", GROUP)
    assert "its name does not begin with dlq. " in misnamed["dead_letter_problem"]


def test_share_group_from_its_first_offset_to_its_deletion(node: NodeProcess, topic: str) -> None:
    reset = ("share-groups", "reset-offsets", GROUP, "-t", topic)
    assert "Nothing was changed" in succeed(*reset, "--to-earliest")
    assert succeed("share-groups", "list") == "There are no share groups.\n"
    rows = ask(*reset, "--to-offset", "1", "--execute")
    assert [(row["partition"], row["old_offset"], row["new_offset"]) for row in rows] == [(0, None, 1), (1, None, 0)]

    trio.run(member_comes, node)
    assert ask("share-groups", "list") == [{"group_id": GROUP, "state": "Stable", "coordinator": 1}]
    (row,) = [row for row in ask("groups", "list", "--type", "share") if row["group_id"] == GROUP]
    assert (row["state"], row["type"], row["protocol_type"]) == ("Stable", "share", "share")
    (described,) = ask("groups", "describe", GROUP)
    assert (described["type"], described["members"][0]["assignment"]) == ("share", {topic: [0, 1]})
    (described,) = ask("share-groups", "describe", GROUP)
    assert (described["state"], described["members"][0]["assignment"]) == ("Stable", {topic: [0, 1]})
    offsets = [(row["partition"], row["start_offset"], row["lag"]) for row in described["offsets"]]
    assert offsets == [(0, 1, 2), (1, 0, 0)]
    assert table(succeed("share-groups", "describe", GROUP))[-2:] == [[topic, "0", "1", "2"], [topic, "1", "0", "0"]]
    assert described["dead_letter_topic"] is None
    succeed("configs", "set", "group", GROUP, "errors.deadletterqueue.topic.name=dlq.jobs")
    assert ask("share-groups", "describe", GROUP)[0]["dead_letter_topic"] == "dlq.jobs"
    _check_dead_letter_problems("dlq.jobs")
    # Commands for groups of another type name the one for this type, and change nothing.
    assert "kraft share-groups describe" in run_command("groups", "lag", GROUP).errors
    assert GROUP not in succeed("groups", "lag")
    of_consumers = run_command("groups", "reset-offsets", GROUP, "-t", topic, "--to-earliest", "--execute")
    assert "kraft share-groups reset-offsets" in of_consumers.errors
    assert run_command("share-groups", "list", "--state", "Stabel").code == Exit.USAGE
    for refused in ((*reset, "--to-latest", "--execute"), ("share-groups", "delete", GROUP)):
        assert "NON_EMPTY_GROUP" in run_command(*refused).errors

    trio.run(member_goes, node)
    assert ask(*reset, "--shift-by", "1", "--execute")[0]["new_offset"] == 2
    assert "Removed topic shared" in succeed("share-groups", "delete-offsets", GROUP, "-t", topic)
    assert succeed("share-groups", "delete", GROUP) == f"Deleted share group {GROUP}.\n"
    gone = run_command("share-groups", "delete", GROUP)
    assert (gone.code, "GROUP_ID_NOT_FOUND" in gone.errors) == (Exit.NOT_FOUND, True)
    succeed("share-groups", "delete", GROUP, "--if-exists")

    succeed("groups", "reset-offsets", "readers", "-t", topic, "--to-earliest", "--execute")
    assert (
        "use `kraft groups reset-offsets`"
        in run_command("share-groups", "reset-offsets", "readers", "--to-latest").errors
    )
