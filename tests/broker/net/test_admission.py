"""Limits on the number of connections, in all, by listener and by address; brokers have priority (KIP-402, KIP-612)."""

import attrs
import pytest

from broker.net.admission import Admission, ConnectionLimits, Excess, ListenerKind, RateExcess

CLIENTS, OTHERS, BROKERS, CONTROLLERS = "PLAINTEXT", "OTHERS", "BROKERS", "CONTROLLERS"


@attrs.define
class Rates:
    """Clients exceed a rate if `excess` is not None."""

    excess: RateExcess | None = None
    counted: list[str] = attrs.field(factory=list)

    def count(self, listener: str) -> None:
        self.counted.append(listener)

    def admit(self, listener: str, address: str) -> RateExcess | None:
        return self.excess


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


def is_let_in(made: Admission, listener: str, address: str = "10.0.0.1") -> bool:
    return made.admit(listener, address) is None


def test_all_connections_of_brokers_and_clients_count_and_brokers_have_priority() -> None:
    made = admission(connections_max=3)
    assert all(is_let_in(made, listener) for listener in (CLIENTS, OTHERS, BROKERS))
    assert not is_let_in(made, CLIENTS)
    assert not is_let_in(made, OTHERS)
    assert not made.has_too_many
    assert is_let_in(made, BROKERS)
    assert made.has_too_many


@pytest.mark.parametrize("listener", [BROKERS, CONTROLLERS])
@pytest.mark.parametrize("value", [0, 1])
def test_no_limit_holds_for_listeners_of_brokers_and_of_controllers(listener: str, value: int) -> None:
    rates = Rates(RateExcess(1000, is_of_address=False))
    limits = {"listener_connections_max": {listener: value}, "connections_per_ip_overrides": {"10.0.0.1": value}}
    made = admission(value, value, rates, **limits)
    assert all(is_let_in(made, listener) for _ in range(9))
    assert rates.counted == [BROKERS] * 9 * (listener == BROKERS)


def test_controllers_are_counted_by_themselves() -> None:
    made = admission(connections_max=2)
    assert all(is_let_in(made, CONTROLLERS) for _ in range(9))
    assert is_let_in(made, CLIENTS)


def test_limit_of_a_listener() -> None:
    made = admission(connections_max=100, listener_connections_max={CLIENTS: 1})
    assert is_let_in(made, CLIENTS)
    assert not is_let_in(made, CLIENTS)
    assert is_let_in(made, OTHERS)
    made.remove(CLIENTS, "10.0.0.1")
    assert is_let_in(made, CLIENTS)


def test_override_replaces_the_limit_of_an_address() -> None:
    made = admission(100, 1, connections_per_ip_overrides={"10.0.0.2": 2, "10.0.0.3": 0})
    assert [is_let_in(made, CLIENTS, "10.0.0.1") for _ in range(2)] == [True, False]
    assert [is_let_in(made, CLIENTS, "10.0.0.2") for _ in range(3)] == [True, True, False]
    assert not is_let_in(made, CLIENTS, "10.0.0.3")
    assert made.count == 3
    assert "10.0.0.3" not in made._per_address


def test_rates_count_only_connections_within_the_other_limits() -> None:
    excess = RateExcess(400, is_of_address=True)
    made = admission(connections_max=1, rates=Rates(excess))
    reason = "connections are made more often than connection_creation_rate allows"
    assert made.admit(CLIENTS, "10.0.0.1") == Excess(reason, excess)
    made.count_unlimited(CLIENTS, "10.0.0.1")
    reason = "there are 1 connections, as many as max.connections allows"
    assert made.admit(CLIENTS, "10.0.0.1") == Excess(reason)
