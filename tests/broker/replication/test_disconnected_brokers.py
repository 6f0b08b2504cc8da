"""Brokers that count as disconnected, and for how long."""

import trio
from trio.testing import MockClock

from broker.replication.disconnected_brokers import DisconnectedBrokers


async def test_broker_is_disconnected_until_it_is_connected_again(autojump_clock: MockClock) -> None:
    disconnected = DisconnectedBrokers({1: 10, 2: 20}.get)
    assert not disconnected
    disconnected.add(1)
    assert (1 in disconnected, 2 in disconnected) == (True, False)
    disconnected.discard(1)
    assert 1 not in disconnected
    assert not disconnected


async def test_broker_that_is_not_fenced_within_a_second_is_not_disconnected(autojump_clock: MockClock) -> None:
    disconnected = DisconnectedBrokers({1: 10}.get)
    for _ in range(9):
        disconnected.add(1)
        await trio.sleep(0.1)
    assert 1 in disconnected
    disconnected.add(1)
    await trio.sleep(0.2)
    assert 1 not in disconnected


async def test_new_incarnation_of_a_disconnected_broker_is_not_disconnected(autojump_clock: MockClock) -> None:
    epochs = {1: 10}
    disconnected = DisconnectedBrokers(epochs.get)
    disconnected.add(1)
    epochs[1] = 11
    assert 1 not in disconnected
    disconnected.add(1)
    assert 1 in disconnected


async def test_unregistered_broker_is_never_disconnected(autojump_clock: MockClock) -> None:
    disconnected = DisconnectedBrokers({}.get)
    disconnected.add(1)
    assert 1 not in disconnected
