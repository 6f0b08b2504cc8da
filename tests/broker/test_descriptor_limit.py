"""The file descriptors of a node: few of them (RLIMIT_NOFILE), and the kernel's table of them."""

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio

from broker.wire.api.metadata import MetadataRequest
from kraft.file_descriptors import descriptor_limit
from tests.support.linux import reads_proc
from tests.support.node_process import NodeProcess
from tests.support.requests import batch, create_topic, produce, read_values
from tests.support.wire_client import WireClient, connected

DESCRIPTORS = 128
SEGMENT_BYTES = 1024 * 1024


class LimitedNode(NodeProcess):
    """A node whose process is limited to DESCRIPTORS descriptors."""

    def command(self) -> list[str]:
        return ["sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "sh", *super().command()]


@asynccontextmanager
async def idle_connections(port: int, count: int) -> AsyncIterator[list[trio.SocketStream]]:
    """Connections without requests, open within the block unless the node closes them."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port)) for _ in range(count)]


async def is_open(stream: trio.SocketStream) -> bool:
    with trio.move_on_after(0.01):
        try:
            return await stream.receive_some() != b""
        except trio.BrokenResourceError:
            return False
    return True


async def until_closed(stream: trio.SocketStream) -> None:
    with trio.fail_after(20):
        while await is_open(stream):
            await trio.sleep(0.02)


async def reconnected(port: int) -> None:
    """Wait until a new connection is served."""
    with trio.fail_after(20):
        while True:
            try:
                async with connected(port) as client:
                    await client.call(MetadataRequest(topics=[]), 9)
                return
            except (OSError, EOFError, trio.BrokenResourceError):
                await trio.sleep(0.05)


async def write_beyond_one_segment(client: WireClient, topic: str) -> None:
    for _ in range(3):
        await produce(client, batch(bytes(SEGMENT_BYTES // 2)), topic=topic)


@pytest.mark.parametrize("port", ["port", "controller_port"])
async def test_node_out_of_client_descriptors_keeps_serving_and_recovers(tmp_path: Path, port: str) -> None:
    overrides = {"log.segment.bytes": str(SEGMENT_BYTES), "max.connections": "300"}
    node = LimitedNode(tmp_path / "data", overrides)
    try:
        await trio.to_thread.run_sync(node.start)
        async with connected(node.port) as client:
            await create_topic(client)
            await produce(client, batch(b"first"))
            async with idle_connections(getattr(node, port), 2 * DESCRIPTORS) as idle:
                await until_closed(idle[-1])  # the last connection that it accepts
                assert node.is_running, node.output_tail()
                # The node's own files: a topic with new logs, and new segments of old and new logs.
                await create_topic(client, "new", partitions=8)
                for topic in ("topic", "new"):
                    await write_beyond_one_segment(client, topic)
                assert (await read_values(client))[0] == b"first"
                assert await is_open(idle[0])
            await reconnected(node.port)
        segments = sorted(path.name for path in (tmp_path / "data" / "topic-0").glob("*.log"))
        assert len(segments) > 1
        output = node.output()
        assert (
            "config_warning: max.connections=300 is more than the 64 connections that this process can serve" in output
        )
        assert "Traceback" not in output
        assert "offline" not in output
        assert 0 < sum("connection_refused" in line for line in output.splitlines()) <= 11
        await trio.to_thread.run_sync(node.stop)
    finally:
        node.discard()


@reads_proc
@pytest.mark.skipif(sys.platform != "linux", reason="reads the size of the table from /proc")
async def test_descriptor_table_is_large_before_connections_need_it(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "data")
    try:
        await trio.to_thread.run_sync(node.start)
        status = await trio.Path(f"/proc/{node.process.pid}/status").read_text()
        (size,) = [int(line.split()[1]) for line in status.splitlines() if line.startswith("FDSize:")]
        assert size >= min(8_192, descriptor_limit())
        await trio.to_thread.run_sync(node.stop)
    finally:
        node.discard()
