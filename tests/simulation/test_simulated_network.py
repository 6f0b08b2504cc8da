"""Simulated sockets behave like the kernel's, without faults and with them."""

from collections.abc import Awaitable, Callable

import pytest
import trio

from jepsen.simulation import Host, Simulation

PORT = 9100
Log = list[tuple[str, object]]


def name_of(error: BaseException) -> str:
    return type(error).__name__


async def outcome_of(action: Callable[[], Awaitable[object]]) -> object:
    """The result of an action, or the name of the error that it raises."""
    try:
        return await action()
    except (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError) as error:
        return name_of(error)


async def echo(stream: trio.SocketStream) -> None:
    """Send everything back, and a final text after the end."""
    async with stream:
        try:
            async for chunk in stream:
                await stream.send_all(chunk)
            await stream.send_all(b"<end>")
        except trio.BrokenResourceError:
            pass


async def read_to_end(stream: trio.SocketStream) -> bytes:
    return b"".join([chunk async for chunk in stream])


async def exchange(log: Log, host: str, port: int) -> None:
    stream = await trio.open_tcp_stream(host, port)
    await stream.send_all(b"hello")
    log.append(("echo", await stream.receive_some()))
    await stream.send_all(b"")
    await stream.send_eof()
    await stream.send_eof()
    log.append(("half-closed", await read_to_end(stream)))
    log.append(("send after eof", await outcome_of(lambda: stream.send_all(b"x"))))
    await stream.aclose()
    log.append(("send after close", await outcome_of(lambda: stream.send_all(b"x"))))
    log.append(("receive after close", await outcome_of(stream.receive_some)))


async def large(log: Log, host: str, port: int) -> None:
    """Send more than any buffer holds, in both directions at once."""
    stream = await trio.open_tcp_stream(host, port)
    data = bytes(range(256)) * 20_000

    async def send() -> None:
        await stream.send_all(data)
        await stream.send_eof()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        log.append(("large", await read_to_end(stream) == data + b"<end>"))
    await stream.aclose()


async def back_pressure(log: Log, host: str, port: int) -> None:
    """A sender whose peer does not read sends no more than the buffers hold."""
    async with await trio.open_tcp_stream(host, port) as stream:
        with trio.move_on_after(0.3) as scope:
            while True:
                await stream.send_all(bytes(1 << 20))
        log.append(("back-pressure", scope.cancelled_caught))


async def refused(log: Log, host: str, port: int) -> None:
    with pytest.raises(OSError, match="all attempts to connect") as caught:
        await trio.open_tcp_stream(host, 1)
    group = caught.value.__cause__
    cause = group.exceptions[0] if isinstance(group, BaseExceptionGroup) else group
    assert cause is not None
    log.append(("refused", name_of(cause)))


async def close_wakes_reader(log: Log, host: str, port: int) -> None:
    stream = await trio.open_tcp_stream(host, port)

    async def read() -> None:
        log.append(("close wakes reader", await outcome_of(stream.receive_some)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.sleep(0.05)
        log.append(("second reader", await outcome_of(stream.receive_some)))
        await stream.aclose()


async def listening(log: Log, host: str, port: int) -> None:
    """A listener from opening to closing, with connections that were never accepted."""
    (listener,) = await trio.open_tcp_listeners(0, host=host)
    bound = listener.socket.getsockname()[1]
    try:
        await trio.open_tcp_listeners(bound, host=host)
    except OSError as error:
        log.append(("bound twice", error.errno))
    waiting = await trio.open_tcp_stream(host, bound)

    async def accept() -> None:
        async with await listener.accept() as stream:
            log.append(("peer", stream.socket.getpeername() == waiting.socket.getsockname()))
        log.append(("accept after close", await outcome_of(listener.accept)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        log.append(("accepted and closed", await waiting.receive_some()))
        await trio.sleep(0.05)
        await listener.aclose()
    await waiting.aclose()


async def reset(log: Log, host: str, port: int) -> None:
    """Closing with unread data resets the connection; closing without ends it."""
    (listener,) = await trio.open_tcp_listeners(0, host=host)
    bound = listener.socket.getsockname()[1]
    for name, sent in (("unread", b"data"), ("all read", b"")):
        client = await trio.open_tcp_stream(host, bound)
        server = await listener.accept()
        if sent:
            await client.send_all(sent)
            await trio.sleep(0.05)
        await server.aclose()
        await trio.sleep(0.05)
        log.append((f"closed with {name}", await outcome_of(client.receive_some)))
        await client.aclose()
    client = await trio.open_tcp_stream(host, bound)
    await (await listener.accept()).aclose()
    await trio.sleep(0.05)
    log.append(("first send to a closed peer", await outcome_of(lambda: client.send_all(b"x"))))
    await trio.sleep(0.05)
    log.append(("second send to a closed peer", await outcome_of(lambda: client.send_all(b"x"))))
    await client.aclose()
    await listener.aclose()


SCRIPT = (exchange, large, back_pressure, refused, close_wakes_reader, listening, reset)


async def run_script(log: Log, host: str) -> None:
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host=host)
        nursery.start_soon(trio.serve_listeners, echo, [listener])
        port = listener.socket.getsockname()[1]
        for part in SCRIPT:
            await part(log, host, port)
        nursery.cancel_scope.cancel()


def simulate(main: Callable[[Simulation, Host, Host], Awaitable[None]], seed: str = "test") -> Simulation:
    """Run `main` with two hosts, on the first of them."""
    simulation = Simulation(seed)
    one, other = simulation.add_host("one"), simulation.add_host("other")
    simulation.run(lambda: simulation.on(one, main, simulation, one, other))
    return simulation


def test_the_same_script_has_the_same_outcome_on_the_kernels_sockets() -> None:
    kernels: Log = []
    simulated: Log = []
    trio.run(run_script, kernels, "127.0.0.1")

    async def main(simulation: Simulation, one: Host, other: Host) -> None:
        await run_script(simulated, "one")

    simulate(main)
    assert simulated == kernels
    assert len(kernels) > 15


class Server:
    """An echo server as a host's process."""

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(trio.serve_tcp, echo, PORT)
            task_status.started()

    def stop(self) -> None:
        raise NotImplementedError


def with_server(test: Callable[[Simulation, Host, trio.SocketStream], Awaitable[None]]) -> Simulation:
    """Run a test against an echo server on another host, with a connection to it."""

    async def main(simulation: Simulation, one: Host, other: Host) -> None:
        async with trio.open_nursery() as nursery:
            other.start(nursery, lambda env: Server())
            await trio.sleep(0.1)
            async with await trio.open_tcp_stream("other", PORT) as stream:
                await stream.send_all(b"hello")
                assert await stream.receive_some() == b"hello"
                await test(simulation, other, stream)
            other.kill()

    return simulate(main)


def cut(simulation: Simulation, source: str, target: str) -> None:
    simulation.network.links.link(source, target).is_blocked = True


def test_a_partition_holds_segments_up_until_it_heals() -> None:
    async def test(simulation: Simulation, server: Host, stream: trio.SocketStream) -> None:
        cut(simulation, "one", "other")
        cut(simulation, "other", "one")
        await stream.send_all(b"patience")
        with trio.move_on_after(10) as scope:
            await stream.receive_some()
        assert scope.cancelled_caught
        simulation.network.heal()
        with trio.fail_after(2):
            assert await stream.receive_some() == b"patience"

    with_server(test)


def test_a_connection_whose_data_is_never_acknowledged_dies() -> None:
    async def test(simulation: Simulation, server: Host, stream: trio.SocketStream) -> None:
        cut(simulation, "one", "other")
        await stream.send_all(b"lost")
        await trio.sleep(29)
        await stream.send_all(b"still hoping")
        await trio.sleep(2)
        with pytest.raises(trio.BrokenResourceError):
            await stream.send_all(b"more")

    with_server(test)


def test_sender_without_acknowledgements_sends_one_window() -> None:
    async def test(simulation: Simulation, server: Host, stream: trio.SocketStream) -> None:
        cut(simulation, "other", "one")
        sent = 0
        with trio.move_on_after(5):
            while True:
                await stream.send_all(bytes(1024))
                sent += 1024
        assert 0 < sent <= 64 * 1024
        simulation.network.heal()
        with trio.fail_after(5):
            await stream.send_all(bytes(1024))

    with_server(test)


def test_a_killed_process_ends_its_connections_and_refuses_new_ones() -> None:
    async def test(simulation: Simulation, server: Host, stream: trio.SocketStream) -> None:
        server.kill()
        assert await stream.receive_some() == b""
        with pytest.raises(OSError, match="all attempts to connect"):
            await trio.open_tcp_stream("other", PORT)

    with_server(test)


def test_killed_process_resets_connections_with_unread_data() -> None:
    async def test(simulation: Simulation, server: Host, stream: trio.SocketStream) -> None:
        server.pause()
        await stream.send_all(b"unread")
        await trio.sleep(0.1)
        server.kill()
        with pytest.raises(trio.BrokenResourceError):
            await stream.receive_some()

    with_server(test)


def test_a_power_cut_is_silent_until_the_machine_is_back() -> None:
    async def test(simulation: Simulation, server: Host, stream: trio.SocketStream) -> None:
        server.power_cut()
        with trio.move_on_after(5) as scope:
            await stream.receive_some()
        assert scope.cancelled_caught
        with trio.move_on_after(5) as scope:
            await trio.open_tcp_stream("other", PORT)
        assert scope.cancelled_caught
        async with trio.open_nursery() as nursery:
            server.start(nursery, lambda env: Server())
            await trio.sleep(1)
            await stream.send_all(b"who are you?")
            with trio.fail_after(5), pytest.raises(trio.BrokenResourceError):
                await stream.receive_some()
            server.kill()

    with_server(test)


def test_a_paused_process_is_sent_to_by_its_kernel_and_answers_later() -> None:
    async def test(simulation: Simulation, server: Host, stream: trio.SocketStream) -> None:
        server.pause()
        await stream.send_all(b"wake up")
        async with await trio.open_tcp_stream("other", PORT) as another:
            with trio.move_on_after(5) as scope:
                await stream.receive_some()
            assert scope.cancelled_caught
            server.resume()
            assert await stream.receive_some() == b"wake up"
            await another.send_all(b"me too")
            assert await another.receive_some() == b"me too"

    with_server(test)


def test_loss_delays_and_never_reorders() -> None:
    async def test(simulation: Simulation, server: Host, stream: trio.SocketStream) -> None:
        simulation.network.links.link("one", "other").loss = 0.5
        data = bytes(range(256)) * 100
        began = trio.current_time()
        for at in range(0, len(data), 1000):
            await stream.send_all(data[at : at + 1000])
        received = b""
        while len(received) < len(data):
            received += await stream.receive_some()
        assert received == data
        assert trio.current_time() - began > 0.2

    with_server(test)


def test_a_reset_breaks_both_ends() -> None:
    async def test(simulation: Simulation, server: Host, stream: trio.SocketStream) -> None:
        simulation.network.reset_between(simulation.hosts["one"], server)
        with pytest.raises(trio.BrokenResourceError):
            await stream.receive_some()
        with pytest.raises(trio.BrokenResourceError):
            await stream.send_all(b"x")

    with_server(test)
