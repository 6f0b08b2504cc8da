"""Configs that keep clients out, on real processes: a node with one in its metadata log starts, and can be freed."""

from pathlib import Path

import pytest

from metadata.configuration import schema
from tests.broker.handlers.test_dynamic_configs import AS_CLIENT, is_let_in, set_config
from tests.support.command_output import pipe
from tests.support.node_process import NodeProcess
from tests.support.running_node import running_node
from tests.support.wire_client import connected

pytestmark = pytest.mark.clients

LIMITS = ("max.connections", "listener.name.plaintext.max.connections", "max.connection.creation.rate")


async def use(node: NodeProcess) -> None:
    """Send a request of a client, and fail if it is not served in time."""
    async with connected(node.port) as client:
        await client.call(AS_CLIENT, 5)


def kraft(node: NodeProcess, *arguments: str) -> str:
    done = pipe(*arguments, "--bootstrap-server", node.bootstrap)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


async def test_node_starts_with_values_that_an_older_release_let_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "_CONNECTION_LIMITS", frozenset())
    async with running_node(tmp_path) as old, connected(old.port) as client:
        await client.call(AS_CLIENT, 5)
        resources = [("", name) for name in LIMITS] + [("1", LIMITS[0])]
        for resource, name in resources:
            await set_config(client, name, "0", resource)
    node = NodeProcess(tmp_path / "data")
    try:
        node.start()
        await use(node)
        for resource, name in resources:
            named = f"broker {resource or 'default'}"
            assert f"kraft configs delete {named} {name}" in node.output_tail()
            kraft(node, "configs", "delete", *named.split(), name)
        assert "max.connections" not in kraft(node, "configs", "describe", "broker", "default")
        node.stop()
    finally:
        node.discard()


async def test_node_that_ignores_a_config_can_be_freed_of_it(tmp_path: Path) -> None:
    name, value = "max.connections.per.ip.overrides", "127.0.0.1:0"
    node = NodeProcess(tmp_path / "data")
    try:
        node.start()
        async with connected(node.port) as client:
            await set_config(client, name, value)
        assert not await is_let_in(node.port)
        node.stop()
        node.overrides["dynamic.configs.ignored"] = name
        node.start()
        await use(node)
        assert f"{name} of broker default is ignored" in node.output_tail()
        assert value in kraft(node, "configs", "describe", "broker", "default")
        kraft(node, "configs", "delete", "broker", "default", name)
        node.stop()
        del node.overrides["dynamic.configs.ignored"]
        node.start()
        await use(node)
        node.stop()
    finally:
        node.discard()
