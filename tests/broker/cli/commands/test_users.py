"""`kraft users` on a node: passwords are set from files and variables, listed without secrets, and removed."""

from pathlib import Path

import pytest

from broker.cli.grammar import Exit
from tests.support.cluster_process import run_command
from tests.support.command_output import ask, succeed
from tests.support.node_process import NodeProcess


def test_users_are_set_listed_and_removed(node: NodeProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert succeed("users", "list") == "There are no users with SCRAM credentials.\n"
    (tmp_path / "password").write_text("hunter2\n")
    monkeypatch.setenv("ALICE", "hunter2")
    output = succeed("users", "set", "alice", "--password-file", str(tmp_path / "password"))
    assert output == "set the SCRAM-SHA-512 password of alice\n"
    mechanism = ("--mechanism", "SCRAM-SHA-256", "--iterations", "8192")
    assert ask("users", "set", "alice", *mechanism, "--password-env", "ALICE") == [
        {"user": "alice", "mechanism": "SCRAM-SHA-256", "removed": False}
    ]
    assert ask("users", "list", "alice") == [
        {"user": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 8192},
        {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 4096},
    ]
    removed = succeed("users", "remove", "alice", "--mechanism", "SCRAM-SHA-256")
    assert removed == "removed the SCRAM-SHA-256 password of alice\n"
    succeed("users", "remove", "alice")
    assert ask("users", "list") == []


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["set", "bob"], Exit.USAGE, "there is no terminal to ask for the password"),
        (["set", "bob", "--password-env", "NO_SUCH_VARIABLE"], Exit.USAGE, "the password is empty"),
        (["set", "bob", "--password-file", "/no/such/file"], Exit.USAGE, "the password cannot be read"),
        (["set", "bob", "--password-env", "A", "--password-file", "B"], Exit.USAGE, "give one of --password-file"),
        (["set", "bob", "--iterations", "5"], Exit.USAGE, "4096<=x<=16384"),
        (["remove", "bob"], Exit.NOT_FOUND, "bob has no such credential; list them with `kraft users list`"),
        (["list", "bob"], Exit.NOT_FOUND, "Attempt to describe a user credential that does not exist: bob"),
    ],
)
def test_wrong_uses_are_refused_with_a_message(
    node: NodeProcess, arguments: list[str], code: Exit, message: str
) -> None:
    ended = run_command("users", *arguments)
    assert ended.code == code
    assert message in ended.errors
