"""The HTTP listener of a supervisor: the metrics and the health of all brokers of the host, on one page.

Each broker has a listener of its own, on a free port of the loopback interface, and is asked at each scrape. A broker
that does not answer is named by `kraft_broker_up` and by /readyz; the page has the metrics of the others.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import h11
import trio

from broker.metrics import OPEN_METRICS, TEXT, Format
from broker.metrics.http import HttpServer
from broker.metrics.merged_pages import merged_page

# For the metrics of the brokers, which are asked at the same time. Prometheus gives up after 10 s.
ANSWER_TIMEOUT_S: Final = 8.0
# For the readiness of the brokers. A probe of Kubernetes gives up after 1 s, and would not learn which broker is late.
READY_TIMEOUT_S: Final = 0.8
# Room for the series of some 100,000 replicas. A longer page is a mistake, and not kept in memory.
PAGE_BYTES_MAX: Final = 256 * 1024 * 1024
_RECEIVED_AT_ONCE: Final = 64 * 1024
_OK: Final = 200
_NO_ANSWER: Final = (OSError, trio.BrokenResourceError, h11.RemoteProtocolError, UnicodeError)


class HostMetrics:
    """Asks the brokers, whose ids are given, at the ports that they have announced."""

    def __init__(self, broker_ids: Sequence[str], failed: Callable[[Exception], None]) -> None:
        self._ports: dict[str, int | None] = dict.fromkeys(broker_ids)
        self._failed = failed

    def set_port(self, broker_id: str, port: int | None) -> None:
        """The port at which a broker has its metrics; None if it has ended."""
        self._ports[broker_id] = port

    async def run(self, listeners: Sequence[trio.SocketListener]) -> None:
        """Serve HTTP on these sockets until cancelled."""
        await HttpServer(self.page, self.not_ready, self._failed).run(listeners)

    async def page(self, text_format: Format) -> Iterator[str]:
        """The metrics of all brokers that answer."""
        answers = await self._ask_all("/metrics", text_format, ANSWER_TIMEOUT_S)
        return merged_page(
            {broker: body if status == _OK else None for broker, (status, body) in answers.items()}, text_format
        )

    async def not_ready(self) -> Sequence[str]:
        """The reasons for which brokers do not serve their clients."""
        reasons = []
        for broker, (status, body) in (await self._ask_all("/readyz", TEXT, READY_TIMEOUT_S)).items():
            if status != _OK:
                reasons += [f"broker {broker}: {line}" for line in body.splitlines()]
        return reasons

    async def _ask_all(self, path: str, text_format: Format, timeout_s: float) -> dict[str, tuple[int, str]]:
        """The status and body that each broker answers, at the same time. Without an answer: 0, and the reason."""
        answers = dict.fromkeys(self._ports, (0, "it does not run, or does not serve yet"))

        async def ask(broker: str, port: int) -> None:
            try:
                with trio.fail_after(timeout_s):
                    answers[broker] = await _get(port, path, text_format)
            except trio.TooSlowError:
                answers[broker] = 0, f"no answer within {timeout_s:g} s"
            except _NO_ANSWER:
                answers[broker] = 0, "no answer"

        async with trio.open_nursery() as nursery:
            for broker, port in self._ports.items():
                if port is not None:
                    nursery.start_soon(ask, broker, port)
        return answers


async def _get(port: int, path: str, text_format: Format) -> tuple[int, str]:
    """The status and the body of a response. Raises the exceptions of _NO_ANSWER."""
    accept = "application/openmetrics-text" if text_format is OPEN_METRICS else "text/plain"
    headers = [("Host", "127.0.0.1"), ("Accept", accept), ("Connection", "close")]
    protocol = h11.Connection(h11.CLIENT)
    status, body = 0, bytearray()
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(protocol.send(h11.Request(method="GET", target=path, headers=headers)) or b"")
        protocol.send(h11.EndOfMessage())
        while True:
            event: object = protocol.next_event()
            if event is h11.NEED_DATA:
                protocol.receive_data(bytes(await stream.receive_some(_RECEIVED_AT_ONCE)))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > PAGE_BYTES_MAX:
                    raise h11.RemoteProtocolError(f"more than {PAGE_BYTES_MAX} bytes")
            elif isinstance(event, h11.EndOfMessage):
                return status, body.decode()
            elif isinstance(event, h11.ConnectionClosed):
                raise h11.RemoteProtocolError("closed before the end")
