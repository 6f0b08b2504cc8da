"""`kraft context`: clusters by name."""

import json
from pathlib import Path

import pytest

from broker.cli.grammar import Exit
from tests.support.cluster_process import run_command


@pytest.fixture(autouse=True)
def _user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRAFT_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.delenv("KRAFT_BOOTSTRAP_SERVERS", raising=False)


def add(name: str, servers: str, *arguments: str) -> None:
    answer = run_command("context", "add", name, "-b", servers, *arguments)
    assert answer.code == Exit.OK, answer.errors


def test_the_first_context_is_the_current_one_until_another_is_chosen() -> None:
    add("local", "localhost:9092")
    add("staging", "host1:9092,host2:9092", "-X", "client.id=deploy", "-X", "ssl.key.password=secret")
    assert run_command("context", "list").output.splitlines() == [
        "   NAME     BOOTSTRAP SERVERS      CONFIGS",
        "*  local    localhost:9092",
        "   staging  host1:9092,host2:9092  client.id=deploy ssl.key.password=...",
    ]
    assert run_command("context", "use", "staging").output == (
        "Commands ask host1:9092,host2:9092 now, context staging.\n"
    )
    rows = json.loads(run_command("context", "list", "--json").output)
    assert [(row["name"], row["is_current"]) for row in rows] == [("local", False), ("staging", True)]
    shown = {"client.id": "deploy", "ssl.key.password": "..."}
    assert json.loads(run_command("context", "show", "--json").output)["configs"] == shown
    assert "ssl.key.password=..." in run_command("context", "show").output


def test_a_context_that_is_removed_is_not_used_any_more() -> None:
    add("local", "localhost:9092")
    assert run_command("context", "remove", "local").code == Exit.OK
    assert run_command("context", "list").output == "There are no contexts; `kraft context add` makes one.\n"
    assert run_command("context", "show").code == Exit.USAGE


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["use", "none"], Exit.NOT_FOUND, "No context 'none': there are none; `kraft context add` makes one"),
        (["show", ""], Exit.NOT_FOUND, "No context '': there are none"),
        (["add", "a b", "-b", "x:1"], Exit.USAGE, "'a b' is not a name for a context"),
        (["add", "a"], Exit.USAGE, "A context needs a cluster; give --bootstrap-server."),
    ],
)
def test_impossible_changes_of_contexts_are_refused(arguments: list[str], code: Exit, message: str) -> None:
    answer = run_command("context", *arguments)
    assert answer.code == code
    assert message in answer.errors


@pytest.mark.usefixtures("impatient")
def test_commands_ask_the_current_context() -> None:
    add("local", "127.0.0.1:1")
    answer = run_command("quorum", "describe", "--status")
    assert answer.code == Exit.UNREACHABLE
    assert "127.0.0.1:1" in answer.errors
