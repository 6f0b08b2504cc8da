"""Brokers and topics that a client cannot reach are named with the reason, in a log line and in the final error."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Literal

import pytest
import trio

from broker.client import (
    Admin,
    AuthenticationFailed,
    ConnectionLost,
    Consumer,
    KafkaError,
    MismatchedEndpointType,
    NewTopic,
    Producer,
    ShareConsumer,
    SyncAdmin,
    SyncConsumer,
    SyncProducer,
    TimedOut,
    TopicPartition,
    UndeliveredRecords,
)
from broker.wire.errors import ErrorCode
from jepsen.processes.ports import free_ports
from tests.support.produced import make_topic
from tests.support.running_node import running_node

WITHIN_S = 30.0
REFUSED = "connection refused: no process listens there"
QUICK: dict[str, Any] = {"reconnect_backoff_ms": 10, "retry_backoff_ms": 10, "request_timeout_ms": 5_000}


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[int]:
    """A port that sends this once it has received something; then it closes."""

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(answer)
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


async def send_to(address: str) -> str:
    """The error of a record that no broker is there for."""
    with trio.fail_after(WITHIN_S):
        async with Producer(address, max_block_ms=300, **QUICK) as producer:
            with pytest.raises((TimedOut, AuthenticationFailed)) as raised:
                await producer.send("orders", b"value")
    assert isinstance(raised.value.__cause__ or raised.value, ConnectionLost)
    return str(raised.value)


async def test_refused_connection_is_logged_once_and_named_by_every_client(caplog: pytest.LogCaptureFixture) -> None:
    (port,) = free_ports(1)
    reason = f"bootstrap server 127.0.0.1:{port} cannot be reached: {REFUSED}"
    error = await send_to(f"127.0.0.1:{port}")
    assert error == f"the record was not sent within 300 ms (max.block.ms): no broker can be reached: {reason}"
    assert warnings(caplog) == [reason]
    assert caplog.records[0].name == "broker.client.reachability"

    async with Consumer(f"127.0.0.1:{port}", client_id="reader", default_api_timeout_ms=300, **QUICK) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        with pytest.raises(ConnectionLost, match=f"no broker can be reached: {reason}"):
            await consumer.fetch(timeout_s=0.2)
        with trio.fail_after(WITHIN_S), pytest.raises(ConnectionLost, match=reason):
            await consumer.fetch()
        with pytest.raises(TimedOut, match=reason):
            await consumer.end_offsets([TopicPartition("orders", 0)])
    assert warnings(caplog) == [reason, f"client reader: {reason}"]

    async with Admin(f"127.0.0.1:{port}", default_api_timeout_ms=300, **QUICK) as admin:
        with pytest.raises(TimedOut, match=reason):
            await admin.list_topics()


async def test_unknown_host_is_named() -> None:
    assert "bootstrap server no.such.host.invalid:9092 cannot be reached: " in await send_to(
        "no.such.host.invalid:9092"
    )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "an HTTP server answers, not a Kafka broker"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "a TLS port answers; this client speaks no TLS (security.protocol)"),
        (
            b"SSH-2.0-OpenSSH_9.2\r\n",
            "a response of 1397966893 bytes, as no broker sends it; it begins with b'SSH-2.0-OpenSSH",
        ),
        (b"\x00\x00\x00\x04\x00\x00\x00\x00", "the other side does not speak Kafka's protocol"),
        (
            b"",
            "closed by the other side, without an answer, as TLS ports do; this client speaks no TLS",
        ),
    ],
    ids=["http", "tls", "ssh", "short", "closed"],
)
async def test_port_of_something_else_is_named(answer: bytes, reason: str) -> None:
    async with answering(answer) as port:
        error = await send_to(f"127.0.0.1:{port}")
    assert f"127.0.0.1:{port} cannot be reached: it takes connections, but is no broker for clients: {reason}" in error


async def test_controller_as_the_only_bootstrap_server_is_named_at_once_by_every_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_node(tmp_path) as node:
        controller = f"127.0.0.1:{node.controller_port}"
        reason = (
            f"no broker can be reached: bootstrap server {controller} cannot be reached: it takes connections, but is"
            " no broker for clients: a controller answers; use the port of a broker, or bootstrap_controllers of an"
            " Admin (KIP-919)"
        )

        async def send() -> None:
            async with Producer(controller) as producer:
                await producer.send("orders", b"value")

        async def begin_transaction() -> None:
            async with Producer(controller, transactional_id="mover") as producer, producer.transaction():
                pass

        async def fetch(timeout_s: float = inf, group_id: str | None = None) -> None:
            async with Consumer(controller, group_id=group_id) as consumer:
                if group_id is None:
                    consumer.assign([TopicPartition("orders", 0)])
                else:
                    consumer.subscribe(["orders"])
                await consumer.fetch(timeout_s=timeout_s)

        async def look_up_offsets() -> None:
            async with Consumer(controller) as consumer:
                await consumer.end_offsets([TopicPartition("orders", 0)])

        async def administer(call: Callable[[Admin], Awaitable[object]]) -> None:
            async with Admin(controller) as admin:
                await call(admin)

        def send_blocking() -> None:
            with SyncProducer(controller) as producer:
                producer.send("orders", b"value")

        def fetch_blocking() -> None:
            with SyncConsumer(controller, group_id="readers") as consumer:
                consumer.subscribe(["orders"])
                consumer.fetch(timeout_s=5)

        def list_blocking() -> None:
            with SyncAdmin(controller) as admin:
                admin.list_topics()

        calls: list[Callable[[], Awaitable[object]]] = [
            send,
            begin_transaction,
            fetch,
            partial(fetch, 5.0),
            partial(fetch, group_id="readers"),
            look_up_offsets,
            partial(administer, lambda admin: admin.list_topics()),
            partial(administer, lambda admin: admin.create_topics([NewTopic("orders")])),
            partial(administer, lambda admin: admin.describe_cluster()),
            partial(administer, lambda admin: admin.describe_groups(["readers"])),
            partial(trio.to_thread.run_sync, send_blocking),
            partial(trio.to_thread.run_sync, fetch_blocking),
            partial(trio.to_thread.run_sync, list_blocking),
        ]
        for call in calls:
            with trio.fail_after(WITHIN_S), pytest.raises(MismatchedEndpointType) as raised:
                await call()
            assert str(raised.value) == reason
            assert not raised.value.retriable
        # One line of each client.
        assert {f"no broker can be reached: {line}" for line in warnings(caplog)} == {reason}


async def test_controller_among_the_bootstrap_servers_is_passed_over(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        servers = [f"127.0.0.1:{port}" for port in (node.controller_port, node.port)]
        for _ in range(4):  # they are tried in random order
            async with Admin(servers) as admin:
                assert (await admin.describe_cluster(timeout_ms=5_000)).controller_id == 1
        (unused,) = free_ports(1)
        # The broker may start yet, so this is tried until the time is over.
        async with Admin([servers[0], f"127.0.0.1:{unused}"], **QUICK) as admin:
            with pytest.raises(TimedOut, match="a controller answers") as raised:
                await admin.list_topics(timeout_ms=500)
            assert REFUSED in str(raised.value)


async def test_broker_whose_address_leads_to_a_controller_is_tried_again(tmp_path: Path) -> None:
    port, controller_port = free_ports(2)
    async with running_node(
        tmp_path,
        listeners=f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        advertised_listeners=f"PLAINTEXT://127.0.0.1:{controller_port}",
    ):
        with trio.fail_after(WITHIN_S):
            async with Producer(f"127.0.0.1:{port}", request_timeout_ms=1_000, delivery_timeout_ms=1_500) as producer:
                with pytest.raises(TimedOut, match=r"advertised\.listeners.*a controller answers"):
                    await producer.send("orders", b"value")


async def test_advertised_address_that_cannot_be_reached_is_told_apart_from_the_bootstrap_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    advertised, port, controller_port = free_ports(3)
    async with running_node(
        tmp_path,
        listeners=f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        advertised_listeners=f"PLAINTEXT://127.0.0.1:{advertised}",
    ):
        reason = (
            f"broker 1 at 127.0.0.1:{advertised}, the address that the cluster gives its clients "
            rf"\(advertised.listeners\) through 127.0.0.1:{port}, cannot be reached: {REFUSED}"
        )
        with trio.fail_after(WITHIN_S):
            async with Producer(f"127.0.0.1:{port}", request_timeout_ms=1_000, delivery_timeout_ms=1_500) as producer:
                with pytest.raises(TimedOut, match=f"partition 0 of orders were not written.*{reason}"):
                    await producer.send("orders", b"value")
            async with Consumer(f"127.0.0.1:{port}", auto_offset_reset="earliest") as consumer:
                consumer.assign([TopicPartition("orders", 0)])
                with pytest.raises(ConnectionLost, match=reason):
                    await consumer.fetch(timeout_s=1)
    assert len(warnings(caplog)) == 2, "one of each client"


async def test_missing_topics_are_told_from_unreachable_brokers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_node(tmp_path, auto_create_topics_enable="false") as node:
        bootstrap = f"127.0.0.1:{node.port}"
        await make_topic(bootstrap, "orders")
        missing = "topic missing does not exist: create it, or check its name"
        async with Producer(bootstrap, max_block_ms=200) as producer:
            with pytest.raises(TimedOut, match=missing):
                await producer.send("missing", b"value")
            with pytest.raises(TimedOut, match="topic orders has 1 partition: the partition that was asked for"):
                await producer.send("orders", b"value", partition=3)
        async with Consumer(bootstrap, group_id="readers") as consumer:
            for topic, partition, reason in (("missing", 0, missing), ("orders", 3, "orders has 1 partition, and no")):
                consumer.assign([TopicPartition("orders", 0), TopicPartition(topic, partition)])
                with pytest.raises(KafkaError, match=reason) as raised:
                    await consumer.fetch(timeout_s=1)
                assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            await consumer.unsubscribe()
            for topic in ("not/allowed", "missing"):
                consumer.subscribe([topic])
                with pytest.raises(KafkaError, match=f"topic {topic} does not exist"):
                    await consumer.fetch(timeout_s=1)
            await make_topic(bootstrap, "missing")
            assert await consumer.fetch(timeout_s=0.1) == []
    assert f"{missing}; the consumer goes on when it exists" in warnings(caplog)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_group_whose_coordinator_has_no_topic_is_told_in_the_log_and_by_reads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, protocol: Literal["classic", "consumer"]
) -> None:
    async with running_node(tmp_path, offsets_topic_replication_factor="3") as node:
        bootstrap = f"127.0.0.1:{node.port}"
        await make_topic(bootstrap, "orders")
        reason = (
            "group readers has no coordinator, and so gets no partitions: The coordinator is not available."
            " __consumer_offsets cannot be created: offsets.topic.replication.factor is 3, and 1 broker is there."
            " Start more brokers, or restart them with a smaller value."
        )
        async with Consumer(
            bootstrap, group_id="readers", group_protocol=protocol, default_api_timeout_ms=5_000
        ) as consumer:
            consumer.subscribe(["orders"])
            assert await consumer.fetch(timeout_s=0.1) == [], "a topic that is being created is no trouble yet"
            await trio.sleep(3)  # as long as such trouble is tolerated
            with trio.fail_after(WITHIN_S), pytest.raises(KafkaError) as raised:
                await consumer.fetch(timeout_s=0.5)
            assert (raised.value.code, raised.value.message) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)
            with trio.fail_after(WITHIN_S), pytest.raises(KafkaError, match="group readers has no coordinator"):
                await consumer.fetch()  # it has no end of its own
            assert warnings(caplog) == [reason]
            assert caplog.records[-1].name == "broker.client.consumer.group.coordinator_trouble"
            await consumer.unsubscribe()
            consumer.assign([TopicPartition("orders", 0)])
            assert await consumer.fetch(timeout_s=0.1) == [], "without a group's partitions, no coordinator is needed"


@pytest.mark.parametrize("client", [Producer, Consumer, ShareConsumer, Admin])
def test_client_outside_of_trio_names_trio_and_the_other_clients(
    client: type[Producer | Consumer | ShareConsumer | Admin],
) -> None:
    settings: dict[str, Any] = {"group_id": "workers"} if client is ShareConsumer else {}

    async def main() -> None:
        async with client("127.0.0.1:9092", **settings):
            pass

    name = client.__name__
    with pytest.raises(
        RuntimeError, match=rf"the client runs under Trio: call trio\.run.* Asyncio{name}\b.* Sync{name}\b"
    ):
        asyncio.run(main())


async def test_records_for_a_broker_that_is_not_there_are_told_at_the_end_of_the_block() -> None:
    (port,) = free_ports(1)

    async def run() -> None:
        async with Producer(f"127.0.0.1:{port}", max_block_ms=200, **QUICK) as producer:
            producer.send_soon("orders", b"value")

    with trio.fail_after(WITHIN_S), pytest.raises(UndeliveredRecords, match=f"1 record was not written: .*{REFUSED}"):
        await run()
