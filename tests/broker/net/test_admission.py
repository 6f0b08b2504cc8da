"""Limits on the number of connections, in all, by listener and by address; brokers have priority (KIP-402, KIP-612)."""

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.net.admission import Admission, ConnectionLimits, ListenerKind

CLIENTS, OTHERS, BROKERS, CONTROLLERS = "PLAINTEXT", "OTHERS", "BROKERS", "CONTROLLERS"


@attrs.define
class Rates:
    """Has listeners and addresses pause."""

    pause_ms: int = 0
    limited_by_node: list[bool] = attrs.field(factory=list)

    def record(self, listener: str, *, is_limited_by_node: bool) -> int:
        self.limited_by_node.append(is_limited_by_node)
        return self.pause_ms

    def record_address(self, listener: str, address: str, *, is_limited_by_node: bool) -> int:
        return self.pause_ms


def admission(connections_max: int = 3, per_ip: int = 100, rates: Rates | None = None, **limits: object) -> Admission:
    made = Admission(ConnectionLimits(1 << 20, connections_max, per_ip, 60_000, **limits), rates or Rates())
    for name, kind in (
        (CLIENTS, ListenerKind.CLIENTS),
        (OTHERS, ListenerKind.CLIENTS),
        (BROKERS, ListenerKind.BROKERS),
        (CONTROLLERS, ListenerKind.CONTROLLERS),
    ):
        made.add_listener(name, kind)
    return made


def has_place(made: Admission, listener: str) -> bool:
    return made._has_place(listener)


def test_all_connections_of_brokers_and_clients_count_and_brokers_have_priority() -> None:
    made = admission(connections_max=3)
    for listener in (CLIENTS, OTHERS, BROKERS):
        assert made.add(listener, "10.0.0.1") is None
    assert not has_place(made, CLIENTS)
    assert not has_place(made, OTHERS)
    assert has_place(made, BROKERS)
    assert not made.has_too_many
    assert made.add(BROKERS, "10.0.0.2") is None
    assert made.has_too_many
    assert has_place(made, CONTROLLERS)


def test_controllers_are_counted_by_themselves() -> None:
    made = admission(connections_max=2)
    for _ in range(2):
        made.add(CONTROLLERS, "10.0.0.1")
    assert not has_place(made, CONTROLLERS)
    assert has_place(made, CLIENTS)


@pytest.mark.parametrize("listener", [CLIENTS, BROKERS])
def test_limit_of_a_listener_holds_for_brokers_too(listener: str) -> None:
    made = admission(connections_max=100, listener_connections_max={listener: 1})
    made.add(listener, "10.0.0.1")
    assert not has_place(made, listener)
    made.remove(listener, "10.0.0.1")
    assert has_place(made, listener)


def test_override_replaces_the_limit_of_an_address() -> None:
    made = admission(100, 1, connections_per_ip_overrides={"10.0.0.2": 2, "10.0.0.3": 0})
    assert made.add(CLIENTS, "10.0.0.1") is None
    assert made.add(CLIENTS, "10.0.0.1") is not None
    assert [made.add(CLIENTS, "10.0.0.2") is None for _ in range(3)] == [True, True, False]
    assert made.add(CLIENTS, "10.0.0.3") is not None
    assert made.count == 3


async def test_listener_waits_for_a_place(autojump_clock: MockClock) -> None:
    made = admission(connections_max=1)
    made.add(CLIENTS, "10.0.0.1")
    admitted = []

    async def wait() -> None:
        await made.wait_for_place(CLIENTS)
        admitted.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.sleep(5)
        assert not admitted
        made.remove(CLIENTS, "10.0.0.1")
        await wait_all_tasks_blocked()
    assert len(admitted) == 1


async def test_listener_waits_as_long_as_its_rate_says(autojump_clock: MockClock) -> None:
    rates = Rates(pause_ms=400)
    made = admission(rates=rates)
    begun = trio.current_time()
    await made.wait_for_place(CLIENTS)
    await made.wait_for_place(BROKERS)
    assert trio.current_time() - begun == pytest.approx(0.8)
    assert rates.limited_by_node == [True, False]
    await made.wait_for_place(CONTROLLERS)
    assert trio.current_time() - begun == pytest.approx(0.8), "rates do not limit controllers"
    assert made.address_pause_ms(CONTROLLERS, "10.0.0.1") == 0
