"""Transactional clients of the client library, and the final reads of what they have committed.

The names of clients with a transactional id end with a letter. Without it, they are the transactional ids: clients
whose names differ only in the letter fence each other.
"""

from typing import Final

import trio

from jepsen.processes.clients.client import Client
from jepsen.processes.clients.workload_client import partitions_of, run_until_stopped, workload_client
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


def transactional_id_of(name: str) -> str:
    """The transactional id of a client by its name."""
    return name[:-1]


def transact(client: Client) -> None:
    """Write transactions until the client has to stop."""
    run_until_stopped(
        client,
        write_transactions,
        transactional_id_of(client.plan.name),
        partitions_of(client, client.plan.topic),
        client.plan.rate,
    )


def transform_records(client: Client) -> None:
    """Consume, transform and produce until the client has to stop."""
    run_until_stopped(client, _transform, client, transactional_id_of(client.plan.name))


def move(client: Client) -> None:
    """Move amounts between accounts until the client has to stop."""
    name, rate = client.plan.name, client.plan.rate
    run_until_stopped(client, move_amounts, transactional_id_of(name), partitions_of(client, BANK), rate)


def audit(client: Client) -> None:
    """Read all accounts until the client has to stop."""
    run_until_stopped(client, audit_accounts, partitions_of(client, BANK))


def mix_assigned(client: Client) -> None:
    """Mix polls and sends, with all partitions assigned, until the client has to stop."""
    _mix(client, None)


def mix_subscribed(client: Client) -> None:
    """Mix polls and sends, as a member of a group, until the client has to stop."""
    _mix(client, _MIXING)


def _mix(client: Client, subscription: Subscription | None) -> None:
    transactional_id, partitions = transactional_id_of(client.plan.name), partitions_of(client, client.plan.topic)
    run_until_stopped(client, mix_polls_and_sends, transactional_id, partitions, client.plan.rate, subscription)


def consume_committed(client: Client) -> None:
    """Read all partitions, committed records only, until the client has to stop."""

    async def read_all(reader: workload.Client) -> None:
        async with trio.open_nursery() as nursery:
            for topic in (client.plan.topic, OUTPUT):
                for _, index in partitions_of(client, topic):
                    named = workload_client(client, f"{client.plan.name}.{topic}-{index}")
                    nursery.start_soon(read_committed, named, topic, index)

    run_until_stopped(client, read_all)


def read_transactions(client: Client) -> None:
    """Wait until no transaction is open and all records are transformed, and read all committed records."""
    trio.run(_read_transactions, client)


async def _read_transactions(client: Client) -> None:
    reader = workload_client(client, client.plan.name)
    inputs = partitions_of(client, client.plan.topic)
    reads = [(partition, await read_all_committed(reader, *partition)) for partition in inputs]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_transform, workload_client(client, f"{client.plan.name}.x"), client, "last")
        await wait_transformed(reader, _GROUP, ends_of(reads))
        nursery.cancel_scope.cancel()
    for partition in (*partitions_of(client, OUTPUT), *partitions_of(client, BANK)):
        await read_all_committed(reader, *partition)


async def _transform(member: workload.Client, client: Client, transactional_id: str) -> None:
    output = partitions_of(client, OUTPUT)
    await transform(member, transactional_id, _GROUP, _PROTOCOL, [client.plan.topic], output)
