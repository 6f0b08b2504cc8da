"""Metrics of authentications by listener: SASL, TLS, authentication again and expired sessions (KIP-368)."""

import ssl
from pathlib import Path

import pytest
import trio

from broker.net.tls_stream import start_tls
from broker.wire.api.metadata import MetadataRequest
from tests.support.certificates import TestAuthority
from tests.support.running_node import RunningNode
from tests.support.sasl import authenticate, sasl_node, sasl_port
from tests.support.scraped_metrics import scrape
from tests.support.wire_client import connected

SESSION_MS = 1_000
CLIENTS, SECURE = "CLIENTS", "SECURE"


def port_of(node: RunningNode, listener: str) -> int:
    return next(bound.port for bound in node.node.bound if bound.listener.name == listener)


def secured(authority: TestAuthority) -> dict[str, object]:
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", "CONTROLLER", CLIENTS, SECURE)),
        "listener.security.protocol.map": (
            f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{CLIENTS}:SASL_PLAINTEXT,{SECURE}:SSL"
        ),
        "http.listener": "127.0.0.1:0",
        "connections.max.reauth.ms": SESSION_MS,
        "connection.failed.authentication.delay.ms": 0,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.issue("node", "127.0.0.1").file,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.file,
        "ssl.client.auth": "required",
    }


async def counts(node: RunningNode, listener: str) -> dict[str, float]:
    """The values of the metrics of a listener that are not 0, by the middle part of their names."""
    found = await scrape(port_of(node, "HTTP"))
    prefix = "kafka_server_socketservermetrics_"
    return {
        name.removeprefix(prefix).removesuffix("_total"): value
        for name, labels, value in found.samples
        if "authentication" in name or "expired" in name
        if labels == {"listener": listener}
    }


async def until_counted(node: RunningNode, listener: str, expected: dict[str, float]) -> None:
    with trio.move_on_after(10):
        while await counts(node, listener) != expected:
            await trio.sleep(0.02)
    assert await counts(node, listener) == expected


async def test_sasl_authentications_are_counted(tmp_path: Path) -> None:
    async with sasl_node(tmp_path / "node", **secured(TestAuthority(tmp_path))) as node:
        async with connected(sasl_port(node)) as client:
            assert (await authenticate(client, "SCRAM-SHA-256", password="wrong")).error_code
        await until_counted(node, CLIENTS, {"failed_authentication": 1})
        async with connected(sasl_port(node)) as client:
            assert not (await authenticate(client, "SCRAM-SHA-256")).error_code
            assert not (await authenticate(client, "SCRAM-SHA-256")).error_code
            await trio.sleep(SESSION_MS / 1000)
            assert (await authenticate(client, "SCRAM-SHA-256", password="wrong")).error_code
        expected = {
            "failed_authentication": 1.0,
            "successful_authentication": 1,
            "successful_reauthentication": 1,
            "failed_reauthentication": 1,
        }
        await until_counted(node, CLIENTS, expected)
        async with connected(sasl_port(node)) as client:
            assert not (await authenticate(client, "PLAIN")).error_code
            await trio.sleep(SESSION_MS / 1000)
            with pytest.raises(EOFError):
                await client.call(MetadataRequest(topics=[]), 12)
        expected |= {"successful_authentication": 2, "expired_connections_killed": 1}
        await until_counted(node, CLIENTS, expected)
        assert not await counts(node, "PLAINTEXT")


async def test_tls_authentications_are_counted(tmp_path: Path) -> None:
    authority, stranger = TestAuthority(tmp_path), TestAuthority(tmp_path, "stranger")

    async def handshake(context: ssl.SSLContext) -> None:
        transport = await trio.open_tcp_stream("127.0.0.1", port_of(node, SECURE))
        async with await start_tls(transport, context, server_hostname="127.0.0.1") as stream:
            assert await stream.receive_some() == b"", "a client that is refused"

    async with sasl_node(tmp_path / "node", **secured(authority)) as node:
        transport = await trio.open_tcp_stream("127.0.0.1", port_of(node, SECURE))
        context = authority.client_context(authority.issue("alice"))
        async with await start_tls(transport, context, server_hostname="127.0.0.1"):
            await until_counted(node, SECURE, {"successful_authentication": 1})
        for wrong in (authority.client_context(), authority.client_context(stranger.issue("mallory"))):
            with pytest.raises(trio.BrokenResourceError):
                await handshake(wrong)
        await until_counted(node, SECURE, {"successful_authentication": 1, "failed_authentication": 2})
        # A probe of the port authenticates nothing.
        async with await trio.open_tcp_stream("127.0.0.1", port_of(node, SECURE)):
            pass
        await until_counted(node, SECURE, {"successful_authentication": 1, "failed_authentication": 2})
