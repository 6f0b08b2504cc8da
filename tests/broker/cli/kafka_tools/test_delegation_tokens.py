"""kafka-delegation-tokens: its actions and their options."""

from pathlib import Path

import pytest

from tests.support.kafka_tools import Tools, tools_of_a_node

Capture = pytest.CaptureFixture[str]
NAME = "kafka-delegation-tokens"


async def test_anonymous_clients_may_not_use_tokens(tmp_path: Path, capsys: Capture) -> None:
    (config := tmp_path / "client.properties").write_text("")
    async with tools_of_a_node(tmp_path, capsys) as tools:
        _, errors = await tools.run(NAME, "--command-config", str(config), "--describe", expected=1)
    assert "UnsupportedByAuthenticationException: Delegation Token requests are not allowed on PLAINTEXT" in errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "exactly one action"),
        (["--create", "--describe"], "exactly one action"),
        (["--create"], "Missing required argument: --max-life-time-period"),
        (
            ["--create", "--max-life-time-period", "1", "--owner-principal", "User:a", "--owner-principal", "User:b"],
            "one",
        ),
        (["--renew", "--hmac", "AA=="], "Missing required argument: --renew-time-period"),
        (["--expire", "--expiry-time-period", "1"], "Missing required argument: --hmac"),
        (["--expire", "--expiry-time-period", "1", "--hmac", "!"], "not Base64"),
    ],
)
async def test_wrong_options_are_refused(tmp_path: Path, capsys: Capture, arguments: list[str], message: str) -> None:
    (config := tmp_path / "client.properties").write_text("")
    tools = Tools("127.0.0.1:1", capsys)
    _, errors = await tools.run(NAME, "--command-config", str(config), *arguments, expected=1)
    assert message in errors
