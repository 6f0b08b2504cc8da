"""Rates of new connections: of the node, of a listener and of an address (KIP-612)."""

import attrs

from broker.quota import ConnectionRates, QuotaWindows
from metadata.image import MetadataDelta, MetadataImage
from metadata.records import ClientQuotaRecord

LISTENER = "PLAINTEXT"


@attrs.define
class Rates:
    """Rates over two windows of a second, and their clock. A burst is what a limit allows in one second."""

    now_ms: float = 0.0
    rates: ConnectionRates = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.rates = ConnectionRates(QuotaWindows(2, 1), lambda: self.now_ms)

    def set_address(self, name: str | None, limit: float | None) -> None:
        record = ClientQuotaRecord(
            entity=(("ip", name),), key="connection_creation_rate", value=limit or 0.0, remove=limit is None
        )
        delta = MetadataDelta(MetadataImage())
        delta.replay([record])
        self.rates.publish(delta, delta.apply(0))

    def connect(self, address: str = "10.0.0.1", listener: str = LISTENER, *, is_client: bool = True) -> int:
        """The pause of the listener, or else that of the address."""
        pause_ms = self.rates.record(listener, is_limited_by_node=is_client)
        return pause_ms or self.rates.record_address(listener, address, is_limited_by_node=is_client)


def test_limit_of_the_node_has_its_listeners_wait() -> None:
    rates = Rates()
    rates.rates.limit(10, {})
    assert [rates.connect(listener=f"L{number % 2}") for number in range(10)] == [0] * 10
    assert rates.connect() == 100
    assert rates.connect(is_client=False) == 0, "the brokers' listener has priority"


def test_limit_of_a_listener_holds_for_it_alone() -> None:
    rates = Rates()
    rates.rates.limit(1 << 20, {LISTENER: 10})
    assert [rates.connect() for _ in range(11)] == [0] * 10 + [100]
    assert rates.connect(is_client=False) == 200
    assert rates.connect(listener="OTHER") == 0


def test_pause_is_one_window_at_most() -> None:
    rates = Rates()
    rates.rates.limit(1, {})
    assert [rates.connect() for _ in range(5)][-1] == 1000


def test_address_that_connects_too_often_is_refused_and_uses_up_no_other_rate() -> None:
    rates = Rates()
    rates.rates.limit(30, {LISTENER: 30})
    rates.set_address("10.0.0.1", 10)
    assert [rates.connect() for _ in range(10)] == [0] * 10
    assert [rates.connect() for _ in range(50)] == [100] * 50
    assert [rates.connect("10.0.0.2") for _ in range(20)] == [0] * 20
    rates.now_ms += 150
    assert rates.connect() == 0


def test_default_holds_for_each_address_and_a_limit_of_its_own_replaces_it() -> None:
    rates = Rates()
    rates.set_address(None, 1)
    rates.set_address("::0001", 2)
    assert [rates.connect("10.0.0.1") for _ in range(2)] == [0, 1000]
    assert rates.connect("10.0.0.2") == 0
    assert [rates.connect("::1") for _ in range(3)] == [0, 0, 500]
    rates.set_address("::1", None)
    assert rates.connect("::1") > 0, "the default applies"
    rates.set_address(None, None)
    assert rates.connect("::1") == 0


def test_idle_addresses_are_forgotten() -> None:
    rates = Rates()
    rates.set_address(None, 1000)
    for number in range(5000):
        rates.now_ms += 10
        rates.connect(str(number))
    assert len(rates.rates._addresses) <= 1024 + 200


def test_rates_are_told_whether_limited_or_not() -> None:
    rates = Rates()
    for _ in range(3):
        rates.connect()
    rates.connect(listener="BROKERS", is_client=False)
    assert rates.rates.node_rate == 3
    assert rates.rates.listener_rates == {LISTENER: 3, "BROKERS": 1}
