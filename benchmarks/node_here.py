"""A node in this process and event loop, which a benchmark measures from within."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import trio

from broker.config import read_config
from broker.node import Node
from kraft.env import Env, RealDisk, real_env


@asynccontextmanager
async def node_here(directory: Path, settings: Mapping[str, object]) -> AsyncIterator[Node]:
    """Run a node with free ports and its data in `directory`. Its random numbers are always the same."""
    given = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "log.dirs": str(directory / "data"),
        **settings,
    }
    config = read_config(None, [f"{name}={value}" for name, value in given.items()])
    env = real_env(lambda kind, /, **fields: None)
    node = Node(Env(RealDisk(), Random(1), env.wall, env.trace), config)
    async with trio.open_nursery() as nursery:
        await nursery.start(node.run)
        yield node
        node.stop()
