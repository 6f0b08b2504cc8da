"""The page of a supervisor, with brokers that answer, end, or answer nonsense."""

from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock

from broker.cli import host_metrics
from broker.cli.host_metrics import HostMetrics
from broker.metrics import TEXT, Format
from broker.metrics.http import HttpServer
from tests.support.scraped_metrics import Scrape


async def broker_page(text_format: Format) -> Iterator[str]:
    return iter(["# HELP size A size\n# TYPE size gauge\nsize 5\n"])


async def serve(nursery: trio.Nursery, reasons: list[str]) -> int:
    """A broker that answers. Returns its port."""

    async def not_ready() -> list[str]:
        return reasons

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(HttpServer(broker_page, not_ready, pytest.fail).run, listeners)
    port: int = listeners[0].socket.getsockname()[1]
    return port


async def serve_bytes(nursery: trio.Nursery, answer: bytes) -> int:
    """A listener that answers with these bytes and closes the connection. Returns its port."""

    async def answer_and_close(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(answer)

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, answer_and_close, listeners)
    port: int = listeners[0].socket.getsockname()[1]
    return port


async def test_brokers_that_do_not_answer_are_named_and_the_others_shown(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, jumping_clock: MockClock
) -> None:
    monkeypatch.setattr(host_metrics, "PAGE_BYTES_MAX", 1_000)
    began = trio.current_time()
    unused = await trio.open_tcp_listeners(0, host="127.0.0.1")
    (silent,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    refused: int = unused[0].socket.getsockname()[1]
    await unused[0].aclose()
    ports = {
        "1": await serve(nursery, []),
        "2": await serve(nursery, ["the broker is fenced or not registered"]),
        "3": None,
        "4": refused,
        "5": silent.socket.getsockname()[1],
        "6": await serve_bytes(nursery, b"no HTTP\r\n\r\n"),
        "7": await serve_bytes(nursery, b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"),
        "8": await serve_bytes(nursery, b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000),
        "9": await serve_bytes(nursery, b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n\xff"),
    }
    metrics = HostMetrics(list(ports), pytest.fail)
    for broker_id, port in ports.items():
        metrics.set_port(broker_id, port)
    shown = Scrape("".join(await metrics.page(TEXT)))
    assert {labels["broker"]: value for name, labels, value in shown.samples if name == "kraft_broker_up"} == {
        broker_id: int(broker_id in "12") for broker_id in ports
    }
    assert {labels["broker"] for name, labels, _ in shown.samples if name == "size"} == {"1", "2"}
    assert trio.current_time() - began == pytest.approx(8)
    assert await metrics.not_ready() == [
        "broker 2: the broker is fenced or not registered",
        "broker 3: it does not run, or does not serve yet",
        "broker 4: no answer",
        "broker 5: no answer within 0.8 s",
        *(f"broker {broker_id}: no answer" for broker_id in "6789"),
    ]
    # A probe of Kubernetes gives up after a second, and would not learn which broker is late.
    assert trio.current_time() - began == pytest.approx(8 + 0.8)
    await silent.aclose()
