"""`kraft tokens`: delegation tokens."""

from broker.cli.grammar import Exit
from tests.support.cluster_process import run_command
from tests.support.node_process import NodeProcess


def test_anonymous_clients_may_not_use_tokens(node: NodeProcess) -> None:
    for arguments in (["create"], ["list"], ["renew", "x"], ["expire", "x", "--after", "1h"]):
        ended = run_command("tokens", *arguments)
        assert ended.code == Exit.FAILED
        assert "delegation tokens are for clients that have authenticated" in ended.errors
