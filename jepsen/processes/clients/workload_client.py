"""Runs clients of `jepsen.workloads`, as the simulation has them, in a client process."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import trio

from jepsen.processes.clients.client import Client
from jepsen.workloads import client as workload

_LOOK_SECONDS: Final = 0.1


def workload_client(client: Client, name: str) -> workload.Client:
    """A client of that name, with the history, the servers and the random numbers of the process."""
    hosts = [each.rpartition(":") for each in client.plan.bootstrap.split(",")]
    servers = [(host, int(port)) for host, _, port in hosts]
    return workload.Client(
        name,
        servers,
        client.history,
        client.rng,
        time.time,
        lambda host: 0,
        lambda *place: 0,
        configs=client.plan.configs,
    )


def run_until_stopped(client: Client, task: Callable[..., Awaitable[None]], *args: Any) -> None:
    """Run a task with a workload's client until the process has to stop."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(task, workload_client(client, client.plan.name), *args))
            while not client.stopping.is_set():
                await trio.sleep(_LOOK_SECONDS)
            nursery.cancel_scope.cancel()

    trio.run(main)


def partitions_of(client: Client, topic: str) -> list[tuple[str, int]]:
    return [(topic, index) for index in range(client.plan.partitions)]
