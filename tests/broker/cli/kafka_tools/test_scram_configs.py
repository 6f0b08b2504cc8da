"""kafka-configs with SCRAM credentials of users."""

from pathlib import Path

import pytest

from broker.cli.kafka_tools.tools import run_tool
from tests.support.kafka_tools import Tools, tools_of_a_node

Capture = pytest.CaptureFixture[str]
ALICE = ("--entity-type", "users", "--entity-name", "alice")


async def configs(tools: Tools, capsys: Capture, *arguments: str, expected: int = 0) -> tuple[list[str], str]:
    """The lines that the tool prints, and its errors."""
    capsys.readouterr()
    assert await run_tool("kafka-configs", ["--bootstrap-server", tools.bootstrap, *arguments]) == expected
    output, errors = capsys.readouterr()
    return output.splitlines(), errors


async def test_credentials_are_set_described_and_removed(tmp_path: Path, capsys: Capture) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        for added in ("SCRAM-SHA-256=[iterations=8192,password=hunter2]", "SCRAM-SHA-512=[password=hunter2]"):
            lines, _ = await configs(tools, capsys, "--alter", "--add-config", added, *ALICE)
            assert lines == ["Completed updating config for user alice."]
        lines, _ = await configs(tools, capsys, "--describe", *ALICE)
        assert lines == [
            "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=8192, "
            "SCRAM-SHA-512=iterations=4096"
        ]
        await configs(tools, capsys, "--alter", "--delete-config", "SCRAM-SHA-256", *ALICE)
        lines, _ = await configs(tools, capsys, "--describe", *ALICE)
        assert lines == ["SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-512=iterations=4096"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--add-config", "SCRAM-SHA-256=[hunter2]", *ALICE], "Invalid credential property SCRAM-SHA-256"),
        (["--add-config", "SCRAM-SHA-256=[iterations=5,password=hunter2]", *ALICE], "iterations are between 4096"),
        (
            ["--add-config", "SCRAM-SHA-256=[password=hunter2],SCRAM-SHA-512=[password=hunter2]", *ALICE],
            "A user credential cannot be altered twice in the same request",
        ),
        (
            ["--add-config", "SCRAM-SHA-256=[password=hunter2],producer_byte_rate=5", *ALICE],
            "Cannot alter both quota and SCRAM credential configs simultaneously",
        ),
        (
            ["--add-config", "SCRAM-SHA-256=[password=hunter2]", "--entity-type", "users", "--entity-default"],
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials",
        ),
        (["--delete-config", "SCRAM-SHA-512", *ALICE], "Attempt to delete a user credential that does not exist"),
    ],
)
async def test_refusals_show_no_password(tmp_path: Path, capsys: Capture, arguments: list[str], message: str) -> None:
    async with tools_of_a_node(tmp_path, capsys) as tools:
        lines, errors = await configs(tools, capsys, "--alter", *arguments, expected=1)
        shown = "\n".join(lines) + errors
        assert message in shown
        assert "hunter2" not in shown
