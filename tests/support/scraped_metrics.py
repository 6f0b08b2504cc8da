"""Scrapes /metrics as Prometheus does, and reads it with Prometheus' own parser."""

from collections.abc import Mapping
from typing import TypeAlias

import attrs
import trio
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open_metrics
from prometheus_client.parser import text_string_to_metric_families as read_text

Labels: TypeAlias = Mapping[str, str]
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


@attrs.frozen
class HttpResponse:
    status: int
    headers: Mapping[str, str]
    body: str


async def get(port: int, path: str, accept: str = "*/*") -> HttpResponse:
    """One request on a connection of its own."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        request = f"GET {path} HTTP/1.1\r\nHost: test\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
        await stream.send_all(request.encode())
        received = bytearray()
        async for data in stream:
            received += data
    return read_response(bytes(received))


def read_response(data: bytes) -> HttpResponse:
    """A whole response, whose body may be chunked."""
    head, _, body = data.partition(b"\r\n\r\n")
    status, *fields = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}
    if headers.get("transfer-encoding") == "chunked":
        body = _unchunked(body)
    return HttpResponse(int(status.split()[1]), headers, body.decode())


def _unchunked(body: bytes) -> bytes:
    parts: list[bytes] = []
    while True:
        size, _, body = body.partition(b"\r\n")
        if not int(size, 16):
            return b"".join(parts)
        parts.append(body[: int(size, 16)])
        body = body[int(size, 16) + 2 :]


class Scrape:
    """The series of one scrape."""

    def __init__(self, text: str, *, open_metrics: bool = False) -> None:
        families = list((read_open_metrics if open_metrics else read_text)(text))
        self.types = {family.name: family.type for family in families}
        self.samples = [(sample.name, sample.labels, sample.value) for family in families for sample in family.samples]

    def of(self, name: str, **labels: str) -> list[tuple[Labels, float]]:
        """The series of this name with at least these labels."""
        return [
            (found, value)
            for sample, found, value in self.samples
            if sample == name and labels.items() <= found.items()
        ]

    def value(self, name: str, **labels: str) -> float:
        """The sum of these series; 0 if there are none."""
        return sum(value for _, value in self.of(name, **labels))


async def scrape(port: int) -> Scrape:
    response = await get(port, "/metrics")
    assert response.status == 200
    return Scrape(response.body)
