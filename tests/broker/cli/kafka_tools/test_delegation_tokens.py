"""kafka-delegation-tokens: its actions and their options."""

from pathlib import Path

import pytest
import trio

from broker.security.sasl.jaas import PLAIN_MODULE
from tests.support.kafka_tools import Tools, tools_of_a_node
from tests.support.sasl import sasl_node, sasl_port

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


async def test_tokens_are_created_described_renewed_and_expired(tmp_path: Path, capsys: Capture) -> None:
    async with sasl_node(tmp_path, **{"delegation.token.secret.key": "the secret"}) as node:
        tools = Tools(f"127.0.0.1:{sasl_port(node)}", capsys)
        (config := tmp_path / "client.properties").write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={PLAIN_MODULE} required username="bob" password="bob-secret";\n'
        )
        options = ("--command-config", str(config))
        create = ("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:alice")
        lines = await tools.lines(NAME, *options, *create)
        assert lines[0] == ("Calling create token operation with renewers :[User:alice] , max-life-time-period :-1")
        token_id = lines[1].removeprefix("Created delegation token with tokenId : ")
        assert lines[3].split() == [
            *("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")
        ]
        shown_id, hmac, owner, requester, renewers, *_ = lines[5].split()
        assert (shown_id, owner, requester, renewers) == (token_id, "User:bob", "User:bob", "[User:alice]")

        renewed = await tools.lines(NAME, *options, "--renew", "--hmac", hmac, "--renew-time-period", "60000")
        assert renewed[0].startswith("Completed renew operation. New expiry date : 20")
        with trio.fail_after(10):
            while "Total number of tokens : 1" not in (
                described := await tools.lines(NAME, *options, "--describe", "--owner-principal", "User:bob")
            ):
                await trio.sleep(0.01)
        assert described[0] == "Calling describe token operation for owners: [User:bob]"
        expire = ("--expire", "--expiry-time-period", "-1")
        expired = await tools.lines(NAME, *options, *expire, "--hmac", hmac)
        assert expired[0].startswith("Completed expire operation. New expiry date : 20")
        _, errors = await tools.run(NAME, *options, *expire, "--hmac", hmac, expected=1)
        assert "DelegationTokenNotFoundException: Delegation Token is not found on server." in errors
