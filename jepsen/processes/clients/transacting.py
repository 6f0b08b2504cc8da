"""Transactional clients of the client library, and the final reads of what they have committed.

The names of clients with a transactional id end with a letter. Without it, they are the transactional ids: clients
whose names differ only in the letter fence each other.
"""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import trio

from jepsen.processes.clients.client import Client
from jepsen.workloads import client as workload
from jepsen.workloads.bank import audit_accounts, move_amounts
from jepsen.workloads.committed_reader import ends_of, read_all_committed, read_committed
from jepsen.workloads.mixed_transactions import Subscription, mix_polls_and_sends
from jepsen.workloads.transactional_producer import write_transactions
from jepsen.workloads.transformer import transform, wait_transformed

# The topic that transformers write to.
OUTPUT: Final = "output"
# The topic with the accounts of the bank.
BANK: Final = "bank"
# The roles of clients with a transactional id.
TRANSACTIONAL_ROLES: Final = ("transact", "transform", "move-amounts", "mix-assigned", "mix-subscribed")
_GROUP: Final = "transformers"
_PROTOCOL: Final = "consumer"
# The group of the clients that mix polls and sends.
_MIXING: Final = Subscription("mixers", _PROTOCOL)
_LOOK_SECONDS: Final = 0.1


def transactional_id_of(name: str) -> str:
    """The transactional id of a client by its name."""
    return name[:-1]


def transact(client: Client) -> None:
    """Write transactions until the client has to stop."""
    _run(
        client,
        write_transactions,
        transactional_id_of(client.plan.name),
        _partitions(client, client.plan.topic),
        client.plan.rate,
    )


def transform_records(client: Client) -> None:
    """Consume, transform and produce until the client has to stop."""
    _run(client, _transform, client, transactional_id_of(client.plan.name))


def move(client: Client) -> None:
    """Move amounts between accounts until the client has to stop."""
    name, rate = client.plan.name, client.plan.rate
    _run(client, move_amounts, transactional_id_of(name), _partitions(client, BANK), rate)


def audit(client: Client) -> None:
    """Read all accounts until the client has to stop."""
    _run(client, audit_accounts, _partitions(client, BANK))


def mix_assigned(client: Client) -> None:
    """Mix polls and sends, with all partitions assigned, until the client has to stop."""
    _mix(client, None)


def mix_subscribed(client: Client) -> None:
    """Mix polls and sends, as a member of a group, until the client has to stop."""
    _mix(client, _MIXING)


def _mix(client: Client, subscription: Subscription | None) -> None:
    transactional_id, partitions = transactional_id_of(client.plan.name), _partitions(client, client.plan.topic)
    _run(client, mix_polls_and_sends, transactional_id, partitions, client.plan.rate, subscription)


def consume_committed(client: Client) -> None:
    """Read all partitions, committed records only, until the client has to stop."""

    async def read_all(reader: workload.Client) -> None:
        async with trio.open_nursery() as nursery:
            for topic in (client.plan.topic, OUTPUT):
                for _, index in _partitions(client, topic):
                    named = _workload_client(client, f"{client.plan.name}.{topic}-{index}")
                    nursery.start_soon(read_committed, named, topic, index)

    _run(client, read_all)


def read_transactions(client: Client) -> None:
    """Wait until no transaction is open and all records are transformed, and read all committed records."""
    trio.run(_read_transactions, client)


async def _read_transactions(client: Client) -> None:
    reader = _workload_client(client, client.plan.name)
    inputs = _partitions(client, client.plan.topic)
    reads = [(partition, await read_all_committed(reader, *partition)) for partition in inputs]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_transform, _workload_client(client, f"{client.plan.name}.x"), client, "last")
        await wait_transformed(reader, _GROUP, ends_of(reads))
        nursery.cancel_scope.cancel()
    for partition in (*_partitions(client, OUTPUT), *_partitions(client, BANK)):
        await read_all_committed(reader, *partition)


async def _transform(member: workload.Client, client: Client, transactional_id: str) -> None:
    output = _partitions(client, OUTPUT)
    await transform(member, transactional_id, _GROUP, _PROTOCOL, [client.plan.topic], output)


def _run(client: Client, task: Callable[..., Awaitable[None]], *args: Any) -> None:
    """Run a task with the client until the client has to stop."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(task, _workload_client(client, client.plan.name), *args))
            while not client.stopping.is_set():
                await trio.sleep(_LOOK_SECONDS)
            nursery.cancel_scope.cancel()

    trio.run(main)


def _partitions(client: Client, topic: str) -> list[tuple[str, int]]:
    return [(topic, index) for index in range(client.plan.partitions)]


def _workload_client(client: Client, name: str) -> workload.Client:
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
