"""Connections with each driver, over real sockets: order, pipelining, bounds, back-pressure, refusals."""

import contextlib
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest
import trio
import trio.testing

from broker.net.acceptor import Acceptor
from broker.net.admission import ConnectionLimits
from broker.net.connection import IN_FLIGHT_MAX, Connection, ProtocolError, Sender
from broker.net.listener_security import PLAINTEXT, ListenerSecurity
from broker.net.receive_buffer import INITIAL_SIZE, STEADY_SIZE
from broker.net.reply import FileRange, PendingReply, Reply, frame_response
from broker.net.tls_stream import start_tls
from kraft.env import RealDisk, kernel_socket
from tests.support.certificates import TestAuthority

REQUEST_SIZE_MAX = 4 * 1024 * 1024


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class Commands:
    """A service whose requests say how they are to be answered: `<verb> <argument>`."""

    def __init__(self) -> None:
        self.parked: list[PendingReply] = []
        self.served: list[bytes] = []
        self.held_at_commit: list[int] = []
        self.commit_succeeds = True
        self.connections: list[Connection] = []
        self.closed: list[str | None] = []
        self.refused: list[str] = []
        self.file: FileRange | None = None

    def open_session(self, connection: Connection) -> None:
        """Keep no state."""

    def sender_of(self, connection: Connection, start: int, end: int) -> Sender:
        return Sender.CLIENT

    def check_size(self, connection: Connection, api_key: int, size: int) -> None:
        """Accept every size."""

    def serve(self, connection: Connection, start: int, end: int) -> Reply:
        request = bytes(connection.buffer.data[start:end])
        self.served.append(request)
        self.connections.append(connection)
        verb, _, argument = request.partition(b" ")
        match verb:
            case b"echo":
                return frame(argument)
            case b"silent":
                return None
            case b"park":
                self.parked.append(PendingReply(connection))
                return self.parked[-1]
            case b"exclusive":
                self.parked.append(PendingReply(connection, is_exclusive=True))
                return self.parked[-1]
            case b"release":
                self.parked.pop(0).complete(frame(b"released"))
                return frame(argument)
            case b"throttle":
                connection.throttle()
                return frame(argument)
            case b"unthrottle":
                for each in self.connections:
                    each.end_throttle()
                return frame(argument)
            case b"large":
                return [struct.pack(">i", int(argument)), bytes(int(argument))]
            case b"file":
                assert self.file is not None
                return frame_response(7, False, [FileRange(self.file.file, self.file.position, self.file.size)])
        raise ProtocolError(f"no such verb: {verb!r}")

    def commit(self) -> bool:
        self.held_at_commit.append(sum(connection.outgoing_size for connection in self.connections))
        return self.commit_succeeds

    def on_close(self, connection: Connection) -> None:
        self.closed.append(connection.close_reason)

    def on_refused(self, listener: str, peer: str, reason: str) -> None:
        self.refused.append(reason)


class Server:
    def __init__(self, commands: Commands, acceptor: Acceptor, port: int, tls: ssl.SSLContext | None) -> None:
        self.commands = commands
        self.acceptor = acceptor
        self.port = port
        self._tls = tls

    async def connect(self) -> trio.abc.Stream:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        return stream if self._tls is None else await start_tls(stream, self._tls, server_hostname="127.0.0.1")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    return TestAuthority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(params=["epoll", "tls", "stream"])
async def server(
    request: pytest.FixtureRequest, nursery: trio.Nursery, authority: TestAuthority
) -> AsyncIterator[Server]:
    commands = Commands()
    is_tls = request.param == "tls"
    take_socket = (lambda stream: None) if request.param == "stream" else kernel_socket
    certificate = authority.issue("node", "127.0.0.1")
    security = ListenerSecurity(lambda: authority.server_context(certificate)) if is_tls else PLAINTEXT
    limits = ConnectionLimits(REQUEST_SIZE_MAX, connections_max=8, connections_per_ip_max=6, idle_ms_max=600_000)
    acceptor = Acceptor(commands.commit, limits, take_socket, commands.on_close, commands.on_refused)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(acceptor.run)
    nursery.start_soon(partial(acceptor.serve, "PLAINTEXT", listeners, commands, security=security))
    port = listeners[0].socket.getsockname()[1]
    yield Server(commands, acceptor, port, authority.client_context() if is_tls else None)
    nursery.cancel_scope.cancel()


async def test_connection_that_is_accepted_while_the_node_stops_is_closed(nursery: trio.Nursery) -> None:
    commands = Commands()
    limits = ConnectionLimits(REQUEST_SIZE_MAX, connections_max=8, connections_per_ip_max=6, idle_ms_max=600_000)
    acceptor = Acceptor(commands.commit, limits, kernel_socket, commands.on_close, commands.on_refused)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    with trio.CancelScope() as running:
        running.cancel()
        await acceptor.run()
    nursery.start_soon(acceptor.serve, "PLAINTEXT", listeners, commands)
    async with await trio.open_tcp_stream("127.0.0.1", listeners[0].socket.getsockname()[1]) as client:
        with trio.fail_after(5):
            assert await client.receive_some() == b""
    assert commands.refused == ["the node stops"]
    assert acceptor.connection_count == 0
    nursery.cancel_scope.cancel()


async def read_frame(stream: trio.abc.ReceiveStream, held: bytearray) -> bytes:
    async def exactly(count: int) -> bytes:
        while len(held) < count:
            data = await stream.receive_some()
            if not data:
                raise EOFError
            held.extend(data)
        taken = bytes(held[:count])
        del held[:count]
        return taken

    (size,) = struct.unpack(">i", await exactly(4))
    return await exactly(size)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until another task makes the condition true."""
    with trio.fail_after(5):
        while not condition():
            await trio.sleep(0.001)


async def assert_closed(stream: trio.abc.Stream) -> None:
    with trio.fail_after(5), contextlib.suppress(trio.BrokenResourceError):
        assert await stream.receive_some() == b""


async def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    async with await server.connect() as stream:
        await stream.send_all(b"".join(frame(b"echo %d" % i) for i in range(1000)))
        held = bytearray()
        assert [await read_frame(stream, held) for _ in range(1000)] == [b"%d" % i for i in range(1000)]


async def test_a_request_may_arrive_byte_by_byte(server: Server) -> None:
    async with await server.connect() as stream:
        for byte in frame(b"echo slowly"):
            await stream.send_all(bytes([byte]))
            await trio.lowlevel.checkpoint()
        assert await read_frame(stream, bytearray()) == b"slowly"


async def test_a_parked_reply_holds_back_later_replies_but_not_later_requests(server: Server) -> None:
    async with await server.connect() as stream:
        await stream.send_all(frame(b"park") + frame(b"echo second"))
        await until(lambda: len(server.commands.served) == 2)
        await stream.send_all(frame(b"release third"))
        held = bytearray()
        assert [await read_frame(stream, held) for _ in range(3)] == [b"released", b"second", b"third"]


async def test_an_exclusive_request_holds_back_later_requests(server: Server) -> None:
    async with await server.connect() as stream, await server.connect() as other:
        await stream.send_all(frame(b"exclusive") + frame(b"echo second"))
        await until(lambda: len(server.commands.served) == 1)
        await other.send_all(frame(b"release other"))
        assert await read_frame(other, bytearray()) == b"other"
        held = bytearray()
        assert [await read_frame(stream, held) for _ in range(2)] == [b"released", b"second"]
        assert server.commands.served == [b"exclusive", b"release other", b"echo second"]


async def test_finishing_connection_answers_run_requests_and_runs_no_more(server: Server) -> None:
    async with await server.connect() as stream, await server.connect() as idle, await server.connect() as other:
        await idle.send_all(frame(b"echo idle"))
        assert await read_frame(idle, bytearray()) == b"idle"
        await stream.send_all(frame(b"park") + frame(b"exclusive") + frame(b"echo not run"))
        await until(lambda: len(server.commands.parked) == 2)
        finishing = [server.commands.connections[-1], server.commands.connections[0]]
        for connection in finishing:
            connection.finish("enough")
        await assert_closed(idle)
        await stream.send_all(frame(b"echo not run either"))
        await other.send_all(frame(b"release other") + frame(b"release other"))
        held = bytearray()
        assert [await read_frame(stream, held) for _ in range(2)] == [b"released", b"released"]
        await assert_closed(stream)
        assert server.commands.closed == ["enough", "enough"]
        assert server.commands.served == [b"echo idle", b"park", b"exclusive", b"release other", b"release other"]


async def test_connection_that_finishes_drops_a_request_that_waits_for_its_turn(server: Server) -> None:
    async with await server.connect() as stream, await server.connect() as other:
        await stream.send_all(frame(b"park") + frame(b"exclusive"))
        await until(lambda: len(server.commands.parked) == 2)
        connection, exclusive = server.commands.connections[-1], server.commands.parked.pop()
        assert exclusive.is_exclusive
        connection.finish("enough")
        connection.resume(exclusive, lambda: pytest.fail("it is not to be carried out"))
        assert (exclusive.done, connection.closed) == (True, False)
        await other.send_all(frame(b"release other"))
        assert await read_frame(stream, bytearray()) == b"released"
        await assert_closed(stream)


async def test_throttled_connection_sends_replies_and_runs_nothing_until_its_time_is_over(server: Server) -> None:
    """KIP-219: the response is sent at once. The next request is not handled and, once noticed, no more is read."""
    async with await server.connect() as stream, await server.connect() as other:
        await stream.send_all(frame(b"park") + frame(b"throttle second") + frame(b"echo third"))
        await until(lambda: len(server.commands.served) == 2)
        await other.send_all(frame(b"release other"))
        held = bytearray()
        assert [await read_frame(stream, held) for _ in range(2)] == [b"released", b"second"]
        await stream.send_all(frame(b"echo fourth"))
        throttled = server.commands.connections[0]
        await until(lambda: throttled.muted)
        assert not throttled.is_idle
        assert len(server.commands.served) == 3

        await other.send_all(frame(b"unthrottle all"))
        assert [await read_frame(stream, held) for _ in range(2)] == [b"third", b"fourth"]
        await until(lambda: throttled.is_idle)
        await stream.send_all(frame(b"echo fifth"))
        assert await read_frame(stream, held) == b"fifth"


async def test_throttled_connection_that_finishes_is_closed(server: Server) -> None:
    async with await server.connect() as stream:
        await stream.send_all(frame(b"throttle first") + frame(b"echo second"))
        held = bytearray()
        assert await read_frame(stream, held) == b"first"
        server.acceptor.finish_all("PLAINTEXT", "the test ends it")
        await assert_closed(stream)
        assert len(server.commands.served) == 1


async def test_one_connection_completes_another_connections_reply(server: Server) -> None:
    async with await server.connect() as waiting, await server.connect() as other:
        await waiting.send_all(frame(b"park"))
        await until(lambda: bool(server.commands.parked))
        await other.send_all(frame(b"release x"))
        assert await read_frame(waiting, bytearray()) == b"released"
        assert await read_frame(other, bytearray()) == b"x"


async def test_a_request_without_reply(server: Server) -> None:
    async with await server.connect() as stream:
        await stream.send_all(frame(b"silent") + frame(b"echo next"))
        assert await read_frame(stream, bytearray()) == b"next"


async def test_requests_larger_than_the_buffer(server: Server) -> None:
    async with await server.connect() as stream:
        payload = bytes(range(256)) * 8192
        held = bytearray()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, frame(b"echo " + payload) + frame(b"echo after"))
            assert await read_frame(stream, held) == payload
            assert await read_frame(stream, held) == b"after"


@pytest.mark.parametrize("size", [-1, -(2**31), REQUEST_SIZE_MAX + 1, 2**31 - 1])
async def test_an_impossible_length_closes_the_connection(server: Server, size: int) -> None:
    async with await server.connect() as stream, await server.connect() as healthy:
        await stream.send_all(struct.pack(">i", size) + b"x" * 10)
        await assert_closed(stream)
        await healthy.send_all(frame(b"echo fine"))
        assert await read_frame(healthy, bytearray()) == b"fine"
        (reason,) = server.commands.closed
        assert str(size) in str(reason)


async def test_a_claimed_length_takes_no_memory(server: Server) -> None:
    async with await server.connect() as stream:
        await stream.send_all(frame(b"echo hello"))
        assert await read_frame(stream, bytearray()) == b"hello"
        await stream.send_all(struct.pack(">i", REQUEST_SIZE_MAX) + b"only this much")
        connection = server.commands.connections[0]
        await until(lambda: connection.buffer.end - connection.buffer.start == 18)
        assert len(connection.buffer.data) == INITIAL_SIZE


async def test_a_refused_request_closes_only_its_connection_and_nothing_after_it_runs(server: Server) -> None:
    async with await server.connect() as stream, await server.connect() as healthy:
        await stream.send_all(frame(b"nonsense") + frame(b"echo never"))
        await assert_closed(stream)
        await healthy.send_all(frame(b"echo fine"))
        assert await read_frame(healthy, bytearray()) == b"fine"
        assert server.commands.served == [b"nonsense", b"echo fine"]


async def test_closed_connection_abandons_parked_replies(server: Server) -> None:
    abandoned: list[bool] = []
    stream = await server.connect()
    await stream.send_all(frame(b"park"))
    await until(lambda: bool(server.commands.parked))
    server.commands.parked[0].on_abandon = lambda: abandoned.append(True)
    await stream.aclose()
    await until(lambda: bool(abandoned))
    server.commands.parked[0].complete(frame(b"too late"))
    assert server.acceptor.connection_count == 0


async def test_requests_in_flight_are_bounded_and_go_on_afterwards(server: Server) -> None:
    async with await server.connect() as stream:
        count = IN_FLIGHT_MAX + 40
        await stream.send_all(frame(b"park") + b"".join(frame(b"echo %d" % i) for i in range(count)))
        await until(lambda: len(server.commands.served) == IN_FLIGHT_MAX)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert len(server.commands.served) == IN_FLIGHT_MAX
        server.commands.parked[0].complete(frame(b"go"))
        held = bytearray()
        assert [await read_frame(stream, held) for _ in range(count + 1)] == [b"go", *(b"%d" % i for i in range(count))]


async def test_replies_after_a_parked_reply_are_bounded_in_bytes(server: Server) -> None:
    async with await server.connect() as stream:
        await stream.send_all(frame(b"exclusive"))
        await until(lambda: bool(server.commands.parked))
        connection = server.commands.connections[0]
        flood = frame(b"silent " + bytes(1000))
        count = 20_000  # 20 MB, far more than the sockets and the connection may buffer
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, flood * count + frame(b"echo end"))
            await until(lambda: connection.muted)
            assert len(connection.buffer.data) == STEADY_SIZE
            server.commands.parked[0].complete(frame(b"go"))
            held = bytearray()
            assert [await read_frame(stream, held) for _ in range(2)] == [b"go", b"end"]
        assert len(server.commands.served) == count + 2


async def test_a_slow_reader_stops_being_served_and_others_do_not(server: Server) -> None:
    async with await server.connect() as slow, await server.connect() as healthy:
        replies, size = 64, 1024 * 1024
        await slow.send_all(frame(b"large %d" % size) * replies)
        await until(lambda: len(server.commands.served) >= 1)
        await healthy.send_all(frame(b"echo fine"))
        assert await read_frame(healthy, bytearray()) == b"fine"
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert server.commands.served.count(b"large %d" % size) < replies / 2
        held = bytearray()
        for _ in range(replies):
            assert len(await read_frame(slow, held)) == size


async def test_requests_that_fill_the_buffer_are_served_to_a_slow_reader(server: Server) -> None:
    """TLS has then decrypted all that it holds, and does not know yet that it is all."""
    request = frame(b"large 20000")
    count = INITIAL_SIZE // len(request) - 1
    last = b"x" * (INITIAL_SIZE - count * len(request) - len(frame(b"echo ")))
    async with await server.connect() as stream:
        await stream.send_all(request * count + frame(b"echo " + last))
        await until(lambda: bool(server.commands.served))
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert len(server.commands.served) < count, "the replies do not fit into the buffers of the sockets"
        held = bytearray()
        with trio.fail_after(10):
            for _ in range(count):
                assert len(await read_frame(stream, held)) == 20_000
            assert await read_frame(stream, held) == last


async def test_a_failed_commit_closes_the_connection_instead_of_acknowledging(server: Server) -> None:
    async with await server.connect() as stream:
        server.commands.commit_succeeds = False
        await stream.send_all(frame(b"echo acknowledged"))
        await assert_closed(stream)


async def test_replies_are_sent_only_after_the_commit(server: Server) -> None:
    async with await server.connect() as stream:
        await stream.send_all(frame(b"echo a"))
        reply = await read_frame(stream, bytearray())
        assert server.commands.held_at_commit[0] == len(frame(reply))


@pytest.mark.parametrize("size", [10, 100_000, 3_000_000])
async def test_file_ranges_are_sent_whole(server: Server, tmp_path: object, size: int) -> None:
    file = RealDisk().open(f"{tmp_path}/segment", create=True)
    content = bytes(i * 7 % 251 for i in range(size))
    file.write(0, [b"before", content, b"behind"])
    server.commands.file = FileRange(file, 6, size)
    async with await server.connect() as stream:
        await stream.send_all(frame(b"file") + frame(b"echo next"))
        held = bytearray()
        assert await read_frame(stream, held) == struct.pack(">i", 7) + content
        assert await read_frame(stream, held) == b"next"
    file.close()


async def test_a_file_cut_while_it_is_sent_closes_the_connection(server: Server, tmp_path: object) -> None:
    file = RealDisk().open(f"{tmp_path}/segment", create=True)
    file.write(0, [b"short"])
    server.commands.file = FileRange(file, 0, 1_000_000)
    async with await server.connect() as stream:
        await stream.send_all(frame(b"file"))
        with trio.fail_after(5), contextlib.suppress(trio.BrokenResourceError):
            while await stream.receive_some():
                pass
        await until(lambda: server.acceptor.connection_count == 0)
    file.close()


async def test_connections_beyond_the_limit_per_host_wait_for_others_to_close(server: Server) -> None:
    streams = [await server.connect() for _ in range(6)]
    for stream in streams:
        await stream.send_all(frame(b"echo in"))
        assert await read_frame(stream, bytearray()) == b"in"
    async with await server.connect() as waiting:
        await waiting.send_all(frame(b"echo two") + frame(b"echo requests"))
        with trio.move_on_after(0.1) as waited:
            await waiting.receive_some()
        assert waited.cancelled_caught
        assert server.acceptor.connection_count == 6
        await streams[0].aclose()
        received = bytearray()
        assert [await read_frame(waiting, received) for _ in range(2)] == [b"two", b"requests"]
        assert server.acceptor.connection_count == 6
    for stream in streams:
        await stream.aclose()


async def test_new_connection_may_be_idle_for_a_whole_period(nursery: trio.Nursery) -> None:
    commands = Commands()
    limits = ConnectionLimits(REQUEST_SIZE_MAX, connections_max=8, connections_per_ip_max=8, idle_ms_max=400)
    acceptor = Acceptor(commands.commit, limits, kernel_socket, commands.on_close, commands.on_refused)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(acceptor.run)
    nursery.start_soon(acceptor.serve, "PLAINTEXT", listeners, commands)
    await trio.sleep(0.3)  # close to the end of the acceptor's first period
    idle = await trio.open_tcp_stream("127.0.0.1", listeners[0].socket.getsockname()[1])
    began = trio.current_time()
    await assert_closed(idle)
    assert trio.current_time() - began >= 0.4
    await idle.aclose()
    nursery.cancel_scope.cancel()


async def test_idle_connections_are_closed(nursery: trio.Nursery) -> None:
    commands = Commands()
    limits = ConnectionLimits(REQUEST_SIZE_MAX, connections_max=8, connections_per_ip_max=8, idle_ms_max=50)
    acceptor = Acceptor(commands.commit, limits, kernel_socket, commands.on_close, commands.on_refused)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(acceptor.run)
    nursery.start_soon(acceptor.serve, "PLAINTEXT", listeners, commands)
    port = listeners[0].socket.getsockname()[1]
    waiting = await trio.open_tcp_stream("127.0.0.1", port)
    await waiting.send_all(frame(b"park"))
    idle = await trio.open_tcp_stream("127.0.0.1", port)
    await assert_closed(idle)
    commands.parked[0].complete(frame(b"still here"))
    assert await read_frame(waiting, bytearray()) == b"still here"
    await waiting.aclose()
    await idle.aclose()
    nursery.cancel_scope.cancel()
