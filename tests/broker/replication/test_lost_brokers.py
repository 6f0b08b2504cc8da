"""Brokers whose connection has just broken: who counts as lost, and for how long."""

import trio
from trio.testing import MockClock

from broker.replication.lost_brokers import LostBrokers


async def test_a_broker_is_lost_until_there_is_a_connection_again(autojump_clock: MockClock) -> None:
    lost = LostBrokers({1: 10, 2: 20}.get)
    assert not lost
    lost.lose(1)
    assert (1 in lost, 2 in lost) == (True, False)
    lost.find(1)
    assert 1 not in lost
    assert not lost


async def test_after_a_second_the_metadata_is_believed_however_often_it_is_lost(autojump_clock: MockClock) -> None:
    lost = LostBrokers({1: 10}.get)
    for _ in range(9):
        lost.lose(1)
        await trio.sleep(0.1)
    assert 1 in lost
    lost.lose(1)
    await trio.sleep(0.2)
    assert 1 not in lost


async def test_new_incarnation_of_a_lost_broker_is_not_lost(autojump_clock: MockClock) -> None:
    epochs = {1: 10}
    lost = LostBrokers(epochs.get)
    lost.lose(1)
    epochs[1] = 11
    assert 1 not in lost
    lost.lose(1)
    assert 1 in lost


async def test_unregistered_broker_is_never_lost(autojump_clock: MockClock) -> None:
    lost = LostBrokers({}.get)
    lost.lose(1)
    assert 1 not in lost
