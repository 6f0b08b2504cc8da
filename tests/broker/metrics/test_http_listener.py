"""The HTTP listener: its paths, and clients that mean no good."""

import contextlib
import socket
from collections.abc import Callable, Iterator

import pytest
import trio
import trio.testing

from broker.metrics import MetricsRegistry, Sample, counter, gauge
from broker.metrics import http as http_listener
from broker.metrics.http import REQUEST_BYTES_MAX, SENDING_MAX, WAITING_MAX, HttpServer
from broker.metrics.metric import Family
from tests.support.scraped_metrics import OPEN_METRICS, HttpResponse, get, read_response

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
WITH_BOTH_LENGTHS = b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n"
# For all connections to fill the buffers of their sockets, if the node goes on.
STUCK_S = 0.5

READS = counter("reads_total", "Reads", labels=("topic",))
SIZE = gauge("size", "A size")


class Fixed:
    """A collector of the same values."""

    def __init__(self, *families: Family) -> None:
        self._families = families

    def collect(self) -> Iterator[Family]:
        return iter(self._families)


class Server:
    """A running listener with some metrics. `reasons` are why the node is not ready."""

    def __init__(self, port: int, reasons: list[str], failures: list[Exception], registry: MetricsRegistry) -> None:
        self.port, self.reasons, self.failures, self.registry = port, reasons, failures, registry

    async def get(self, path: str, accept: str = "*/*") -> HttpResponse:
        return await get(self.port, path, accept)

    async def send(self, data: bytes) -> bytes:
        """Everything that the server answers to these bytes before it closes the connection."""
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
            received = bytearray()
            try:
                await stream.send_all(data)
                async for some in stream:
                    received += some
            except trio.BrokenResourceError:
                pass
            return bytes(received)


@pytest.fixture
async def server(nursery: trio.Nursery) -> Server:
    registry = MetricsRegistry()
    registry.add(Fixed(SIZE.single(5), (READS, [Sample(("orders",), 7)])))
    reasons: list[str] = []
    failures: list[Exception] = []

    async def not_ready() -> list[str]:
        return reasons

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(HttpServer(registry.page, not_ready, failures.append).run, listeners)
    return Server(listeners[0].socket.getsockname()[1], reasons, failures, registry)


async def test_metrics_are_served_in_the_format_that_prometheus_accepts(server: Server) -> None:
    plain = await server.get("/metrics")
    assert (plain.status, plain.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert 'reads_total{topic="orders"} 7\n' in plain.body
    assert "# TYPE reads_total counter\n" in plain.body
    open_metrics = await server.get("/metrics?name=x", f"{OPEN_METRICS};q=0.5,text/plain;q=0.1")
    assert open_metrics.headers["content-type"].startswith("application/openmetrics-text")
    assert "# TYPE reads counter\n" in open_metrics.body
    assert open_metrics.body.endswith("# EOF\n")


async def test_health_and_readiness(server: Server) -> None:
    assert (await server.get("/healthz")).status == 200
    assert (await server.get("/readyz")).status == 200
    server.reasons.append("the broker is fenced")
    response = await server.get("/readyz")
    assert (response.status, response.body) == (503, "the broker is fenced\n")
    assert (await server.get("/healthz")).status == 200


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", 413),
        (b"GET /metrics HTTP/1.1\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HEALTH, 413),
        (WITH_BOTH_LENGTHS + b"0\r\n\r\n" + HEALTH, 400),
        (WITH_BOTH_LENGTHS + b"5\r\nhello\r\n0\r\n\r\n" + HEALTH, 400),
        (b"\0\0\0\x10not HTTP at all\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nLong: " + b"x" * 2 * REQUEST_BYTES_MAX, 431),
    ],
)
async def test_requests_that_are_not_served(server: Server, request_text: bytes, status: int) -> None:
    with trio.fail_after(5):
        received = await server.send(request_text)
    assert read_response(received).status == status
    assert received.count(b"HTTP/1.1 ") == 1, "the connection is closed, whatever follows"
    assert (await server.get("/healthz")).status == 200


async def test_connections_are_kept_between_requests(server: Server) -> None:
    last = b"HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answers = await server.send(HEALTH * 2 + last)
    assert answers.count(b"HTTP/1.1 200") == 3
    assert b"reads_total" not in answers


async def opened(port: int, count: int, data: bytes) -> list[trio.SocketStream]:
    """Connections that have sent some bytes, and read nothing."""
    streams = []
    for _ in range(count):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        if data:
            await stream.send_all(data)
        streams.append(stream)
    return streams


async def test_idle_connections_make_room_for_others(server: Server) -> None:
    idle = await opened(server.port, 3 * WAITING_MAX, b"")
    with trio.fail_after(5):
        assert (await server.get("/healthz")).status == 200
    for stream in idle:
        await stream.aclose()


async def test_connections_that_send_their_headers_slowly_lock_out_nobody(server: Server) -> None:
    slow = await opened(server.port, 3 * WAITING_MAX, b"GET /healthz HTTP/1.1\r\nSl")
    with trio.fail_after(5):
        for path in ("/healthz", "/readyz", "/metrics") * 2:
            assert (await server.get(path)).status == 200
            for stream in slow[-WAITING_MAX // 2 :]:
                await stream.send_all(b"o")
    for stream in slow:
        await stream.aclose()


async def test_newest_connections_that_wait_stay_open(server: Server) -> None:
    kept = await trio.open_tcp_stream("127.0.0.1", server.port)
    for _ in range(3):
        waiting = await opened(server.port, WAITING_MAX - 1, b"GET")
        await kept.send_all(HEALTH)
        with trio.fail_after(5):
            received = b""
            while not received.endswith(b"0\r\n\r\n"):
                some = await kept.receive_some(1000)
                assert some, "the connection was closed"
                received += some
        for stream in waiting:
            await stream.aclose()
    await kept.aclose()


async def test_connections_that_read_no_responses_lock_out_nobody(server: Server) -> None:
    """Each sends requests until its responses fill the sockets' buffers, and reads none of them."""
    slow = await opened(server.port, 2 * SENDING_MAX + WAITING_MAX, b"")
    async with trio.open_nursery() as nursery:
        for stream in slow:
            nursery.start_soon(send_requests_until_stuck, stream)
    with trio.fail_after(5):
        for path in ("/healthz", "/readyz", "/metrics"):
            assert (await server.get(path)).status == 200
    for stream in slow:
        await stream.aclose()


async def send_requests_until_stuck(stream: trio.SocketStream) -> None:
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with trio.move_on_after(STUCK_S), contextlib.suppress(trio.BrokenResourceError):
        while True:
            await stream.send_all(HEALTH * 1000)


async def test_slow_request_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_listener, "REQUEST_TIMEOUT_S", 0.05)
    with trio.fail_after(5):
        assert await server.send(b"GET /metrics HT") == b""


@pytest.mark.parametrize("fail", [lambda: 1 / 0, lambda: next(iter(()))])
async def test_collector_that_fails_ends_the_scrape_only(server: Server, fail: Callable[[], object]) -> None:
    class Failing:
        def collect(self) -> Iterator[Family]:
            yield SIZE.single(1)
            fail()

    server.registry.add(Failing())
    received = await server.send(SCRAPE)
    assert not received.endswith(b"0\r\n\r\n"), "Prometheus must not take the rest for whole"
    assert len(server.failures) == 1
    assert (await server.get("/healthz")).status == 200


class Large:
    """A collector of a gigabyte, until `is_large` is False."""

    is_large = True

    def collect(self) -> Iterator[Family]:
        yield READS, (Sample(("x" * 1000,), 1) for _ in range(1_000_000 if self.is_large else 1))


async def test_scrape_takes_the_place_of_one_that_is_not_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_listener, "SLOW_READER_S", 0.3)
    large = Large()
    server.registry.add(large)
    slow = await opened(server.port, 2 * http_listener.SCRAPES_MAX, SCRAPE)
    for stream in slow:
        await stream.receive_some(1)
    assert (await server.get("/healthz")).status == 200
    large.is_large = False
    with trio.fail_after(http_listener.SEND_TIMEOUT_S / 2):
        while (await server.get("/metrics")).status != 200:
            await trio.sleep(0.01)
    for stream in slow:
        await stream.aclose()
    assert server.failures == []


async def test_scrapes_that_ask_other_brokers_first_count_as_under_way(server: Server) -> None:
    answered = trio.Event()
    server.registry.add(Fixed(), answered.wait)
    async with trio.open_nursery() as nursery:
        for _ in range(http_listener.SCRAPES_MAX):
            nursery.start_soon(server.get, "/metrics")
        with trio.fail_after(5):
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert (await server.get("/metrics")).status == 503
        answered.set()


async def test_scrapes_at_the_same_time_are_bounded_and_slow_readers_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_listener, "SEND_TIMEOUT_S", 0.3)
    large = Large()
    server.registry.add(large)
    slow = await opened(server.port, http_listener.SCRAPES_MAX, SCRAPE)
    for stream in slow:
        await stream.receive_some(1)
    assert (await server.get("/metrics")).status == 503
    large.is_large = False
    with trio.fail_after(10):
        while (await server.get("/metrics")).status != 200:
            await trio.sleep(0.01)
    for stream in slow:
        await stream.aclose()
    assert server.failures == []
