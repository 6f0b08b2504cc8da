"""Pollers over real sockets. The kqueue is a model, which has a filter for each kind of event."""

import select
import socket
import struct
from collections.abc import Callable, Iterator

import pytest
import trio
import trio.testing

from broker.net.poller import MUTED, READ, WRITE, KqueuePoller, Poller, can_poll, open_poller
from tests.support.portable_system import kqueue_model

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def model_of_kqueue(monkeypatch: pytest.MonkeyPatch) -> Poller:
    if not hasattr(select, "kqueue"):
        for name, value in kqueue_model.names(select.epoll).items():
            monkeypatch.setattr(select, name, value, raising=False)
    return KqueuePoller()


@pytest.fixture(params=[model_of_kqueue, lambda _: open_poller()], ids=["kqueue", "fastest"])
def poller(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Poller]:
    make: Callable[[pytest.MonkeyPatch], Poller] = request.param
    if not can_poll():  # nor is there an epoll for the model of kqueue
        pytest.skip("this system has no poller")
    made = make(monkeypatch)
    yield made
    made.close()
    assert made.closed


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            yield accepted, client


def test_socket_is_reported_until_its_bytes_are_read(poller: Poller, ends: tuple[socket.socket, socket.socket]) -> None:
    ours, peer = ends
    poller.register(ours.fileno(), READ)
    assert poller.poll(0) == []
    peer.send(b"ab")
    for _ in range(2):
        assert poller.poll(5) == [(ours.fileno(), READ)]
    assert ours.recv(2) == b"ab"
    assert poller.poll(0) == []


def test_events_of_one_socket_come_together(poller: Poller, ends: tuple[socket.socket, socket.socket]) -> None:
    ours, peer = ends
    peer.send(b"ab")
    poller.register(ours.fileno(), READ)
    assert poller.poll(5) == [(ours.fileno(), READ)]
    poller.modify(ours.fileno(), READ | WRITE)
    assert poller.poll(5) == [(ours.fileno(), READ | WRITE)]
    poller.modify(ours.fileno(), WRITE)
    assert poller.poll(5) == [(ours.fileno(), WRITE)]


def test_muted_socket_is_reported_when_it_is_watched_again(
    poller: Poller, ends: tuple[socket.socket, socket.socket]
) -> None:
    ours, peer = ends
    poller.register(ours.fileno(), READ)
    poller.modify(ours.fileno(), MUTED)
    peer.send(b"ab")
    assert poller.poll(0.05) == []
    poller.modify(ours.fileno(), READ)
    assert poller.poll(5) == [(ours.fileno(), READ)]


def test_number_of_a_forgotten_socket_may_belong_to_another(poller: Poller) -> None:
    for _ in range(2):
        ours, peer = socket.socketpair()
        with ours, peer:
            poller.register(ours.fileno(), READ)
            peer.send(b"ab")
            assert poller.poll(5) == [(ours.fileno(), READ)]
            poller.unregister(ours.fileno())
            assert poller.poll(0) == []


def test_reset_connection_is_reported_as_readable(poller: Poller, ends: tuple[socket.socket, socket.socket]) -> None:
    ours, peer = ends
    poller.register(ours.fileno(), READ)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    peer.close()
    [(descriptor, events)] = poller.poll(5)
    assert descriptor == ours.fileno()
    assert events & READ
    with pytest.raises(ConnectionResetError):
        ours.recv(1)


async def test_trio_waits_for_the_descriptor_of_a_poller(
    poller: Poller, ends: tuple[socket.socket, socket.socket]
) -> None:
    ours, peer = ends
    poller.register(ours.fileno(), READ)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.lowlevel.wait_readable, poller.fileno())
        await trio.testing.wait_all_tasks_blocked()
        peer.send(b"ab")
    assert poller.poll(0) == [(ours.fileno(), READ)]
