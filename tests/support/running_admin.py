"""An Admin of a running node or cluster."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from broker.client import Admin
from tests.support.running_cluster import RunningCluster
from tests.support.running_node import running_node


@asynccontextmanager
async def admin_of_a_node(directory: Path, **overrides: object) -> AsyncIterator[Admin]:
    """A node with these configs, in whose names `_` stands for `.`, and an Admin connected to it."""
    async with running_node(directory, **overrides) as node, Admin(f"127.0.0.1:{node.port}") as admin:
        yield admin


def bootstrap_servers(cluster: RunningCluster) -> list[str]:
    return [f"127.0.0.1:{node.port}" for node in cluster.nodes.values()]


def bootstrap_controllers(cluster: RunningCluster) -> list[str]:
    return [f"127.0.0.1:{node.controller_port}" for node in cluster.nodes.values()]
