"""Leaders ask the coordinators of other brokers about transactions, one request at a time (KIP-890)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import trio
import trio.testing

from broker.coordinator.broker_connections import BrokerConnections
from broker.coordinator.transaction.transaction import ProducerIdAndEpoch
from broker.coordinator.transaction.verification import ClientSupport, TransactionVerifier, Verdicts
from broker.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from broker.wire.api.api_versions import ApiVersion
from broker.wire.errors import ErrorCode
from metadata.image.cluster import BrokerImage
from metadata.records import BrokerEndpoint
from tests.support.scripted_node import ScriptedNode, scripted_node

COORDINATOR = 2
TOPIC = "__transaction_state"
LISTENER = "PLAINTEXT"


class Coordinator:
    """Answers as soon as `released`. Transactions whose id begins with "bad" have an error."""

    def __init__(self) -> None:
        self.released = trio.Event()
        self.node: ScriptedNode

    async def answer(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        await self.released.wait()
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=each.transactional_id,
                    topic_results=[
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(
                                    partition_index=index,
                                    partition_error_code=ErrorCode.PRODUCER_FENCED
                                    if each.transactional_id.startswith("bad")
                                    else ErrorCode.NONE,
                                )
                                for index in topic.partitions
                            ],
                        )
                        for topic in each.topics
                    ],
                )
                for each in request.transactions
            ]
        )

    @property
    def asked(self) -> list[list[str]]:
        """The transactional ids of each request."""
        return [[each.transactional_id for each in request.transactions] for request in self.node.requests]


@asynccontextmanager
async def verifier_of(coordinator: Coordinator) -> AsyncIterator[TransactionVerifier]:
    async with scripted_node(coordinator.answer) as node, trio.open_nursery() as nursery:
        coordinator.node = node
        node.api_versions = [ApiVersion(AddPartitionsToTxnRequest.__message__.key, 0, 5)]
        endpoint = BrokerEndpoint(name=LISTENER, host="127.0.0.1", port=node.port, security_protocol=0)
        broker = BrokerImage(COORDINATOR, 1, b"i" * 16, {LISTENER: endpoint}, {}, None, False, False, ())
        connections = BrokerConnections("test", LISTENER, lambda _: broker, lambda: 5_000)
        partition = SimpleNamespace(leader=COORDINATOR)
        image: Any = SimpleNamespace(
            topics=SimpleNamespace(by_name={TOPIC: SimpleNamespace(partitions={0: partition})})
        )
        local: Any = SimpleNamespace(runtime=SimpleNamespace(partition_for=lambda _: 0))
        verifier = TransactionVerifier(
            1, TOPIC, lambda: image, local, connections, lambda: None, retry_ms=lambda: (0, 0)
        )
        nursery.start_soon(connections.run)
        nursery.start_soon(verifier.run)
        await trio.testing.wait_all_tasks_blocked()
        yield verifier
        nursery.cancel_scope.cancel()


async def test_transactions_that_come_together_are_asked_about_in_one_request() -> None:
    """A request has a transactional id once: a second question about it waits for the next request."""
    coordinator = Coordinator()
    found: dict[str, Verdicts] = {}
    async with verifier_of(coordinator) as verifier, trio.open_nursery() as nursery:

        async def verify(key: str, name: str, index: int) -> None:
            partitions = (("orders", index),)
            found[key] = await verifier.verify(name, ProducerIdAndEpoch(7, 0), partitions, ClientSupport.NONE)

        nursery.start_soon(verify, "first", "first", 0)
        await coordinator.node.wait_for(1)
        for key, name in (("a", "a"), ("a again", "a"), ("bad", "bad"), ("b", "b")):
            nursery.start_soon(verify, key, name, len(found))
        await trio.testing.wait_all_tasks_blocked()
        coordinator.released.set()
        with trio.fail_after(5):
            while len(found) < 5:
                await trio.sleep(0.001)
    first, second, third = coordinator.asked
    assert first == ["first"]
    assert sorted(second) == ["a", "b", "bad"]
    assert third == ["a"]
    assert found.pop("bad") == {("orders", 0): ErrorCode.INVALID_PRODUCER_EPOCH}
    assert set(map(len, found.values())) == {0}


async def test_requests_stay_below_the_coordinators_bound() -> None:
    coordinator = Coordinator()
    done: list[str] = []
    async with verifier_of(coordinator) as verifier, trio.open_nursery() as nursery:

        async def verify(name: str) -> None:
            partitions = tuple((f"{name}-{number}" * 20, 0) for number in range(20))
            assert await verifier.verify(name, ProducerIdAndEpoch(7, 0), partitions, ClientSupport.NONE) == {}
            done.append(name)

        for number in range(40):
            nursery.start_soon(verify, f"transaction-{number}")
        coordinator.released.set()
        with trio.fail_after(10):
            while len(done) < 40:
                await trio.sleep(0.001)
    assert sum(map(len, coordinator.asked)) == 40
    assert max(map(len, coordinator.asked)) < 12


async def test_questions_to_a_broker_that_is_lost_are_answered_with_a_retriable_error() -> None:
    coordinator = Coordinator()
    found: list[Verdicts] = []
    async with verifier_of(coordinator) as verifier, trio.open_nursery() as nursery:

        async def verify(name: str) -> None:
            partitions = (("orders", 0),)
            found.append(await verifier.verify(name, ProducerIdAndEpoch(7, 0), partitions, ClientSupport.NONE))

        nursery.start_soon(verify, "first")
        await coordinator.node.wait_for(1)
        nursery.start_soon(verify, "second")
        await trio.testing.wait_all_tasks_blocked()
        coordinator.node.drop_connections()
        coordinator.released.set()
        with trio.fail_after(10):
            while len(found) < 2:
                await trio.sleep(0.001)
    assert found[0] == {("orders", 0): ErrorCode.NOT_ENOUGH_REPLICAS}
    assert found[1] in ({}, found[0]), "the broker is there again"
