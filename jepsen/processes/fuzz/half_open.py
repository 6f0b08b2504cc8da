"""`python -m jepsen half-open`: connections to a node that never finish a TLS handshake or a login.

python -m jepsen half-open --connections 5000 --seconds 60                 from many addresses: most of them stay open
python -m jepsen half-open --connections 5000 --seconds 60 --addresses 1   from one: each takes the place of another
python -m jepsen half-open --connections 5000 --seconds 60 --addresses 0   from the address of the healthy client

A healthy client is measured before, and beside them. Connections that the node closes are made again after a pause.
"""

import argparse
import shutil
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
import trio

from broker.wire.api.sasl_handshake import SaslHandshakeRequest
from jepsen.hostile.frames import frame
from jepsen.processes.fuzz.command import healthy_text, longest_hold_ms
from jepsen.processes.fuzz.fuzz_run import set_up
from jepsen.processes.fuzz.fuzzed_node import FuzzedNode, Unserved
from jepsen.processes.fuzz.healthy_process import HealthyProcess

Send: TypeAlias = Callable[[trio.SocketStream], Awaitable[None]]

_BASELINE_S: Final = 5.0
_BYTE_S: Final = 1.0
_SAMPLE_S: Final = 0.5
# A login may take 30 s, and is looked at each second.
_CLOSED_WITHIN_S: Final = 40.0
# A TLS handshake that has begun takes some 50 KB.
_BYTES_PER_CONNECTION_MAX: Final = 150_000
_SPARE_FILES: Final = 10
_HOLDS_SHOWN: Final = 5


@attrs.define
class Findings:
    """The result of a run. `problems` is empty if the run passed."""

    before: dict[str, Any] = attrs.field(factory=dict)
    beside: dict[str, Any] = attrs.field(factory=dict)
    opened: int = 0
    refused: int = 0
    open_max: int = 0
    resident_bytes: list[int] = attrs.field(factory=list)
    open_files: list[int] = attrs.field(factory=list)
    cpu_seconds: float = 0.0
    seconds: float = 0.0
    files_closed_s: float = 0.0
    holds: list[str] = attrs.field(factory=list)
    problems: list[str] = attrs.field(factory=list)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--connections", type=int, default=5_000, help="connections that are kept half open")
    parser.add_argument("--addresses", type=int, default=25, help="addresses of this machine that they come from")
    parser.add_argument("--pause", type=float, default=2.0, help="seconds until a closed connection is made again")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long they are kept")
    parser.add_argument("--override", action="append", default=[], metavar="key=value", help="a config of the node")


def run(options: argparse.Namespace) -> int:
    """Returns the exit status, which is 0 if no problem was found."""
    directory = Path(tempfile.mkdtemp(prefix="half-open-"))
    node = FuzzedNode(directory, dict(pair.split("=", 1) for pair in options.override))
    findings = trio.run(HalfOpenRun(node, options).run)
    print(summary_text(options, findings), flush=True)
    if findings.problems:
        print(f"see {directory}")
    else:
        shutil.rmtree(directory)
    return 1 if findings.problems else 0


def summary_text(options: argparse.Namespace, findings: Findings) -> str:
    """The summary of a run, as text."""
    resident, files = [size / 1e6 for size in findings.resident_bytes or [0]], findings.open_files or [0]
    share = findings.cpu_seconds / max(findings.seconds, 1e-9)
    lines = [
        f"{options.connections} connections from {options.addresses} addresses, {findings.seconds:.0f} s: "
        f"{findings.opened} opened, at most {findings.open_max} at a time, {findings.refused} not accepted",
        f"  node: resident MB before {resident[0]:.0f}, max {max(resident):.0f}, last {resident[-1]:.0f}; open files "
        f"before {files[0]}, max {max(files)}, last {files[-1]} after {findings.files_closed_s:.0f} s; CPU {share:.2f}",
        f"  healthy client before: {healthy_text(findings.before)}",
        f"  healthy client beside: {healthy_text(findings.beside)}",
        f"  holds of the loop that it printed: {len(findings.holds)}, the longest {longest_hold_ms(findings.holds)} ms",
        *(f"    {line[:300]}" for line in findings.holds[-_HOLDS_SHOWN:]),
        *(f"PROBLEM: {problem[:4_000]}" for problem in findings.problems),
    ]
    return "\n".join(lines)


class HalfOpenRun:
    """One run against `node`, which has not been started yet."""

    def __init__(self, node: FuzzedNode, options: argparse.Namespace) -> None:
        self._node = node
        self._options = options
        self._findings = Findings()
        self._open = 0
        self._hello = _client_hello()

    async def run(self) -> Findings:
        """A failure is returned as a problem, not raised."""
        findings, node = self._findings, self._node
        try:
            await node.start()
            await set_up(node)
            findings.before = await self._measured(0)
            self._sample()
            began, cpu = time.monotonic(), node.cpu_seconds()
            healthy = HealthyProcess(node, findings.before.get("records", 0))
            try:
                await self._keep_half_open()
            finally:
                findings.beside = await healthy.end()
            findings.seconds, findings.cpu_seconds = time.monotonic() - began, node.cpu_seconds() - cpu
            await self._wait_until_closed()
            await node.stop()
        except (Unserved, AssertionError, OSError) as error:
            findings.problems.append(str(error))
        finally:
            node.discard()
        self._judge()
        return findings

    async def _measured(self, first: int) -> dict[str, Any]:
        healthy = HealthyProcess(self._node, first)
        await trio.sleep(min(_BASELINE_S, self._options.seconds))
        return await healthy.end()

    async def _keep_half_open(self) -> None:
        with trio.move_on_after(self._options.seconds):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch)
                for number in range(self._options.connections):
                    nursery.start_soon(self._repeat, number)

    async def _repeat(self, number: int) -> None:
        """Keep one connection half open, and make it again when the node has closed it."""
        send, port = self._kind(number)
        addresses, pause = self._options.addresses, self._options.pause
        address = f"127.0.1.{number % addresses + 1}" if addresses else "127.0.0.1"
        await trio.sleep(pause * number / self._options.connections)  # or all would be made again at once, for ever
        while True:
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", port, local_address=address)
            except OSError:
                self._findings.refused += 1
            else:
                self._findings.opened += 1
                self._open += 1
                try:
                    await _hold(stream, send)
                finally:
                    self._open -= 1
            await trio.sleep(pause)

    def _kind(self, number: int) -> tuple[Send, int]:
        """How a connection of this number behaves, and the port that it is made to."""
        hello, handshake = self._hello, frame(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1).data
        begun = (100_000).to_bytes(4, "big") + handshake[4:] + bytes(10_000)
        sent = number // 2 % 3
        if number % 2:
            return (_nothing, partial(_slowly, hello), partial(_at_once, hello))[sent], self._node.tls_port
        return (_nothing, partial(_slowly, begun), partial(_at_once, handshake))[sent], self._node.sasl_port

    async def _watch(self) -> None:
        while True:
            await trio.sleep(_SAMPLE_S)
            self._sample()

    def _sample(self) -> None:
        self._findings.open_max = max(self._findings.open_max, self._open)
        self._findings.resident_bytes.append(self._node.resident_bytes())
        self._findings.open_files.append(self._node.open_files())

    async def _wait_until_closed(self) -> None:
        findings, began = self._findings, time.monotonic()
        with trio.move_on_after(_CLOSED_WITHIN_S):
            while self._node.open_files() > findings.open_files[0] + _SPARE_FILES:
                await trio.sleep(_SAMPLE_S)
        self._sample()
        findings.files_closed_s = time.monotonic() - began

    def _judge(self) -> None:
        findings = self._findings
        for measured in findings.before, findings.beside:
            if error := measured.get("error"):
                findings.problems.append(f"the healthy client has failed: {error}")
        findings.problems += self._node.tracebacks()
        findings.holds = self._node.loop_holds()
        if not findings.open_files:
            return
        if findings.open_files[-1] > findings.open_files[0] + _SPARE_FILES:
            findings.problems.append(f"{findings.open_files[-1]} files are open after the end")
        grown = max(findings.resident_bytes) - findings.resident_bytes[0]
        if grown > max(findings.open_max * _BYTES_PER_CONNECTION_MAX, 50_000_000):
            findings.problems.append(f"the node's memory has grown by {grown} bytes")


async def _hold(stream: trio.SocketStream, send: Send) -> None:
    """Keep the connection until the node closes it. `send` sends what there is to send meanwhile."""

    async def send_to_node() -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await send(stream)

    async with stream, trio.open_nursery() as nursery:
        nursery.start_soon(send_to_node)
        with suppress(trio.BrokenResourceError):
            while await stream.receive_some():
                pass
        nursery.cancel_scope.cancel()


async def _nothing(stream: trio.SocketStream) -> None:
    """Leave the node waiting for the first byte."""


async def _at_once(data: bytes, stream: trio.SocketStream) -> None:
    await stream.send_all(data)


async def _slowly(data: bytes, stream: trio.SocketStream) -> None:
    for number in data:
        await stream.send_all(bytes([number]))
        await trio.sleep(_BYTE_S)


def _client_hello() -> bytes:
    """The first message of a TLS handshake."""
    outgoing = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="node")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()
