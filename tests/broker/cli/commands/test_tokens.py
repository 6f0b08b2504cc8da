"""`kraft tokens`: delegation tokens are created, used, listed, renewed and removed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.cli.grammar import Exit
from broker.security.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE
from jepsen.processes.ports import free_ports
from tests.support.cluster_process import run_command
from tests.support.command_output import ask, succeed
from tests.support.job_process import wait_until
from tests.support.node_process import NodeProcess


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a node's listener with PLAIN and SCRAM."""
    peers, controllers, clients = free_ports(3)
    overrides = {
        "listeners": f"PEERS://127.0.0.1:{peers},CONTROLLER://127.0.0.1:{controllers},CLIENTS://127.0.0.1:{clients}",
        "listener.security.protocol.map": "PEERS:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PEERS",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.clients.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="a" user_bob="b";',
        "delegation.token.secret.key": "the secret of the cluster",
    }
    node = NodeProcess(tmp_path_factory.mktemp("tokens") / "data", overrides, ports=(peers, controllers))
    try:
        node.start()
        yield f"127.0.0.1:{clients}"
        node.stop()
    finally:
        node.discard()


def _config(directory: Path, name: str, mechanism: str, module: str) -> str:
    (file := directory / name).write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={module}\n"
    )
    return str(file)


@pytest.fixture
def options(servers: str, tmp_path: Path) -> tuple[str, ...]:
    """The cluster options of the user alice."""
    config = _config(tmp_path, "alice", "PLAIN", f'{PLAIN_MODULE} required username="alice" password="a";')
    return ("-b", servers, "--command-config", config)


def test_anonymous_clients_may_not_use_tokens(node: NodeProcess) -> None:
    for arguments in (["create"], ["list"], ["renew", "x"], ["expire", "x", "--after", "1h"]):
        ended = run_command("tokens", *arguments)
        assert ended.code == Exit.FAILED
        assert "delegation tokens are for clients that have authenticated" in ended.errors


def test_a_token_is_created_used_listed_renewed_and_removed(
    options: tuple[str, ...], servers: str, tmp_path: Path
) -> None:
    created = ask("tokens", "create", "--renewer", "bob", "--max-lifetime", "1h", *options)
    token = created["token_id"]
    assert created["owner"] == "User:alice"
    wait_until(
        lambda: [row["token_id"] for row in ask("tokens", "list", *options)] == [token], 10, "the token is listed"
    )

    module = f'{SCRAM_MODULE} required username="{token}" password="{created["hmac"]}" tokenauth="true";'
    holder = ("-b", servers, "--command-config", _config(tmp_path, "holder", "SCRAM-SHA-256", module))
    assert succeed("topics", "list", *holder) == "There are no topics.\n"
    assert run_command("tokens", "create", *holder).code == Exit.FAILED

    [row] = ask("tokens", "list", "alice", *options)
    assert (row["owner"], row["renewers"], "hmac" in row) == ("User:alice", ["User:bob"], False)
    assert created["hmac"] not in succeed("tokens", "list", *options)
    renewed = ask("tokens", "renew", token, "--for", "30m", *options)
    assert created["max_ms"] - 31 * 60_000 < renewed["expires_ms"] < created["max_ms"]
    assert succeed("tokens", "expire", token, "--after", "20m", *options).startswith(f"token {token} expires at ")
    assert succeed("tokens", "expire", token, *options) == f"token {token} is removed\n"
    wait_until(lambda: succeed("tokens", "list", *options) == "There are no tokens.\n", 10, "it is gone")
    missing = run_command("tokens", "renew", token, *options)
    assert (missing.code, f"there is no token {token}" in missing.errors) == (Exit.FAILED, True)


def test_a_created_token_is_printed_with_its_hmac(options: tuple[str, ...]) -> None:
    first, second = succeed("tokens", "create", *options).splitlines()
    assert first.startswith("token ")
    assert first.endswith("unless it is renewed")
    assert second.startswith("HMAC: ")
    succeed("tokens", "expire", first.split()[1], *options)
